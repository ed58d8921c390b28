"""Decides whether a table's buckets have a suitable size, and which option would give them one.

Paimon recommends about 1 GB for a bucket. One task at a time writes and compacts a bucket, so large
buckets are slow. Small ones mean many small files, and a merge for each.

Source: Paimon's documentation of buckets ("Data Distribution", "Basic Concepts").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.model.options.bucket_options import (
    BUCKET,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
)

FAIR_SIZE = 1 << 30
"""The bytes of a bucket of suitable size."""
_FAIR_SIZE_MIN = FAIR_SIZE // 8
_FAIR_SIZE_MAX = 2 * FAIR_SIZE
_TARGET_MIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSize:
    """The live files of one bucket.

    Attributes:
        partition: the serialized partition.
        row_count: the number of physical rows, including deletes and older versions.
    """

    partition: bytes
    row_count: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAdvice:
    """A problem with the buckets' sizes, and the remedy.

    Attributes:
        is_large: whether buckets are too large; otherwise they are too small.
        mean_size: the average bytes of a bucket.
        option, value: the option and its value that would give buckets a suitable size.
    """

    is_large: bool
    mean_size: int
    option: str
    value: int


def bucket_advice(
    sizes: Sequence[BucketSize], *, bucket_count: int, width: int, target_row_count: int
) -> BucketAdvice | None:
    """Return the advice about the number of buckets; None if it fits.

    1. Buckets are too large when one of them has more than 2 GB.
    2. They are too small when a partition has several, and a bucket has less than 128 MB on
       average.
    3. A fixed number should fit the largest partition.
    4. Otherwise the number of keys in a bucket should fit, by the bytes of a row. When there are as
       many buckets as a partition begins with, fewer should be open.

    Args:
        sizes: the sizes of buckets with files.
        bucket_count: option ``bucket``.
        width, target_row_count: with ``bucket = -1``, the number of a partition's open buckets and
            the number of hashes of a full one.
    """
    partitions: dict[bytes, list[BucketSize]] = {}
    for size in sizes:
        partitions.setdefault(size.partition, []).append(size)
    if not partitions:
        return None
    total_size = sum(size.byte_count for size in sizes)
    mean_size = total_size // len(sizes)
    partition_buckets_max = max(map(len, partitions.values()))
    is_large = max(size.byte_count for size in sizes) > _FAIR_SIZE_MAX
    if not is_large and (partition_buckets_max == 1 or mean_size >= _FAIR_SIZE_MIN):
        return None
    if bucket_count > 0:
        partition_bytes_max = max(
            sum(size.byte_count for size in partition) for partition in partitions.values()
        )
        option = BUCKET.key
        new_value = max(1, -(-partition_bytes_max // FAIR_SIZE))
        current_value = bucket_count
    elif not is_large and partition_buckets_max <= width:
        option = DYNAMIC_BUCKET_INITIAL_BUCKETS.key
        new_value = 1
        current_value = width
    else:
        row_count = max(sum(size.row_count for size in sizes), 1)
        option = DYNAMIC_BUCKET_TARGET_ROW_NUM.key
        current_value = target_row_count
        new_value = max(_two_digits(FAIR_SIZE * row_count // max(total_size, 1)), _TARGET_MIN)
    # More buckets, or fewer keys per bucket, make buckets smaller, but do not remove a skew.
    shrinks = new_value > current_value if option == BUCKET.key else new_value < current_value
    grows = (
        new_value < current_value
        if option != DYNAMIC_BUCKET_TARGET_ROW_NUM.key
        else new_value > current_value
    )
    if not (shrinks if is_large else grows):
        return None
    return BucketAdvice(is_large=is_large, mean_size=mean_size, option=option, value=new_value)


def _two_digits(count: int) -> int:
    """Round down: 1_234_567 becomes 1_200_000."""
    unit = int("1" + "0" * (len(str(count)) - 2)) if count > 99 else 1
    return count // unit * unit
