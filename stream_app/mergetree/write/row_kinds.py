"""Reads the kinds of new rows from a column, and refuses rows that no merge accepts.

Source: Paimon `table/sink/RowKindGenerator.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import valid_of
from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import Mask, equal_values, is_retract
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.refused_rows import RefusedRows
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
        wrong = texts.filter(kinds.is_null())[0].as_py()
        raise MergeError(
            f"rowkind.field {name!r} of a row is {wrong!r}, which is not a row kind",
            fix=f"the column holds one of {', '.join(_TEXTS.to_pylist())}",
        )
    index = rows.schema.get_field_index(VALUE_KIND)
    return rows.set_column(index, rows.schema.field(index), kinds.cast(pa.int8()))


def check_mergeable(
    rows: pa.RecordBatch, refused: Iterable[RefusedRows], key_names: Sequence[str]
) -> None:
    """Check that no later merge fails at a row.

    Args:
        rows: `_VALUE_KIND` and the table's columns, in their order of arrival.

    Raises:
        MergeError: a row cannot be merged; the error names its key.
    """
    if not is_retract(rows).any():
        return
    for rule in refused:
        wrong = np.flatnonzero(_refused_mask(rule, rows, key_names))
        if len(wrong):
            row = int(wrong[0])
            key = ", ".join(f"{name} = {rows.column(name)[row]}" for name in key_names)
            raise MergeError(f"{rule.problem}: it came for {key}", fix=rule.fix)


def _refused_mask(rule: RefusedRows, rows: pa.RecordBatch, key_names: Sequence[str]) -> Mask:
    kinds = rows.column(VALUE_KIND).to_numpy()
    refused: Mask = np.isin(kinds, [int(kind) for kind in rule.kinds])
    if rule.sequence:
        refused &= np.any([valid_of(rows.column(name)) for name in rule.sequence], axis=0)
    if rule.updates_alone and rows.num_rows:
        # A -U row whose +U row is beyond the batch is accepted, because that nearly always follows.
        is_paired = np.ones(rows.num_rows, np.bool_)
        is_paired[:-1] = np.all([_same_as_next(rows.column(name)) for name in key_names], axis=0)
        refused &= (kinds != RowKind.UPDATE_BEFORE) | ~is_paired
    return refused


def _same_as_next(column: pa.Array) -> Mask:
    return equal_values(column[:-1], column[1:])
