"""Renames a table's columns after its source, in one new schema version.

`planning.schema.column_renames` decides. Readers map columns of older files by their ids.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stream_app.errors import WrongSourceError
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.source_renames import RenameReaction, SourceTableRenames
from stream_app.planning.schema.column_renames import RenameDecision, column_renames
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import alter_by


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRenaming:
    """The renames of one table, according to the names in messages.

    Attributes:
        renames: the renames of the source tables whose rows the table has.
        sent_columns: the columns of the messages.
        can_alias: whether the format accepts values under an old name.
    """

    table: FileStoreTable
    sent_columns: Collection[str]
    renames: Sequence[SourceTableRenames]
    reaction: RenameReaction
    can_alias: bool

    def decision(self) -> RenameDecision:
        """Return the table's reaction to the renames of its source.

        Raises:
            WrongSourceError: names do not determine the column, or an operator must rename it.
        """
        decision = self._decide(self.table.schema)
        if decision.problem:
            where = self.table.location
            fix = decision.fix.replace("TABLE", where)
            raise WrongSourceError(decision.problem, where=where, fix=fix)
        return decision

    def apply(self) -> bool:
        """Rename the columns of the latest schema, and return whether the schema has changed."""
        schema = alter_by(
            self.table, lambda latest_schema: self._decide(latest_schema).changes(latest_schema)
        )
        return schema.schema_id != self.table.schema.schema_id

    def _decide(self, schema: TableSchema) -> RenameDecision:
        return column_renames(
            schema, self.sent_columns, self.renames, self.reaction, can_alias=self.can_alias
        )
