"""Decides whether a snapshot inherits the statistics of its predecessor.

Statistics remain valid as long as the schema stays the same.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from stream_app.errors import CorruptFileError
from stream_app.filestore.versions.statistics_files import StatisticsFiles
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class CarriedStatisticsReader:
    """A reader that decides which statistics a snapshot inherits; it reads each file once."""

    table: FileStoreTable
    _file_name: str | None = field(init=False, default=None)
    _schema_id: int | None = field(init=False, default=None)

    def inherited_file(self, base_snapshot: Snapshot | None, schema_id: int) -> str | None:
        """Return the name of the statistics file that a snapshot of this schema inherits, or None.

        Paimon's commit fails if the file is missing. Ours continues, because statistics only help
        planners.
        """
        name = base_snapshot.statistics if base_snapshot else None
        if name is None:
            return None
        if name != self._file_name:
            self._file_name, self._schema_id = name, self._schema_of(name)
        if self._schema_id == schema_id:
            return name
        _LOG.warning(
            "the snapshot has no statistics, because the existing ones are of schema %s, not of "
            "%d: make new ones by stream-app analyze",
            self._schema_id,
            schema_id,
        )
        return None

    def _schema_of(self, name: str) -> int | None:
        try:
            statistics_files = StatisticsFiles(self.table.file_io, self.table.paths)
            return statistics_files.read(name).integer("schemaId")
        except CorruptFileError as error:
            _LOG.warning("statistics cannot be read, so they end here: %s", error)
            return None
