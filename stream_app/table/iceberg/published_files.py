"""Converts the data files that a version adds to Iceberg's form, for `publisher`."""

from __future__ import annotations

from stream_app.errors import UnsupportedTableError
from stream_app.format.iceberg.iceberg_file import iceberg_file
from stream_app.model.iceberg_metadata import IcebergFile
from stream_app.planning.iceberg.visible_files import VisibleChanges
from stream_app.table.file_store_table import FileStoreTable

_PARQUET = ".parquet"


def published_files(
    table: FileStoreTable, changes: VisibleChanges, first_row_id: int | None
) -> dict[str, IcebergFile]:
    """Return the added data files in Iceberg's form, by path.

    Args:
        first_row_id: the row id of the first file's first row; None if the Iceberg format has no
            row ids.

    Raises:
        UnsupportedTableError: a file contains delete rows, or is not Parquet.
    """
    schema_of = table.known_schemas()
    files: dict[str, IcebergFile] = {}
    for path, entry in changes.added_entries.items():
        if entry.file.delete_row_count:
            raise UnsupportedTableError(
                f"a file above level 0 has {entry.file.delete_row_count} rows that delete others, "
                "which Iceberg's readers would take for rows",
                where=path,
                fix="compact the table fully (stream-app compact --full)",
            )
        if not path.endswith(_PARQUET):
            raise UnsupportedTableError(
                "the file is not Parquet, and Iceberg's readers get only Parquet files",
                where=path,
                fix="let a compaction rewrite it: stream-app compact --full",
            )
        files[path] = iceberg_file(entry, path, schema_of(entry.file.schema_id), first_row_id)
        if first_row_id is not None:
            first_row_id += entry.file.row_count
    return files
