"""Tables with a primary key and ``bucket = -1``: a bucket for each so many keys, and their index.

A bucket is the LSM tree of any keyed table.

Source: Paimon `KeyValueFileStore.java#newWrite`, `index/DynamicBucketIndexMaintainer.java`.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.write.dynamic_buckets import DynamicBuckets, HashIndexWriter
from stream_app.table.write.table_write import BucketIndexes


def _bucket_indexes(index: str | None) -> BucketIndexes:
    def make(table: FileStoreTable, partition: bytes, bucket: int) -> HashIndexWriter:
        return HashIndexWriter(table, partition, bucket, index)

    return make


DYNAMIC_KEYED_KIND = replace(
    KEYED_KIND, bucket_assigner=DynamicBuckets, bucket_indexes=_bucket_indexes
)
