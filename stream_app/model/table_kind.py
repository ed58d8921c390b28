"""The kinds of tables, and the traits that readers, planners and checks need.

`table.kinds` defines how a kind writes and compacts.

Source: Paimon `table/BucketMode.java`, `KeyValueFileStore.java#bucketMode`,
`AppendOnlyFileStore.java#bucketMode`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from stream_app.model.bucket_id import POSTPONED


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """Facts of one kind of table.

    Attributes:
        bucket_mode: how a row finds its bucket, in words; two kinds may differ in it alone.
        merges_by_key: rows have keys. Files are sorted runs of key-values, and readers and
            compactions merge the rows of a key. Without it rows only gather: they are as they lie
            in their files, and all of them are inserts.
        target_file_size: default of ``target-file-size``, bytes.
        has_buckets: whether rows belong to buckets, and files of a bucket have an order.
        has_bucket_number: whether each partition has a fixed number of buckets.
        crosses_partitions: whether a key finds its row in any partition, so that it may lack
            partition columns.
        indexes_hashes: whether index files give the buckets of keys by their hashes.
        looks_up_partition: whether the rest of a key finds its row in any partition, because the
            table has the option ``partition-lookup``.
        postpones: whether new rows wait in ``bucket-postpone``, unread, until a compaction gives
            them their buckets.
    """

    bucket_mode: str
    merges_by_key: bool
    target_file_size: int
    has_buckets: bool = True
    has_bucket_number: bool = False
    crosses_partitions: bool = False
    indexes_hashes: bool = False
    looks_up_partition: bool = False
    postpones: bool = False


_BY_HASH = "by the hash of its bucket key"
_KEYED = KindTraits(bucket_mode="", merges_by_key=True, target_file_size=128 << 20)
_APPEND = KindTraits(bucket_mode="", merges_by_key=False, target_file_size=256 << 20)
KEYED = replace(_KEYED, bucket_mode=_BY_HASH, has_bucket_number=True)
PARTITION_LOOKUP_KEYED = replace(KEYED, looks_up_partition=True)
DYNAMIC_KEYED = replace(
    _KEYED,
    bucket_mode="by an index of the hashes of its partition's keys",
    indexes_hashes=True,
)
CROSS_PARTITION_KEYED = replace(
    _KEYED,
    bucket_mode="by an index of all keys: a key of any partition finds its older row",
    crosses_partitions=True,
)
POSTPONE_KEYED = replace(_KEYED, bucket_mode="by a later compaction", postpones=True)
BUCKETED_APPEND = replace(_APPEND, bucket_mode=_BY_HASH, has_bucket_number=True)
APPEND = replace(
    _APPEND,
    bucket_mode="by none: each partition is one folder, bucket-0, of files in no order",
    has_buckets=False,
)
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
    return bucket >= 1 or bucket == -1 or (kind.postpones and bucket == POSTPONED)
