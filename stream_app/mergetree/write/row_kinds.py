"""Reads the kinds of new rows from a column of the table, and finds rows of ignored kinds.

Writers of buckets call it, and so do the modules that must skip the rows that writers drop.

Source: Paimon `table/sink/RowKindGenerator.java`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools
from stream_app.errors import MergeError
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE
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


def ignored_kinds(options: CoreOptions) -> frozenset[RowKind]:
    """Return the row kinds that writers drop (``ignore-delete``, ``ignore-update-before``)."""
    kinds: set[RowKind] = set()
    if options[IGNORE_DELETE]:
        kinds = {RowKind.DELETE, RowKind.UPDATE_BEFORE}
    if options[IGNORE_UPDATE_BEFORE]:
        kinds.add(RowKind.UPDATE_BEFORE)
    return frozenset(kinds)


def accepted_mask(rows: pa.RecordBatch, ignored_kinds: Collection[RowKind]) -> Bools:
    """Return whether each row is of a kind that is not ignored: bool [n]."""
    return ~np.isin(rows.column(VALUE_KIND).to_numpy(), [int(kind) for kind in ignored_kinds])
