"""Files of buckets come back from their packed form as they were, and the oldest leave first."""

from __future__ import annotations

import random

from bench.commit.scaling import MadeFiles
from stream_app.mergetree.compact.packed_buckets import FilesOfBucket, PackedBuckets

PARTITION = bytes(12)


def test_files_come_back_as_they_were() -> None:
    generator = MadeFiles(random.Random(1))
    live = {
        (PARTITION, 0): FilesOfBucket(None, ()),
        (PARTITION, 1): FilesOfBucket(8, generator.bucket(3)),
    }
    packed = PackedBuckets(buckets_max=2, bytes_max=10_000)
    packed.keep(live)
    assert {bucket: packed.take(bucket) for bucket in live} == live
    assert not packed.buckets


def test_the_oldest_buckets_leave_first() -> None:
    generator = MadeFiles(random.Random(1))
    packed = PackedBuckets(buckets_max=3, bytes_max=10_000)
    for number in range(5):
        packed.keep({(PARTITION, number): FilesOfBucket(None, generator.bucket(2))})
    assert sorted(packed.buckets) == [(PARTITION, number) for number in (2, 3, 4)]
    packed.bytes_max = 1_000
    packed.keep({(PARTITION, 9): FilesOfBucket(None, generator.bucket(30))})
    assert not packed.buckets, "one bucket alone exceeds the bound"
