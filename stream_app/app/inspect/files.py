"""The live files of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.app.arguments.bucket_choice import EVERYTHING, BucketChoice
from stream_app.app.output.listing import time_text
from stream_app.app.output.text_table import NULL
from stream_app.app.output.value_text import row_values_texts
from stream_app.format.binary_row import deserialize_row
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import RowType
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One data file.

    Attributes:
        deletes: rows of kind -U and -D; None when its writer did not say.
        created: local time of the writer, as Paimon keeps it.
    """

    partition: str
    bucket: int
    level: int
    file: str
    rows: int
    deletes: int | None
    bytes: int
    min_key: str
    max_key: str
    min_sequence: int
    max_sequence: int
    schema: int
    source: str | None
    created: str | None


def file_rows(
    table: FileStoreTable, snapshot: Snapshot | None, choice: BucketChoice = EVERYTHING
) -> list[FileRow]:
    """Live files by partition and bucket; in a bucket from level 0 up, newest first."""
    return [row for row, _ in rows_and_files(table, snapshot, choice)]


def rows_and_files(
    table: FileStoreTable, snapshot: Snapshot | None, choice: BucketChoice
) -> list[tuple[FileRow, DataFileMeta]]:
    """As `file_rows`, with the metadata as it is in the manifest."""
    pairs = [
        (_row(table, entry), entry.file)
        for entry in FileStoreScan(table).live(snapshot)
        if choice.admits(table, entry.partition, entry.bucket)
    ]
    return sorted(pairs, key=lambda one: (*place(one[0]), -one[0].max_sequence, one[0].file))


def place(row: FileRow) -> tuple[str, int, int]:
    """Partition, bucket and level."""
    return row.partition, row.bucket, row.level


def key_text(data: bytes, key_type: RowType) -> str:
    """A serialized key: ``7``, ``(a, 7)`` when it has several columns, nothing for none."""
    types = [data_type.as_nullable() for data_type in key_type.types]
    values = row_values_texts(deserialize_row(data, types), types)
    texts = [NULL if value is None else value for value in values]
    return "".join(texts) if len(texts) < 2 else f"({', '.join(texts)})"


def _row(table: FileStoreTable, entry: ManifestEntry) -> FileRow:
    file, key_type = entry.file, table.schema.key_type
    return FileRow(
        partition=table.paths.partition(entry.partition),
        bucket=entry.bucket,
        level=file.level,
        file=file.file_name,
        rows=file.row_count,
        deletes=file.delete_row_count,
        bytes=file.file_size,
        min_key=key_text(file.min_key, key_type),
        max_key=key_text(file.max_key, key_type),
        min_sequence=file.min_sequence_number,
        max_sequence=file.max_sequence_number,
        schema=file.schema_id,
        source=None if file.file_source is None else file.file_source.name,
        created=time_text(file.creation_time_ms, zone=""),
    )
