"""Lists the kinds of tables, and the traits that readers, planners and checks need.

`table.kinds` defines how a kind writes and compacts.

Source: Paimon `table/BucketMode.java`, `KeyValueFileStore.java#bucketMode`,
`AppendOnlyFileStore.java#bucketMode`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from stream_app.model.bucket_id import NOT_FIXED, POSTPONED

_BY_HASH = "by the hash of its bucket key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """Facts of one kind of table.

    Attributes:
        bucket_mode: a text about how a row gets its bucket; two kinds may differ only in this text.
        merges_by_key: whether rows have keys. If so, files are sorted runs of key-values, and
            readers and compactions merge the rows of a key. Otherwise rows only accumulate, and all
            are inserts.
        target_file_size: the default of ``target-file-size`` in bytes.
        has_buckets: whether rows belong to buckets, and a bucket's files have an order.
        has_bucket_number: whether each partition has a fixed number of buckets.
        crosses_partitions: whether a key's row may be in any partition, so that the key may lack
            partition columns.
        indexes_hashes: whether index files map hashes of keys to buckets.
        looks_up_partition: whether the option ``partition-lookup`` lets the rest of a key determine
            its row in any partition.
        postpones: whether new rows wait unread in ``bucket-postpone`` until a compaction assigns
            buckets.
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
POSTPONED_KEYED = replace(_KEYED, bucket_mode="by a later compaction", postpones=True)
BUCKETED_APPEND = replace(_APPEND, bucket_mode=_BY_HASH, has_bucket_number=True)
APPEND = replace(
    _APPEND,
    bucket_mode="by none: each partition is one folder, bucket-0, of files in no order",
    has_buckets=False,
)
KIND_TRAITS = (
    *(KEYED, PARTITION_LOOKUP_KEYED, DYNAMIC_KEYED, CROSS_PARTITION_KEYED, POSTPONED_KEYED),
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
    """Return a kind's traits by keys and the options ``bucket`` and ``partition-lookup``."""
    if not primary_keys:
        return APPEND if bucket == NOT_FIXED else BUCKETED_APPEND
    if bucket == NOT_FIXED:
        return DYNAMIC_KEYED if {*partition_keys} <= {*primary_keys} else CROSS_PARTITION_KEYED
    if bucket < 1:
        return POSTPONED_KEYED
    return PARTITION_LOOKUP_KEYED if looks_up_partition else KEYED


def is_writable(
    primary_keys: Collection[str], partition_keys: Collection[str], bucket: int
) -> bool:
    """Return whether stream_app writes tables with these keys and this value of ``bucket``."""
    traits = kind_traits(primary_keys, partition_keys, bucket)
    return bucket >= 1 or bucket == NOT_FIXED or (traits.postpones and bucket == POSTPONED)
