"""Chooses which of a record's images become rows, and their row kinds.

`images` calls it for records in columns, and `record_images` for records that were read one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, null_where, valid_of
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.unchanged_values import NAME_SEPARATOR, UNCHANGED

Ops = npt.NDArray[np.uint8]

CREATE, READ, UPDATE, DELETE = (ord(letter) for letter in "crud")
TRUNCATE, MESSAGE = ord("t"), ord("m")

_KIND_BEFORE = np.full(256, RowKind.UPDATE_BEFORE, np.int8)
_KIND_BEFORE[DELETE] = RowKind.DELETE
_KIND_AFTER = np.full(256, RowKind.INSERT, np.int8)
_KIND_AFTER[UPDATE] = RowKind.UPDATE_AFTER


@dataclass(frozen=True)
class RowPlan:
    """The rows that records give, in order.

    Attributes:
        record_indices: int64 [m]; for each row the index of its record, never decreasing.
        is_after: bool [m]; whether a row is its record's after-image; else its before-image.
        row_kinds: int8 [m]; `RowKind` of each row.
    """

    record_indices: npt.NDArray[np.int64]
    is_after: Bools
    row_kinds: npt.NDArray[np.int8]

    def image_indices(self, before_indices: Int64s, after_indices: Int64s) -> Int64s:
        """Return where each row's image is: int64 [m].

        Args:
            before_indices, after_indices: int64 [n]; the rows of each record's images.
        """
        return np.where(
            self.is_after, after_indices[self.record_indices], before_indices[self.record_indices]
        )

    def assemble_column(self, before: pa.Array, after: pa.Array) -> pa.Array:
        """Return one column of the rows [m], taken from the columns of the images [n]."""
        image_indices = self.record_indices + np.where(self.is_after, len(before), 0)
        return pa.concat_arrays([before, after]).take(pa.array(image_indices))


def omitted_in_rows(unchanged_masks: Mapping[str, Bools], plan: RowPlan) -> dict[str, Bools]:
    """Return the mask of values that each column's rows omit: bool [m].

    Args:
        unchanged_masks: name of a column → bool [n]; records whose after-image omits the value.
    """
    return {
        name: is_omitted[plan.record_indices] & plan.is_after
        for name, is_omitted in unchanged_masks.items()
    }


def with_unchanged(rows: pa.RecordBatch, unchanged_masks: Mapping[str, Bools]) -> pa.RecordBatch:
    """Return rows with the column `UNCHANGED`, when values of them are omitted.

    Args:
        unchanged_masks: name of a column → bool [m]; where its value is omitted.
    """
    unchanged_masks = {
        name: is_omitted for name, is_omitted in unchanged_masks.items() if is_omitted.any()
    }
    if not unchanged_masks:
        return rows
    # Few sets of columns are omitted together, so each set's names are joined once.
    sets, set_of_row = np.unique(np.stack([*unchanged_masks.values()]), axis=1, return_inverse=True)
    names = [
        NAME_SEPARATOR.join(
            name for name, is_in in zip(unchanged_masks, members, strict=True) if is_in
        )
        for members in sets.T
    ]
    texts = pa.array([text or None for text in names], pa.string())
    return rows.append_column(UNCHANGED, texts.take(pa.array(set_of_row.reshape(-1))))


def is_identity(indices: Int64s, count: int) -> bool:
    """Return whether the rows are 0 up to `count` in order, so that nothing must be moved."""
    return len(indices) == count and bool((indices == np.arange(count)).all())


def plan_rows(
    ops: Ops, has_before: Bools, has_after: Bools, wants_update_before: Bools | bool
) -> RowPlan:
    """Choose the rows of each record; a delete gives -D, an update -U (if wanted) and then +U.

    Four records; each has two slots, for its before-image and its after-image::

        ops             [c, u, d, u]
        has_before      [F, T, T, F]
        has_after       [T, T, F, T]
        emits           [[F, T], [T, T], [T, F], [F, T]]
        record_indices  [0, 1, 1, 2, 3]       numbers of the slots, halved
        is_after        [T, F, T, F, T]       odd slots
        row_kinds       [+I, -U, +U, -D, +U]

    Args:
        ops: uint8 [n], the letter of each record's op; other letters than c, r, u and d give no
            row.
        has_before, has_after: bool [n].
        wants_update_before: where an update with a before-image gives -U; bool [n], or one for all.
    """
    is_update = ops == UPDATE
    emits = np.empty((len(ops), 2), np.bool_)
    emits[:, 0] = has_before & ((ops == DELETE) | (is_update & wants_update_before))
    emits[:, 1] = has_after & (is_update | (ops == CREATE) | (ops == READ))
    slot_indices = np.flatnonzero(emits)
    record_indices = slot_indices >> 1
    is_after: Bools = (slot_indices & 1).astype(np.bool_)
    row_ops = ops[record_indices]
    row_kinds = np.where(is_after, _KIND_AFTER[row_ops], _KIND_BEFORE[row_ops])
    return RowPlan(record_indices, is_after, row_kinds)


def lacks_image(ops: Ops, has_before: Bools, has_after: Bools) -> Bools:
    """Return the mask of records without a row, or without the image for their op: bool [n]."""
    is_upsert = (ops == CREATE) | (ops == READ) | (ops == UPDATE)
    lacks: Bools = ~((is_upsert & has_after) | ((ops == DELETE) & has_before))
    return lacks


def forget_invented(reading: ColumnReading, column: pa.Array, plan: RowPlan) -> pa.Array:
    """In before-images that hold only the key, set every other nullable column to null.

    A source fills such images up with invented values.
    """
    if reading.is_required or plan.is_after.all():
        return column
    return null_where(column, ~plan.is_after)


def fill_invented(reading: ColumnReading, column: pa.Array, plan: RowPlan) -> pa.Array:
    """Set NOT NULL columns without a value to zero, in before-images of the key alone."""
    if reading.is_key or not reading.is_required:
        return column
    is_absent = ~plan.is_after & ~valid_of(column)
    if not is_absent.any():
        return column
    zero = pa.array([_zero(reading.arrow_type)], reading.arrow_type)
    return pa.concat_arrays([column, zero]).take(
        pa.array(np.where(is_absent, len(column), np.arange(len(column))))
    )


def changes_key(
    readings: Sequence[ColumnReading],
    columns: Sequence[pa.Array],
    before_indices: Int64s,
    after_indices: Int64s,
) -> Bools:
    """Return the mask of records with both images whose primary keys differ.

    Args:
        columns: for each reading an array [s] of the images' values.
        before_indices, after_indices: int64 [n], the indices of each record's images, or -1.

    Returns:
        bool [n].
    """
    has_changed: Bools = np.zeros(len(before_indices), np.bool_)
    update_indices = np.flatnonzero((before_indices >= 0) & (after_indices >= 0))
    old_indices = pa.array(before_indices[update_indices])
    new_indices = pa.array(after_indices[update_indices])
    for reading, column in zip(readings, columns, strict=True):
        if reading.is_key:
            before, after = column.take(old_indices), column.take(new_indices)
            has_changed[update_indices] |= _differs(before, after)
            if reading.is_nullable_key:
                has_changed[update_indices] |= valid_of(before) != valid_of(after)
    return has_changed


def _differs(before: pa.Array, after: pa.Array) -> Bools:
    """Return the mask of rows whose two columns differ, both not null."""
    if not pa.types.is_struct(before.type):
        return bools_of(pc.not_equal(before, after))
    # Structs have no kernel. Two forms of one number differ: then -U is kept, which does no harm.
    is_different: Bools = np.zeros(len(before), np.bool_)
    for index in range(before.type.num_fields):
        is_different |= bools_of(pc.not_equal(before.field(index), after.field(index)))
    return is_different


def _zero(data_type: pa.DataType) -> object:
    if pa.types.is_string(data_type):
        return ""
    if pa.types.is_binary(data_type):
        return b""
    if pa.types.is_struct(data_type):
        return {field.name: None if field.nullable else _zero(field.type) for field in data_type}
    if pa.types.is_nested(data_type):
        return []
    return False if pa.types.is_boolean(data_type) else 0
