"""The live files of a snapshot in the order of the LSM trees."""

from __future__ import annotations

from stream_app.app.ops.inspect.bucket_choice import EVERYTHING, BucketChoice
from stream_app.app.text.text_table import NULL
from stream_app.app.text.value_text import row_values_texts
from stream_app.format.binary_row import deserialize_row
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import RowType
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_files import FILES


def live_files(
    table: FileStoreTable, snapshot: Snapshot | None, choice: BucketChoice = EVERYTHING
) -> list[ManifestEntry]:
    """Live files by partition and bucket; in a bucket from level 0 up, newest first."""

    def order(entry: ManifestEntry) -> tuple[object, ...]:
        return *place(table, entry), -entry.file.max_sequence_number, entry.file.file_name

    return sorted(choice.admitted(table, FILES.rows(table, snapshot)), key=order)


def place(table: FileStoreTable, entry: ManifestEntry) -> tuple[str, int, int]:
    """Folder of the partition, bucket and level of a file."""
    return table.paths.partition(entry.partition), entry.bucket, entry.file.level


def key_text(data: bytes, key_type: RowType) -> str:
    """A serialized key: ``7``, ``(a, 7)`` when it has several columns, nothing for none."""
    types = [data_type.as_nullable() for data_type in key_type.types]
    values = row_values_texts(deserialize_row(data, types), types)
    texts = [NULL if value is None else value for value in values]
    return "".join(texts) if len(texts) < 2 else f"({', '.join(texts)})"
