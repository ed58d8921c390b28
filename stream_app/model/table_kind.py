"""The kinds of tables, and the traits that readers, planners and checks need.

How a kind writes and compacts stands in `table.kinds`.

Source: Paimon `table/BucketMode.java`, `KeyValueFileStore.java#bucketMode`,
`AppendOnlyFileStore.java#bucketMode`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, replace


class BucketMode(enum.Enum):
    """The way in which a row finds its bucket."""

    FIXED = "by the hash of its bucket key"
    HASH_DYNAMIC = "by an index of the hashes of its partition's keys"
    KEY_DYNAMIC = "by an index of all keys: a key of any partition finds its older row"
    POSTPONE = "by a later compaction"
    UNAWARE = "by none: each partition is one folder, bucket-0, of files in no order"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """Facts of one kind of table.

    Attributes:
        merges_by_key: rows have keys. Files are sorted runs of key-values, and readers and
            compactions merge the rows of a key. Without it rows only gather: they are as they lie
            in their files, and all of them are inserts.
        bucket_mode: how a row finds its bucket.
        target_file_size: default of ``target-file-size``, bytes.
        looks_up_partition: whether the rest of a key finds its row in any partition, because the
            table has the option ``partition-lookup``.
        is_supported: whether stream_app reads and writes tables of this kind.
    """

    merges_by_key: bool
    bucket_mode: BucketMode
    target_file_size: int
    looks_up_partition: bool = False
    is_supported: bool = True

    @property
    def has_buckets(self) -> bool:
        """Whether rows belong to buckets, and files of a bucket have an order."""
        return self.bucket_mode is not BucketMode.UNAWARE

    @property
    def has_bucket_number(self) -> bool:
        """Whether each partition has a fixed number of buckets."""
        return self.bucket_mode is BucketMode.FIXED

    @property
    def crosses_partitions(self) -> bool:
        """Whether a key finds its row in any partition, so that it may lack partition columns."""
        return self.bucket_mode is BucketMode.KEY_DYNAMIC

    @property
    def indexes_hashes(self) -> bool:
        """Whether index files tell the buckets of keys by their hashes."""
        return self.bucket_mode is BucketMode.HASH_DYNAMIC


def _keyed(bucket_mode: BucketMode) -> KindTraits:
    return KindTraits(merges_by_key=True, bucket_mode=bucket_mode, target_file_size=128 << 20)


def _append(bucket_mode: BucketMode) -> KindTraits:
    return KindTraits(merges_by_key=False, bucket_mode=bucket_mode, target_file_size=256 << 20)


KEYED = _keyed(BucketMode.FIXED)
PARTITION_LOOKUP_KEYED = replace(KEYED, looks_up_partition=True)
DYNAMIC_KEYED = _keyed(BucketMode.HASH_DYNAMIC)
CROSS_PARTITION_KEYED = _keyed(BucketMode.KEY_DYNAMIC)
POSTPONE_KEYED = replace(_keyed(BucketMode.POSTPONE), is_supported=False)
BUCKETED_APPEND = _append(BucketMode.FIXED)
APPEND = _append(BucketMode.UNAWARE)
KIND_TRAITS = (
    *(KEYED, PARTITION_LOOKUP_KEYED, DYNAMIC_KEYED, CROSS_PARTITION_KEYED, POSTPONE_KEYED),
    *(BUCKETED_APPEND, APPEND),
)
"""The traits of all kinds of tables: Paimon's, and `PARTITION_LOOKUP_KEYED`."""


def kind_traits(
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    bucket: int,
    *,
    looks_up_partition: bool = False,
) -> KindTraits:
    """The kind that a table has by its keys and its options ``bucket``, ``partition-lookup``."""
    if not primary_keys:
        return APPEND if bucket == -1 else BUCKETED_APPEND
    if bucket == -1:
        return DYNAMIC_KEYED if {*partition_keys} <= {*primary_keys} else CROSS_PARTITION_KEYED
    if bucket < 1:
        return POSTPONE_KEYED
    return PARTITION_LOOKUP_KEYED if looks_up_partition else KEYED


def is_writable(
    primary_keys: Collection[str], partition_keys: Collection[str], bucket: int
) -> bool:
    """Whether stream_app writes tables with these keys and this value of ``bucket``."""
    kind = kind_traits(primary_keys, partition_keys, bucket)
    return kind.is_supported and (bucket >= 1 or bucket == -1)
