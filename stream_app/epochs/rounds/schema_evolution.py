"""Evolves schemas: a table gets the columns that rows need before the rows are committed.

The driver has a `SchemaEvolution` for each table. It compares an epoch's messages with the latest
schema. If a column is missing, it commits a new version, and the tasks run again for this table.
When rows are repeated after a crash, the version already exists.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunction.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from stream_app.cdc.column_drift import NARROWED_COLUMNS
from stream_app.checkpoint.job_state import JobState, JobWarning
from stream_app.errors import CommitError, WrongSourceError
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_renames import RenameReaction
from stream_app.model.source.source_table import SourceTable
from stream_app.model.source.topic_name import in_cluster
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import EvolutionRules, evolve
from stream_app.table.schema.renames import TableRenaming

_LOG = logging.getLogger(__name__)
_ALTER_FIX = "change the column with stream-app alter"


_WAIT_MS = 60_000
"""How long a table waits for the statement that has added or renamed a column."""
_RENAMED_FIX = (
    "if one is another column under a new name, the old column has the earlier values: let the job "
    "read the topic of the schema changes, and the connector send those of gh-ost's tables"
)


class AwaitedStatementError(CommitError):
    """Columns are new, and the statement that explains them may still arrive in another topic."""

    def __init__(self, where: str, columns: str) -> None:
        super().__init__(
            f"the columns {columns} are new: the table waits for the statement of the source that "
            "shows whether they were renamed",
            where=where,
            fix=f"do nothing: after {_WAIT_MS // 1000} s the table gets them as columns of their "
            "own",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRules:
    """The rules by which one table follows renamed columns.

    Attributes:
        name: the table's name within the job.
        read_state: returns the job's state.
        can_alias: whether the format accepts values under an old name.
    """

    name: str
    reaction: RenameReaction
    read_state: Callable[[], JobState]
    can_alias: bool
    now_ms: Callable[[], int]

    def renaming(self, table: FileStoreTable, sent_columns: Collection[str]) -> TableRenaming:
        """Return the renames of the table, by the names in messages."""
        return TableRenaming(
            table=table,
            sent_columns=sent_columns,
            renames=self.read_state().renames.of(self._origins()),
            reaction=self.reaction,
            can_alias=self.can_alias,
        )

    def reads_statements(self) -> bool:
        """Return whether the job reads statements of the databases whose rows the table has."""
        databases = self.read_state().renames.databases
        return any(
            in_cluster(origin.cluster, origin.database) in databases for origin in self._origins()
        )

    def has_waited(self) -> bool:
        """Return whether the table has been held back for long enough."""
        held_table = self.read_state().held_tables.get(self.name)
        return held_table is not None and self.now_ms() - held_table.since_ms >= _WAIT_MS

    def _origins(self) -> list[Origin]:
        return [origin for origin, name in self.read_state().targets.items() if name == self.name]


@dataclass(slots=True)
class SchemaEvolution:
    """The evolution of one table's schema to fit its messages.

    Attributes:
        name: ``DATABASE.TABLE``.
        full_key_of: returns the key of an option of the format in the configuration.
        rename_rules: the rules for renamed columns; None if the table does not follow them.
    """

    evolution_rules: EvolutionRules
    name: str = ""
    full_key_of: Callable[[str], str] = str
    rename_rules: RenameRules | None = None
    _warned_of: set[str] = field(init=False, default_factory=set)
    _followed_versions: tuple[int, SourceTable] | None = field(init=False, default=None)

    def follow(
        self, table: FileStoreTable, description: SourceTable | None
    ) -> Sequence[JobWarning]:
        """Rename columns as the source did, or otherwise commit the columns that the messages need.

        After a rename the messages are read again, by the new names.

        Args:
            description: the description of the messages; None if they need no new schema.

        Raises:
            WrongSourceError: as `apply`, or the table is held back because of a rename.
            AwaitedStatementError: a column is new, and no statement of the source says why.
        """
        warnings: Sequence[JobWarning] = ()
        if self.rename_rules is not None:
            sent_columns = (
                [] if description is None else [column.name for column in description.columns]
            )
            renaming = self.rename_rules.renaming(table, sent_columns)
            warnings = self._warnings_of_new_columns(self.rename_rules, renaming)
            if self._rename(renaming):
                return warnings
        if description is not None:
            warnings = [*warnings, *self.apply(table, description)]
        return warnings

    def _warnings_of_new_columns(
        self, rename_rules: RenameRules, renaming: TableRenaming
    ) -> Sequence[JobWarning]:
        """Return a warning of new columns that no statement of the source explains.

        Raises:
            AwaitedStatementError: the statement may still come.
        """
        decision = renaming.decision()
        if not (decision.awaited_columns and rename_rules.reads_statements()):
            return []
        columns_text = ", ".join(map(repr, decision.awaited_columns))
        if decision.awaits_statement and not rename_rules.has_waited():
            raise AwaitedStatementError(renaming.table.location, columns_text)
        problem = f"the columns {columns_text} are new, and no statement of the source says why"
        return [JobWarning(table=self.name, problem=problem, fix=_RENAMED_FIX, is_lasting=True)]

    def _rename(self, renaming: TableRenaming) -> bool:
        """Rename columns, and return whether the schema has changed."""
        decision, table = renaming.decision(), renaming.table
        if not decision.changes(table.schema):
            return False
        for old_name, new_name in decision.renames:
            _LOG.warning(
                "%s follows its source: column %r is now %r", table.location, old_name, new_name
            )
        return renaming.apply()

    def apply(self, table: FileStoreTable, description: SourceTable) -> Sequence[JobWarning]:
        """Commit a new version if the messages need one; return warnings about columns.

        Raises:
            WrongSourceError: a column cannot follow its source, and the rules require an error.
        """
        versions = (table.schema.schema_id, description)
        if self._followed_versions == versions:
            return []
        evolution = evolve(table, description, self.evolution_rules)
        for change in evolution.changes:
            _LOG.warning("%s follows its source: %s", table.location, change)
        if evolution.kept_columns and self.evolution_rules.stops_job:
            kept_columns_text = "; ".join(evolution.kept_columns)
            raise WrongSourceError(
                f"the source's columns are no longer those of the table: {kept_columns_text}",
                where=table.location,
                fix=f"{_ALTER_FIX}, or choose warn or ignore for narrowed-columns",
            )
        self._followed_versions = versions if not evolution.changes else None
        fix = f"{_ALTER_FIX}, or set {self.full_key_of(NARROWED_COLUMNS)} = 'ignore'"
        new_texts = [text for text in evolution.kept_columns if text not in self._warned_of]
        self._warned_of.update(new_texts)
        return [
            *(
                JobWarning(table=self.name, problem=text, fix=fix)
                for text in new_texts
                if self.evolution_rules.logs_warning
            ),
            *(
                JobWarning(
                    table=self.name,
                    problem=remark.text(),
                    fix=remark.remedy(self.full_key_of),
                    is_lasting=True,
                )
                for remark in evolution.remarks
            ),
        ]
