"""Which buckets of a table can hold a row that passes a condition.

A condition that lists the values of every column of the bucket key leaves few buckets; the files
of all others need not be opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

from stream_app.errors import StreamAppError
from stream_app.format.binary_row import encode_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.manifest_entry import ManifestEntry
from stream_app.model.table_schema import TableSchema
from stream_app.predicate.predicate import Predicate, possible_values
from stream_app.table.file_store_table import FileStoreTable

_KEYS_MAX = 1000
"""With more keys than this, most buckets hold one of them anyway."""


@dataclass(frozen=True, slots=True)
class BucketPruning:
    """The hashes of the bucket keys that can pass."""

    key_hashes: frozenset[int]

    def may_hold(self, entry: ManifestEntry) -> bool:
        """Whether a row of this entry's bucket can pass."""
        total = entry.total_buckets
        # Java's remainder keeps the sign of the hash; its size is the bucket.
        return total < 1 or any(abs(hashed) % total == entry.bucket for hashed in self.key_hashes)


def hashes_as_today(table: FileStoreTable) -> Callable[[int], bool]:
    """Whether files of a schema lie in the buckets in which their keys would be looked for today.

    Not so after ALTER TYPE of a bucket key, which Paimon allows without a primary key.
    """
    schema_of, todays = table.known_schemas(), table.schema.bucket_key_types

    def hashes(schema_id: int) -> bool:
        try:
            return schema_of(schema_id).bucket_key_types == todays
        except (FileNotFoundError, StreamAppError):
            return False  # whoever reads the file tells of it

    return hashes


def bucket_pruning(predicate: Predicate, schema: TableSchema) -> BucketPruning | None:
    """What a condition says of the bucket keys; None: nothing."""
    keys = schema.bucket_keys
    function = schema.options.get("bucket-function.type", "default").lower()
    columns = [possible_values(predicate, name) for name in keys]
    known = [values for values in columns if values is not None]
    if not keys or function != "default" or len(known) < len(keys):
        return None
    if prod(len(values) for values in known) > _KEYS_MAX:
        return None
    types = schema.fields.project(keys).types
    return BucketPruning(
        frozenset(murmur_hash(encode_row(values, types)) for values in product(*known))
    )
