"""The packed files of idle buckets come back unchanged, and the oldest leave first."""

from __future__ import annotations

import random

from bench.commit.scaling import MadeFiles
from stream_app.model.bucket_id import BucketId
from stream_app.table.compact.buckets.idle_buckets import IdleBuckets, LiveBucket

PARTITION = bytes(12)


def test_files_come_back_as_they_were() -> None:
    generator = MadeFiles(random.Random(1))
    live = {
        BucketId(PARTITION, 0): LiveBucket(None, ()),
        BucketId(PARTITION, 1): LiveBucket(8, generator.bucket(3)),
    }
    idle_buckets = IdleBuckets(buckets_max=2, bytes_max=10_000)
    idle_buckets.keep(live)
    assert {bucket: idle_buckets.take(bucket) for bucket in live} == live
    assert not idle_buckets.buckets


def test_the_oldest_buckets_leave_first() -> None:
    generator = MadeFiles(random.Random(1))
    idle_buckets = IdleBuckets(buckets_max=3, bytes_max=10_000)
    for number in range(5):
        idle_buckets.keep({BucketId(PARTITION, number): LiveBucket(None, generator.bucket(2))})
    assert sorted(idle_buckets.buckets) == [(PARTITION, number) for number in (2, 3, 4)]
    idle_buckets.bytes_max = 1_000
    idle_buckets.keep({BucketId(PARTITION, 9): LiveBucket(None, generator.bucket(30))})
    assert not idle_buckets.buckets, "one bucket alone exceeds the bound"
