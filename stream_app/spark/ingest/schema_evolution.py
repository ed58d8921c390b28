"""A table of a job follows its source: what rows ask for becomes a new schema before they come in.

One for each table, on the driver. What an epoch's tasks tell is compared with the newest schema. If
that lacks something, a new version is committed, and the tasks run again for this table. Replayed
after a crash, the same rows find the version there.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunction.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.errors import WrongSourceError
from stream_app.model.schema.source_table import SourceTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import EvolutionRules, evolve

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class SchemaEvolution:
    """Brings one table's schema up to its messages.

    Attributes:
        full_key: the key of an option of the format in the configuration.
    """

    rules: EvolutionRules
    full_key: Callable[[str], str] = str
    _told: set[str] = field(init=False, default_factory=set)
    _judged: tuple[int, SourceTable] | None = field(init=False, default=None)

    def apply(self, table: FileStoreTable, told: SourceTable) -> bool:
        """Commit a new version if the messages need one; returns whether it did.

        Raises:
            WrongSourceError: a column cannot follow its source, and the rules say to stop.
        """
        judged = (table.schema.schema_id, told)
        if self._judged == judged:
            return False
        evolved = evolve(table, told, self.rules)
        for change in evolved.changes:
            _LOG.warning("%s follows its source: %s", table.location, change)
        if evolved.kept and self.rules.stops:
            raise WrongSourceError(
                f"the source's columns are no longer those of the table: {'; '.join(evolved.kept)}",
                where=table.location,
                fix="change the column with stream-app alter, or choose warn or ignore for "
                "narrowed-columns",
            )
        for kept in evolved.kept:
            if self.rules.tells and kept not in self._told:
                self._told.add(kept)
                _LOG.warning("%s: %s", table.location, kept)
        for remark in evolved.remarks:
            remedy = remark.remedy(self.full_key)
            _LOG.warning("%s: %s\n  to fix: %s", table.location, remark.what(), remedy)
        self._judged = judged if not evolved.changes else None
        return bool(evolved.changes)
