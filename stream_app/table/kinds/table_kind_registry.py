"""Maps a table to its kind.

A new kind needs a `TableKind` in a module here, a line below, and traits in
`model.traits.kind_traits`. If its rows find their buckets in a new way, it needs a state in
`table.job.bucket_state` too. If it finds the rows of its keys by a key index, it needs a rule in
`planning.key_index.index_rule`.

Source: Paimon `table/FileStoreTableFactory.java`, `table/BucketMode.java`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.mergetree.file_access import OldRowLookup
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.kind_traits import (
    APPEND,
    BUCKETED_APPEND,
    CROSS_PARTITION_KEYED,
    DYNAMIC_KEYED,
    KEYED,
    PARTITION_LOOKUP_KEYED,
    POSTPONED_KEYED,
    KindTraits,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.append import APPEND_KIND, BUCKETED_APPEND_KIND
from stream_app.table.kinds.key_indexed import KEY_INDEXED_KIND
from stream_app.table.kinds.keyed import DYNAMIC_KEYED_KIND, KEYED_KIND
from stream_app.table.kinds.postponed_keyed import POSTPONED_KEYED_KIND
from stream_app.table.kinds.table_kind import TableKind
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.write.bucket_assigner import BucketAssigner
from stream_app.table.write.bucket_writer import BucketWriter
from stream_app.table.write.table_write import TableWrite

KINDS: Mapping[KindTraits, TableKind] = {
    KEYED: KEYED_KIND,
    DYNAMIC_KEYED: DYNAMIC_KEYED_KIND,
    CROSS_PARTITION_KEYED: KEY_INDEXED_KIND,
    PARTITION_LOOKUP_KEYED: KEY_INDEXED_KIND,
    POSTPONED_KEYED: POSTPONED_KEYED_KIND,
    BUCKETED_APPEND: BUCKETED_APPEND_KIND,
    APPEND: APPEND_KIND,
}


def table_kind_of(schema: TableSchema) -> TableKind:
    """Return the kind of tables with a schema, which defines how they are written and compacted."""
    return KINDS[schema.kind_traits]


def bucket_assigner(table: FileStoreTable, basis: BucketBasis = NO_BASIS) -> BucketAssigner:
    """Return the assigner of new rows to partitions and buckets, for a table version."""
    return table_kind_of(table.schema).make_bucket_assigner(table, basis)


def table_write(
    table: FileStoreTable, *, next_sequence_number: int, basis: BucketBasis = NO_BASIS
) -> TableWrite:
    """Return the writer of one task's share of an epoch; see `TableWriteFactory`."""
    return table_kind_of(table.schema).make_table_write(table, next_sequence_number, basis)


def bucket_writer(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    *,
    next_sequence_number: int,
    old_row_lookup: OldRowLookup | None = None,
) -> BucketWriter:
    """Return the writer of one bucket for one epoch; see `BucketWriterFactory`."""
    make = table_kind_of(table.schema).make_bucket_writer
    return make(
        table,
        partition,
        bucket,
        next_sequence_number=next_sequence_number,
        old_row_lookup=old_row_lookup,
    )
