"""Keeps the files of idle buckets, to which no epoch of a job has written yet.

`bucket_coordinator` decodes the manifests of whole partitions, and keeps the other buckets' files
here until an epoch writes to them. `mergetree.packed_metadata` packs them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.mergetree.packed_metadata import pack_metadata, unpack_metadata
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta

_BUCKETS_MAX = 20_000
"""The maximum number of buckets, because each call of `IdleBuckets.keep` searches them."""
_BYTES_MAX = 256 << 20
"""The maximum bytes of packed metadata: of two million files, in little of a driver's memory."""


class LiveBucket(NamedTuple):
    """The live files of a bucket, and the partition's bucket count if a file records it."""

    total_buckets: int | None
    files: tuple[DataFileMeta, ...]


@dataclass(slots=True)
class IdleBuckets:
    """The files of idle buckets, at about 130 bytes a file.

    Attributes:
        buckets_max: the maximum number of buckets; the oldest are dropped first.
        bytes_max: the maximum bytes of all packed files.
    """

    buckets_max: int = _BUCKETS_MAX
    bytes_max: int = _BYTES_MAX
    _packed_files: dict[BucketId, tuple[int | None, bytes]] = field(
        init=False, default_factory=dict
    )

    @property
    def buckets(self) -> Set[BucketId]:
        """The buckets whose files are kept."""
        return self._packed_files.keys()

    def neighbours(self, buckets: Collection[BucketId], bucket_count: int) -> set[BucketId]:
        """Return the buckets of the same partitions that are not kept; empty if they are too many.

        Args:
            bucket_count: the number of buckets of a partition.
        """
        partitions = {partition for partition, _ in buckets}
        if len(partitions) * bucket_count > self.buckets_max:
            return set()
        partition_buckets = {
            BucketId(partition, bucket)
            for partition in partitions
            for bucket in range(bucket_count)
        }
        return partition_buckets - self.buckets

    def keep(self, live_buckets: Mapping[BucketId, LiveBucket]) -> None:
        """Add the files of further buckets."""
        for bucket_id, (total_buckets, files) in live_buckets.items():
            self._packed_files[bucket_id] = total_buckets, pack_metadata(files)
        kept_size = 0
        newest_first = reversed(list(self._packed_files.items()))
        for newer_buckets, (bucket_id, (_, packed_files)) in enumerate(newest_first):
            kept_size += len(packed_files)
            if kept_size > self.bytes_max or newer_buckets >= self.buckets_max:
                del self._packed_files[bucket_id]

    def take(self, bucket_id: BucketId) -> LiveBucket:
        """Remove and return the files of a bucket."""
        total_buckets, packed_files = self._packed_files.pop(bucket_id)
        return LiveBucket(total_buckets, unpack_metadata(packed_files))

    def clear(self) -> None:
        """Drop all files."""
        self._packed_files.clear()
