"""Which buckets `inspect` is to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.table.compact.compacted_buckets import CompactionChoice
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChoice:
    """The conditions, all of which a bucket has to fulfil.

    Attributes:
        partitions: column → value as text, of partitions or of groups of them; empty: all.
        bucket: its number; None: all.
    """

    partitions: tuple[Mapping[str, str], ...] = ()
    bucket: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether there is no condition."""
        return not self.partitions and self.bucket is None

    def check(self, table: FileStoreTable, *, without_partitions: str) -> None:
        """See that partition columns and a possible bucket are named.

        Args:
            without_partitions: what to do when the table has none, in the words of the verb.

        Raises:
            UsageError: something else is.
        """
        if self.bucket is not None and self.bucket < 0:
            raise UsageError(f"--bucket {self.bucket} is below 0", fix="buckets begin with 0")
        keys = table.schema.partition_keys
        for name in [name for partition in self.partitions for name in partition]:
            if name not in keys:
                raise UsageError(
                    f"{name!r} is no partition column",
                    where=table.location,
                    fix=f"name some of {', '.join(keys)}"
                    if keys
                    else f"the table has no partitions: {without_partitions}",
                )

    def admitted(
        self, table: FileStoreTable, entries: Iterable[ManifestEntry]
    ) -> Iterator[ManifestEntry]:
        """The entries of buckets that are to be shown."""
        named = CompactionChoice(partitions=self.partitions)
        for entry in entries:
            if self.bucket in (None, entry.bucket) and named.is_named(table, entry.partition):
                yield entry


EVERYTHING = BucketChoice()
