"""Lists a snapshot's live files in the order of the LSM trees, and filters them by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.app.text.text_table import NULL_TEXT
from stream_app.app.text.value_text import row_values_texts
from stream_app.errors import UsageError
from stream_app.format.binary_row import deserialize_row
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import RowType
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_files import FILES
from stream_app.table.versions.partition_filter import PartitionFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFilter:
    """Conditions that a bucket must meet, all of them.

    Attributes:
        partitions: column → value as text, for each chosen group of partitions; empty for all.
        bucket: the number of the bucket, or None for all.
    """

    partitions: tuple[Mapping[str, str], ...] = ()
    bucket: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether no condition is given."""
        return not self.partitions and self.bucket is None

    def check(self, table: FileStoreTable, *, fix: str) -> None:
        """Check that the conditions name only partition columns and a valid bucket.

        Args:
            fix: the remedy for a table without partitions, in the command's words.

        Raises:
            UsageError: a condition names anything else.
        """
        if self.bucket is not None and self.bucket < 0:
            raise UsageError(f"--bucket {self.bucket} is below 0", fix="give 0 or more")
        keys = table.schema.partition_keys
        for name in [name for partition in self.partitions for name in partition]:
            if name not in keys:
                raise UsageError(
                    f"{name!r} is not a partition column",
                    where=table.location,
                    fix=f"name some of {', '.join(keys)}"
                    if keys
                    else f"the table has no partitions: {fix}",
                )

    def chosen_entries(
        self, table: FileStoreTable, entries: Iterable[ManifestEntry]
    ) -> Iterator[ManifestEntry]:
        """Yield the entries of the chosen buckets."""
        partition_filter = PartitionFilter(partitions=self.partitions)
        for entry in entries:
            if self.bucket in (None, entry.bucket) and partition_filter.is_named(
                table, entry.partition
            ):
                yield entry


EVERYTHING = BucketFilter()


def live_files(
    table: FileStoreTable, snapshot: Snapshot | None, bucket_filter: BucketFilter = EVERYTHING
) -> list[ManifestEntry]:
    """Return live files by partition, bucket and level, newest file first in a level."""

    def sort_key(entry: ManifestEntry) -> tuple[object, ...]:
        return *file_place(table, entry), -entry.file.max_sequence_number, entry.file.file_name

    return sorted(
        bucket_filter.chosen_entries(table, FILES.read_rows(table, snapshot)), key=sort_key
    )


def file_place(table: FileStoreTable, entry: ManifestEntry) -> tuple[str, int, int]:
    """Return a file's partition folder, bucket and level."""
    return table.paths.partition_path(entry.partition), entry.bucket, entry.file.level


def key_text(data: bytes, key_type: RowType) -> str:
    """Return the text of a serialized key: ``7``, or ``(a, 7)`` for several columns."""
    types = [data_type.as_nullable() for data_type in key_type.types]
    values = row_values_texts(deserialize_row(data, types), types)
    texts = [NULL_TEXT if value is None else value for value in values]
    return "".join(texts) if len(texts) < 2 else f"({', '.join(texts)})"
