"""The parts of tables whose keys find their rows in any partition by a key index.

A key share takes the place of a bucket until the writing task has placed its rows.

Source: Paimon `crosspartition/GlobalIndexAssigner.java`.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.planning.key_index.index_rule import IndexRule, index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.key_index.placed_write import KeyShareAssigner, PlacedWrite
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.versions.bucket_basis import BucketBasis


def _placed_write(
    table: FileStoreTable, next_sequence_number: int, basis: BucketBasis
) -> PlacedWrite:
    assert table.is_emptied or basis.snapshot_id is not None, "keys find their rows in a version"
    return PlacedWrite(
        table,
        KEYED_KIND.make_bucket_writer,
        KeyIndexes.of_table(table, _rule(table)),
        next_sequence_number=next_sequence_number,
        snapshot_id=basis.snapshot_id or 0,
    )


def _rule(table: FileStoreTable) -> IndexRule:
    rule = index_rule(table.schema)
    assert rule is not None, "the kind has an index"
    return rule


KEY_INDEXED_KIND = replace(
    KEYED_KIND,
    make_bucket_assigner=lambda table, _: KeyShareAssigner(table.schema, _rule(table)),
    make_table_write=_placed_write,
)
