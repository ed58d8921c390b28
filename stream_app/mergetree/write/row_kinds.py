"""Reads the kinds of new rows from a column of the table, for `merge_tree_writer`.

Source: Paimon `table/sink/RowKindGenerator.java`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import MergeError
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND

_TEXTS = pa.array([kind.short for kind in RowKind], pa.string())


def with_kinds_of(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the rows with the kinds in the column `name`.

    Args:
        rows: `_VALUE_KIND` and the table's columns.

    Raises:
        MergeError: a text is not a row kind.
    """
    texts = rows.column(name)
    kinds = pc.index_in(pc.utf8_upper(texts.cast(pa.string())), _TEXTS)
    if kinds.null_count:
        wrong_text = texts.filter(kinds.is_null())[0].as_py()
        raise MergeError(
            f"rowkind.field {name!r} of a row is {wrong_text!r}, which is not a row kind",
            fix=f"store one of {', '.join(_TEXTS.to_pylist())} in the column",
        )
    index = rows.schema.get_field_index(VALUE_KIND)
    return rows.set_column(index, rows.schema.field(index), kinds.cast(pa.int8()))
