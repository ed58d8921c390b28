"""Reads and writes statistics files, which snapshots inherit while the schema stays the same.

Source: Paimon `stats/StatsFile.java`, `stats/Statistics.java`, `stats/ColStats.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import FileStorePathFactory, new_name
from stream_app.format.json_object import JsonObject, encode_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; None if unknown.

    Attributes:
        minimum: the minimum as text, in Paimon's form.
        maximum: the maximum in the same form.
        average_length: the average length of its values in characters or bytes, rounded up.
        length_max: the length of the longest value.
    """

    column_id: int
    distinct_count: int
    null_count: int
    minimum: str | None = None
    maximum: str | None = None
    average_length: int | None = None
    length_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of one version of a table.

    Attributes:
        snapshot_id: the version whose rows were read.
        schema_id: the schema with the columns.
        row_count: the rows that readers see.
        byte_count: their share of the bytes of all data files.
    """

    snapshot_id: int
    schema_id: int
    row_count: int
    byte_count: int
    columns: Mapping[str, ColumnStatistics]


@dataclass(frozen=True, slots=True)
class StatisticsFiles:
    """The statistics files of one table."""

    file_io: FileIO
    paths: FileStorePathFactory

    def write(self, statistics: TableStatistics) -> str:
        """Write a file, and return its name."""
        name = new_name("stat")
        columns = {
            name: _column_object(column) for name, column in sorted(statistics.columns.items())
        }
        document = {
            "snapshotId": statistics.snapshot_id,
            "schemaId": statistics.schema_id,
            "mergedRecordCount": statistics.row_count,
            "mergedRecordSize": statistics.byte_count,
            "colStats": columns,
        }
        self.file_io.write_bytes(self.paths.statistics(name), encode_object(document))
        return name

    def read(self, name: str) -> JsonObject:
        """Read a file, which another engine may have written.

        Raises:
            CorruptFileError: the file is missing or damaged.
        """
        path = self.paths.statistics(name)
        try:
            return JsonObject.decode(self.file_io.read_bytes(path), file_kind="statistics")
        except FileNotFoundError:
            raise CorruptFileError(
                "the file of statistics that a snapshot names is missing",
                where=path,
                fix="make new statistics: stream-app analyze",
            ) from None
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error

    def delete(self, name: str) -> None:
        """Delete a file that no snapshot names."""
        self.file_io.delete(self.paths.statistics(name))


def _column_object(column: ColumnStatistics) -> dict[str, object]:
    values = {
        "colId": column.column_id,
        "distinctCount": column.distinct_count,
        "min": column.minimum,
        "max": column.maximum,
        "nullCount": column.null_count,
        "avgLen": column.average_length,
        "maxLen": column.length_max,
    }
    return {key: value for key, value in values.items() if value is not None}
