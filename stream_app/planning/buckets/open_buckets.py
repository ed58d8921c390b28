"""Decides which buckets of a partition are open, that is get the keys that the partition lacks.

A table with ``bucket = -1`` and a key has an index with the 32-bit hashes of each bucket's keys. A
key whose hash is in the index goes to the bucket of that hash. The hash alone determines the open
bucket of any other key. So all tasks with the same index and open buckets agree without
communication.

Each epoch is planned with the counts of a snapshot, so a bucket may exceed the target by the keys
of one or two epochs.

Source: Paimon `index/PartitionIndex.java#assign`, `index/HashBucketAssigner.java`. There each of
several assigners fills its own buckets, one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, islice

from stream_app.model.options.bucket_options import (
    BUCKET_COUNT_MAX,
    DYNAMIC_BUCKET_ASSIGNER_PARALLELISM,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
    bucket_count_max,
)
from stream_app.model.options.core_options import CoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBucketRules:
    """The rules for buckets in a table's options.

    Attributes:
        target_row_count: the number of hashes of a full bucket (``dynamic-bucket.target-row-num``).
        width: the number of open buckets of a partition (``dynamic-bucket.initial-buckets``).
        max_buckets: the maximum number of a partition's buckets (``dynamic-bucket.max-buckets``).
    """

    target_row_count: int
    width: int = 1
    max_buckets: int = BUCKET_COUNT_MAX

    @classmethod
    def of_options(cls, options: CoreOptions) -> DynamicBucketRules:
        """Return the rules of a table."""
        widths = (
            options[DYNAMIC_BUCKET_INITIAL_BUCKETS],
            options[DYNAMIC_BUCKET_ASSIGNER_PARALLELISM],
        )
        return cls(
            target_row_count=options[DYNAMIC_BUCKET_TARGET_ROW_NUM],
            width=min((width for width in widths if width is not None), default=1),
            max_buckets=bucket_count_max(options[DYNAMIC_BUCKET_MAX_BUCKETS]),
        )


def open_buckets(counts: Mapping[int, int], rules: DynamicBucketRules) -> tuple[int, ...]:
    """Return the open buckets of a partition, ascending; at least one.

    1. The lowest buckets that are not full, as many as the rules say.
    2. If these are too few: new buckets, with the lowest numbers that are free.
    3. If all buckets are full and no further one is allowed: all.

    Args:
        counts: bucket → hashes in its index; empty for a new partition.
    """
    unfilled_buckets = [
        bucket for bucket in sorted(counts) if counts[bucket] < rules.target_row_count
    ]
    buckets = unfilled_buckets[: rules.width]
    new_buckets_max = max(rules.max_buckets - len(counts), 0)
    free_buckets = (bucket for bucket in count() if bucket not in counts)
    buckets += islice(free_buckets, min(rules.width - len(buckets), new_buckets_max))
    return tuple(sorted(buckets or counts))
