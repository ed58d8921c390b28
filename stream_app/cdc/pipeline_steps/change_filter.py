"""Filters the changes of a table that takes only rows that meet a condition.

The table holds a row while its newest state passes:

=============  ============  ===================================================
before passes  after passes  an update gives
=============  ============  ===================================================
yes            yes           -U (where it is kept) and +U
yes            no            -D of the before-image; without one, of the after-image's key
no             yes           +I
no             no            nothing
=============  ============  ===================================================

An insert that does not pass gives nothing. A before-image may hold no more than a key, with
invented values beside it. `KnownColumns` says what is known of it. A -D of a row that is not in the
table changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools
from stream_app.cdc.change_batch import ROW_KIND, ChangeBatch, DecodedBatch
from stream_app.model.row_kind import RowKind

RowKinds = npt.NDArray[np.int8]
_ROW_INDEX = "\0row"


class KnownColumns(Enum):
    """The columns that a condition reads, and how certain their values are."""

    NEWEST = auto()
    """Only the after-image's values are known, so every old row counts as passing."""
    IMAGES = auto()
    """The values of both images are known, where a record has both."""
    CERTAIN = auto()
    """All changes of a row have the same values, so a failing row was never in the table."""


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """The rows that remain of n rows.

    Attributes:
        is_kept: bool [n].
        kinds: int8 [n]; the kinds of the rows, right for those that remain.
    """

    is_kept: Bools
    kinds: RowKinds


def filter_changes(
    kinds: RowKinds, is_pair: Bools, is_true: Bools, known_columns: KnownColumns
) -> FilteredRows:
    """Choose the rows of changes.

    Four updates, with values of both images::

        kinds     [-U, +U, -U, +U, -U, +U, -U, +U]
        is_pair   [ T,  F,  T,  F,  T,  F,  T,  F]
        is_true   [ T,  T,  T,  F,  F,  T,  F,  F]
        is_kept   [ T,  T,  T,  F,  F,  T,  F,  F]
        new_kinds [-U, +U, -D, +U, -U, +I, -U, +U]

    Args:
        kinds: int8 [n], `RowKind`.
        is_pair: bool [n]; where there is a -U whose +U is the next row.
        is_true: bool [n]; whether the condition is true.
    """
    if known_columns is KnownColumns.NEWEST:
        is_true = is_true | (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
    is_kept = is_true.copy()
    new_kinds = kinds.copy()
    before_indices = np.flatnonzero(is_pair)
    passes_before, passes_after = is_true[before_indices], is_true[before_indices + 1]
    new_kinds[before_indices[passes_before & ~passes_after]] = RowKind.DELETE
    new_kinds[before_indices[~passes_before & passes_after] + 1] = RowKind.INSERT
    if known_columns is not KnownColumns.CERTAIN:
        is_alone = kinds == RowKind.UPDATE_AFTER
        is_alone[before_indices + 1] = False
        new_kinds[is_alone & ~is_true] = RowKind.DELETE
        is_kept |= is_alone
    return FilteredRows(is_kept, new_kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """The step that drops rows for which a condition is not true. Implements `pipeline.Step`.

    Attributes:
        condition: over the rows' columns.
        merges_by_key: whether the table's rows have a key; else only inserts are filtered.
        known_columns: which images' values of the condition's columns are certain.
    """

    condition: pc.Expression
    merges_by_key: bool
    known_columns: KnownColumns

    def __call__(self, decoded_batch: DecodedBatch, _: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        rows, message_indices = decoded_batch.changes.rows, decoded_batch.changes.message_indices
        is_true = condition_mask(rows, self.condition)
        if is_true.all():
            return decoded_batch
        kinds: RowKinds = rows.column(ROW_KIND).to_numpy()
        if self.merges_by_key:
            is_pair = np.zeros(len(kinds), np.bool_)
            is_same_message = message_indices[:-1] == message_indices[1:]
            is_pair[:-1] = (kinds[:-1] == RowKind.UPDATE_BEFORE) & is_same_message
            filtered_rows = filter_changes(kinds, is_pair, is_true, self.known_columns)
        else:
            filtered_rows = FilteredRows(is_true | (kinds != RowKind.INSERT), kinds)
        rows = rows.set_column(0, rows.schema.field(0), pa.array(filtered_rows.kinds))
        remaining_indices = message_indices[filtered_rows.is_kept]
        return replace(
            decoded_batch,
            changes=ChangeBatch(
                rows=rows.filter(pa.array(filtered_rows.is_kept)), message_indices=remaining_indices
            ),
            skipped_count=decoded_batch.skipped_count
            + len(np.unique(message_indices))
            - len(np.unique(remaining_indices)),
        )


def condition_mask(rows: pa.RecordBatch, condition: pc.Expression) -> Bools:
    """Mark the rows for which a condition over the columns is true, bool [n]; null is not true."""
    row_indices = pa.array(np.arange(rows.num_rows))
    indexed_rows = pa.Table.from_batches([rows]).append_column(_ROW_INDEX, row_indices)
    is_true: Bools = np.zeros(rows.num_rows, np.bool_)
    is_true[indexed_rows.filter(condition).column(_ROW_INDEX).to_numpy()] = True
    return is_true
