"""Keeps files of buckets to which no epoch writes, in packed form (`mergetree.packed_files`)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.mergetree.packed_files import pack_files, unpack_files
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta


class FilesOfBucket(NamedTuple):
    """The live files of a bucket, and the partition's bucket count if a file records it."""

    total_buckets: int | None
    files: tuple[DataFileMeta, ...]


@dataclass(slots=True)
class PackedBuckets:
    """The files of buckets, at about 130 bytes a file.

    Attributes:
        buckets_max: the maximum number of buckets; the oldest are dropped first.
        bytes_max: the maximum bytes of all packed files.
    """

    buckets_max: int = 20_000
    bytes_max: int = 256 << 20
    _packed: dict[BucketId, tuple[int | None, bytes]] = field(init=False, default_factory=dict)

    @property
    def buckets(self) -> Set[BucketId]:
        """The buckets whose files are kept."""
        return self._packed.keys()

    def keep(self, by_bucket: Mapping[BucketId, FilesOfBucket]) -> None:
        """Add the files of further buckets."""
        for bucket, live in by_bucket.items():
            self._packed[bucket] = live.total_buckets, pack_files(live.files)
        size = 0
        for number, (bucket, (_, data)) in enumerate(reversed(list(self._packed.items()))):
            size += len(data)
            if size > self.bytes_max or number >= self.buckets_max:
                del self._packed[bucket]

    def take(self, bucket: BucketId) -> FilesOfBucket:
        """Remove and return the files of a bucket."""
        total_buckets, data = self._packed.pop(bucket)
        return FilesOfBucket(total_buckets, unpack_files(data))

    def clear(self) -> None:
        """Drop all files."""
        self._packed.clear()
