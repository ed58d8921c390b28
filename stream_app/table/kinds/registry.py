"""Maps a table to its kind.

A further kind is a `TableKind` in a module here, a line below, and traits in `model.table_kind`.

Source: Paimon `table/FileStoreTableFactory.java`, `table/BucketMode.java`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.table_kind import (
    APPEND,
    BUCKETED_APPEND,
    CROSS_PARTITION_KEYED,
    DYNAMIC_KEYED,
    KEYED,
    PARTITION_LOOKUP_KEYED,
    POSTPONE_KEYED,
    KindTraits,
)
from stream_app.table.kinds.append import APPEND_KIND, BUCKETED_APPEND_KIND
from stream_app.table.kinds.keyed import DYNAMIC_KEYED_KIND, KEYED_KIND
from stream_app.table.kinds.kind_parts import TableKind
from stream_app.table.kinds.placed import PLACED_KEYED_KIND

KINDS: Mapping[KindTraits, TableKind] = {
    KEYED: KEYED_KIND,
    DYNAMIC_KEYED: DYNAMIC_KEYED_KIND,
    CROSS_PARTITION_KEYED: PLACED_KEYED_KIND,
    PARTITION_LOOKUP_KEYED: PLACED_KEYED_KIND,
    # `open_for_writing` refuses to write them. Their compactions are planned alike.
    POSTPONE_KEYED: KEYED_KIND,
    BUCKETED_APPEND: BUCKETED_APPEND_KIND,
    APPEND: APPEND_KIND,
}


def kind_of(schema: TableSchema) -> TableKind:
    """How tables of this schema are written and compacted."""
    return KINDS[schema.kind]
