"""What tasks do to a table of any kind: assign buckets, write rows, run compactions."""

from __future__ import annotations

from dataclasses import replace

from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.model.bucket_change import BucketChange, LookUp
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.key_index.placed_write import KeyShares, PlacedWrite
from stream_app.table.kinds.registry import kind_of
from stream_app.table.storage_errors import merge_errors
from stream_app.table.write.bucket_assigner import BucketAssigner
from stream_app.table.write.bucket_writer import BucketWriter
from stream_app.table.write.table_write import TableWrite

__all__ = [
    "CompactRequest",
    "bucket_assigner",
    "bucket_writer",
    "compact_bucket",
    "table_write",
]


def bucket_assigner(table: FileStoreTable, index: str | None) -> BucketAssigner:
    """Finds the partition and bucket of new rows.

    Args:
        index: name of the index manifest of the table's newest snapshot; see `IndexBasis`.
    """
    if (rule := index_rule(table.schema)) is not None:
        return KeyShares(table.schema, rule)  # `PlacedWrite` finds the buckets
    return kind_of(table.schema).bucket_assigner(table, index)


def table_write(
    table: FileStoreTable,
    *,
    next_sequence_number: int,
    index: str | None,
    snapshot_id: int | None = None,
) -> TableWrite:
    """The writer of one task's share of an epoch.

    Args:
        next_sequence_number: greater than any in the table.
        index: as `bucket_assigner`.
        snapshot_id: of the version on which is written; see `IndexBasis`.
    """
    kind = kind_of(table.schema)
    if (rule := index_rule(table.schema)) is not None:
        assert table.is_emptied or snapshot_id is not None, "keys find their rows in a version"
        return PlacedWrite(
            table,
            kind.bucket_writer,
            KeyIndexes.of(table, rule),
            next_sequence_number=next_sequence_number,
            snapshot_id=snapshot_id or 0,
        )
    return TableWrite(
        table,
        kind.bucket_writer,
        next_sequence_number=next_sequence_number,
        bucket_index=None if kind.bucket_indexes is None else kind.bucket_indexes(index),
    )


def bucket_writer(
    table: FileStoreTable, partition: bytes, bucket: int, *, next_sequence_number: int
) -> BucketWriter:
    """The writer of one bucket for one epoch; see `BucketWriters`."""
    make = kind_of(table.schema).bucket_writer
    return make(table, partition, bucket, next_sequence_number=next_sequence_number)


def compact_bucket(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Merge the request's files, or join them when the table has no key.

    On failure it deletes its files.

    Raises:
        CorruptFileError: a file to merge cannot be read.
    """
    began = table.clock.steady_seconds()
    with merge_errors(table.paths.bucket(request.partition, request.bucket)):
        change = kind_of(table.schema).rewrite(table, request)
    if table.kind.merges_by_key and table.options.looks_up:
        names = frozenset(file.file_name for file in request.above)
        look_up = LookUp(output_level=request.unit.output_level, files=names)
        change = replace(change, look_up=look_up)
    return replace(change, seconds=table.clock.steady_seconds() - began)
