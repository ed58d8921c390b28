"""Refuses new rows that no merge accepts, before the writer puts them into a file.

`merge_tree_writer` calls it for each batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, valid_of
from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import has_equal_values, retract_mask
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge.refusal_rules import RefusalRule
from stream_app.model.schema.table_schema import VALUE_KIND


def check_mergeable(
    rows: pa.RecordBatch, refusal_rules: Iterable[RefusalRule], key_names: Sequence[str]
) -> None:
    """Check that no later merge fails at a row.

    Args:
        rows: `_VALUE_KIND` and the table's columns, in their order of arrival.

    Raises:
        MergeError: a row cannot be merged; the error names its key.
    """
    if not retract_mask(rows).any():
        return
    for rule in refusal_rules:
        refused_indices = np.flatnonzero(_refused_mask(rule, rows, key_names))
        if len(refused_indices):
            index = int(refused_indices[0])
            key = ", ".join(f"{name} = {rows.column(name)[index]}" for name in key_names)
            raise MergeError(f"{rule.problem}: it came for {key}", fix=rule.fix)


def _refused_mask(rule: RefusalRule, rows: pa.RecordBatch, key_names: Sequence[str]) -> Bools:
    kinds = rows.column(VALUE_KIND).to_numpy()
    is_refused: Bools = np.isin(kinds, [int(kind) for kind in rule.kinds])
    if rule.sequence:
        is_refused &= np.any([valid_of(rows.column(name)) for name in rule.sequence], axis=0)
    if rule.updates_alone and rows.num_rows:
        # A -U row whose +U row is beyond the batch is accepted, because that nearly always follows.
        is_paired = np.ones(rows.num_rows, np.bool_)
        is_paired[:-1] = np.all([_equals_next(rows.column(name)) for name in key_names], axis=0)
        is_refused &= (kinds != RowKind.UPDATE_BEFORE) | ~is_paired
    return is_refused


def _equals_next(column: pa.Array) -> Bools:
    return has_equal_values(column[:-1], column[1:])
