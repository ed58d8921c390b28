"""Which buckets of a table can hold a row that passes a condition.

A condition that lists the values of a partition column, or of every column of the bucket key,
leaves few buckets; the files of all others need not be opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from stream_app.format.binary_row import deserialize_row, encode_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.data_type import RowType
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.table_schema import TableSchema
from stream_app.table.predicate import Predicate, possible_values

_KEYS_MAX = 1000
"""With more keys than this, most buckets hold one of them anyway."""


@dataclass(frozen=True)
class BucketPruning:
    """What is known of the rows that pass.

    Attributes:
        partition_values: the values that a partition column can have, by its place.
        key_hashes: hashes of the bucket keys that can pass; None: any.
    """

    partition_type: RowType
    partition_values: Mapping[int, frozenset[object]]
    key_hashes: frozenset[int] | None

    def may_hold(self, entry: ManifestEntry) -> bool:
        """Whether a row of this entry's bucket can pass."""
        if self.partition_values:
            values = deserialize_row(entry.partition, self.partition_type.types)
            if any(values[i] not in possible for i, possible in self.partition_values.items()):
                return False
        total = entry.total_buckets
        if self.key_hashes is None or total < 1:
            return True
        # Java's remainder keeps the sign of the hash; its size is the bucket.
        return any(abs(key_hash) % total == entry.bucket for key_hash in self.key_hashes)


def bucket_pruning(predicate: Predicate, schema: TableSchema) -> BucketPruning:
    """What a condition says of partitions and bucket keys."""
    known = {
        index: values
        for index, name in enumerate(schema.partition_keys)
        if (values := possible_values(predicate, name)) is not None
    }
    return BucketPruning(schema.partition_type, known, _key_hashes(predicate, schema))


def _key_hashes(predicate: Predicate, schema: TableSchema) -> frozenset[int] | None:
    keys = schema.bucket_keys
    function = schema.options.get("bucket-function.type", "default").lower()
    columns = [possible_values(predicate, name) for name in keys]
    known = [values for values in columns if values is not None]
    if not keys or function != "default" or len(known) < len(keys):
        return None
    if prod(len(values) for values in known) > _KEYS_MAX:
        return None
    types = schema.fields.project(keys).types
    return frozenset(murmur_hash(encode_row(values, types)) for values in product(*known))
