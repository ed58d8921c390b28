"""Decides how many buckets a partition with ``bucket = -2`` gets with its first rows.

Source: Paimon `table/PostponeUtils.java#determineBucketNum`, `#decideFixedBucketNum`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.options.bucket_options import (
    POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM,
    POSTPONE_DEFAULT_BUCKET_NUM,
    POSTPONE_TARGET_ROW_NUM_PER_BUCKET,
    POSTPONE_TARGET_SIZE_PER_BUCKET,
)
from stream_app.model.options.core_options import CoreOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstBucketRules:
    """The rules for a partition without buckets.

    Attributes:
        default: the number of buckets; None: a target decides.
        target_row_count: the target rows of a bucket; None: `target_size` decides.
        target_size: the target bytes of a bucket.
        buckets_max: the maximum number of buckets that a batch derives from its rows.
    """

    default: int | None
    target_row_count: int | None
    target_size: int
    buckets_max: int

    @classmethod
    def of_options(cls, options: CoreOptions) -> FirstBucketRules:
        """Return the rules of a table."""
        return cls(
            default=options[POSTPONE_DEFAULT_BUCKET_NUM],
            target_row_count=options[POSTPONE_TARGET_ROW_NUM_PER_BUCKET],
            target_size=options[POSTPONE_TARGET_SIZE_PER_BUCKET],
            buckets_max=options[POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM],
        )


def first_bucket_count(row_count: int, size: int, rules: FirstBucketRules) -> int:
    """Return the number of buckets of a partition by its rows and bytes in ``bucket-postpone``."""
    if rules.default is not None:
        return rules.default
    if rules.target_row_count is not None:
        return max(1, -(-row_count // rules.target_row_count))
    return max(1, -(-size // rules.target_size))


def batch_bucket_count(row_count: int, size: int, rules: FirstBucketRules) -> int:
    """Return the number of buckets of a partition by the rows and bytes that replace its rows.

    A derived number is rounded up to a power of two.
    """
    count = first_bucket_count(row_count, size, rules)
    if rules.default is not None:
        return count
    return min(1 << (count - 1).bit_length(), rules.buckets_max)
