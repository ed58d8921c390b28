"""Evolves schemas: a table gets the columns that rows ask for before the rows are committed.

One for each table, on the driver. It compares an epoch's messages with the newest schema. If that
lacks something, it commits a new version, and the tasks run again for this table. Rows repeated
after a crash have the version already.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunction.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stream_app.cdc.column_drift import NARROWED_COLUMNS
from stream_app.errors import WrongSourceError
from stream_app.model.schema.source_table import SourceTable
from stream_app.spark.ingest.job_state import JobWarning
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import EvolutionRules, evolve

_LOG = logging.getLogger(__name__)
_ALTER = "change the column with stream-app alter"


@dataclass(slots=True)
class SchemaEvolution:
    """Brings one table's schema up to its messages.

    Attributes:
        name: ``DATABASE.TABLE``.
        full_key: the key of an option of the format in the configuration.
    """

    rules: EvolutionRules
    name: str = ""
    full_key: Callable[[str], str] = str
    _kept: set[str] = field(init=False, default_factory=set)
    _judged: tuple[int, SourceTable] | None = field(init=False, default=None)

    def apply(self, table: FileStoreTable, description: SourceTable) -> Sequence[JobWarning]:
        """Commit a new version if the messages need one; return warnings about columns.

        Raises:
            WrongSourceError: a column cannot follow its source, and the rules say to stop.
        """
        judged = (table.schema.schema_id, description)
        if self._judged == judged:
            return []
        evolved = evolve(table, description, self.rules)
        for change in evolved.changes:
            _LOG.warning("%s follows its source: %s", table.location, change)
        if evolved.kept and self.rules.stops:
            raise WrongSourceError(
                f"the source's columns are no longer those of the table: {'; '.join(evolved.kept)}",
                where=table.location,
                fix=f"{_ALTER}, or choose warn or ignore for narrowed-columns",
            )
        self._judged = judged if not evolved.changes else None
        fix = f"{_ALTER}, or set {self.full_key(NARROWED_COLUMNS)} = 'ignore'"
        kept = [column for column in evolved.kept if column not in self._kept]
        self._kept.update(kept)
        return [
            *(JobWarning(table=self.name, what=what, fix=fix) for what in kept if self.rules.warns),
            *(
                JobWarning(
                    table=self.name,
                    what=remark.text(),
                    fix=remark.remedy(self.full_key),
                    is_lasting=True,
                )
                for remark in evolved.remarks
            ),
        ]
