"""Files of statistics, which snapshots name, and pass on as long as the schema stays.

Source: Paimon `stats/StatsFile.java`, `stats/Statistics.java`, `stats/ColStats.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import FileStorePathFactory, new_name
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.table_statistics import ColumnStatistics, TableStatistics


@dataclass(frozen=True, slots=True)
class StatisticsFiles:
    """Reads and writes the files of one table."""

    file_io: FileIO
    paths: FileStorePathFactory

    def write(self, statistics: TableStatistics) -> str:
        """Write a file; its name."""
        name = new_name("stat")
        columns = {
            name: _column_object(column) for name, column in sorted(statistics.columns.items())
        }
        value = {
            "snapshotId": statistics.snapshot_id,
            "schemaId": statistics.schema_id,
            "mergedRecordCount": statistics.row_count,
            "mergedRecordSize": statistics.byte_count,
            "colStats": columns,
        }
        self.file_io.write_bytes(self.paths.statistics(name), encode_object(value))
        return name

    def read(self, name: str) -> JsonObject:
        """A file's content, also another engine's.

        Raises:
            CorruptFileError: the file is missing or damaged.
        """
        path = self.paths.statistics(name)
        try:
            return JsonObject.decode(self.file_io.read_bytes(path), what="statistics")
        except FileNotFoundError:
            raise CorruptFileError(
                "the file of statistics that a snapshot names is missing",
                where=path,
                fix="make new statistics: stream-app analyze",
            ) from None
        except CorruptFileError as error:
            raise CorruptFileError(error.what, where=path, fix=error.fix) from error

    def delete(self, name: str) -> None:
        """Delete a file that no snapshot names."""
        self.file_io.delete(self.paths.statistics(name))


def _column_object(column: ColumnStatistics) -> dict[str, object]:
    known = {
        "colId": column.column_id,
        "distinctCount": column.distinct_count,
        "min": column.least,
        "max": column.greatest,
        "nullCount": column.null_count,
        "avgLen": column.average_length,
        "maxLen": column.longest,
    }
    return {key: value for key, value in known.items() if value is not None}
