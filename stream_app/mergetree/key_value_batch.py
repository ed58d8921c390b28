"""Orders columns of key-value rows by key and age.

A key-value batch has `_SEQUENCE_NUMBER` (int64), `_VALUE_KIND` (int8) and then the table's columns,
including the key. A reader may omit the first two. Without sequence numbers, rows of one key are in
order of age. Without kinds, no row is a delete. The write buffer, the merge, compactions and
readers use this module. All functions work on whole columns.

Source: Paimon `KeyValue.java`; order of keys: `codegen/GenerateUtils.scala`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

PACKED_BITS_MAX = 63
"""Bits of a positive int64."""


@dataclass(frozen=True)
class KeyValueLayout:
    """The columns of the key, and the rule for the newer of two versions of a key.

    Attributes:
        schema: the schema of a key-value batch.
        key_names: the columns of the trimmed primary key, in key order.
        sequence_fields: the columns that decide before the sequence number; nulls are oldest.
        is_sequence_descending: whether the smallest value of the sequence fields is the newest.
        constant_names: the partition columns, which have one value in all rows of a bucket.

        A key column may be null if its field in `schema` is nullable; nulls precede all values.
    """

    schema: pa.Schema
    key_names: tuple[str, ...]
    sequence_fields: tuple[str, ...] = ()
    is_sequence_descending: bool = False
    constant_names: frozenset[str] = frozenset()

    @property
    def no_rows(self) -> pa.RecordBatch:
        """A batch without rows."""
        columns = [pa.array([], data_type) for data_type in self.schema.types]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def rows_at(self, batch: pa.RecordBatch, indices: Int64s | None) -> pa.RecordBatch:
        """Return the rows at `indices`, of one bucket, whose constant columns need no reordering.

        Args:
            indices: int64 [m], m at most the number of rows.
        """
        if indices is None or not self.constant_names:
            return rows_at(batch, indices)
        order = pa.array(indices)
        columns = [
            column.slice(0, len(order)) if name in self.constant_names else column.take(order)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def with_sequence_number(rows: pa.RecordBatch, sequence_number: int) -> pa.RecordBatch:
    """Return the rows with this sequence number in each."""
    index = rows.schema.get_field_index(SEQUENCE_NUMBER)
    sequence_numbers = pa.repeat(pa.scalar(sequence_number, pa.int64()), rows.num_rows)
    return rows.set_column(index, rows.schema.field(index), sequence_numbers)


def integer_view(column: pa.Array) -> pa.Array:
    """Return the integers of temporal columns; other columns stay unchanged.

    Args:
        column: [n]; the result shares its memory.
    """
    arrow_type = column.type
    if pa.types.is_date32(arrow_type) or pa.types.is_time32(arrow_type):
        return column.view(pa.int32())
    if pa.types.is_timestamp(arrow_type) or pa.types.is_time64(arrow_type):
        return column.view(pa.int64())
    return column


def ordered_floats(column: pa.Array) -> pa.Array:
    """Convert floating-point columns to integers with the same order; others stay unchanged.

    -0.0 is less than 0.0, and NaN greater than all. Arrow's sort has NaN at the end in both
    directions. Source: Java's `Double.compare`, Paimon 2.0 `codegen/GenerateUtils.scala`.

    Args:
        column: float or double [n]; becomes int32 or int64 [n].
    """
    if not pa.types.is_floating(column.type):
        return column
    values = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    integer_type = pa.int64() if pa.types.is_float64(column.type) else pa.int32()
    bits = values.view(integer_type)
    # For negative numbers the sign stays and the other bits are inverted.
    inverted_bits = pc.bit_wise_xor(
        bits, pa.scalar((1 << (integer_type.bit_width - 1)) - 1, integer_type)
    )
    return pc.if_else(pc.less(bits, 0), inverted_bits, bits)


def integer_keys(batch: pa.RecordBatch, layout: KeyValueLayout) -> list[npt.NDArray[Any]] | None:
    """Return the key columns as integers [n], most significant first; None for other types."""
    columns = [integer_view(batch.column(name)) for name in layout.key_names]
    if not all(pa.types.is_integer(column.type) and not column.null_count for column in columns):
        return None
    return [column.to_numpy(zero_copy_only=False) for column in columns]


def merge_order(batch: pa.RecordBatch, layout: KeyValueLayout) -> tuple[Int64s, Bools]:
    """Return a batch's order by key, sequence fields and sequence number, and its keys' last rows.

    Four rows of two keys::

        batch["k"]                  [7, 5, 7, 5]
        batch["_SEQUENCE_NUMBER"]   [9, 8, 7, 6]
        order                       [3, 1, 2, 0]
        is_last                     [F, T, F, T]

    Returns:
        `order`, int64 [n]: ``batch["k"][order]`` is ascending. `is_last`, bool [n]: for each row in
        that order, whether it is the last (newest) of its key.
    """
    if layout.sequence_fields:
        order = _order_by_all(batch, layout)
        return order, is_last_of_key(batch, order, layout)
    sequence = _sequence_numbers(batch)
    keys = integer_keys(batch, layout)
    if keys is None:
        columns = _key_columns(batch, layout)
        if sequence is not None:
            columns.append((batch.column(SEQUENCE_NUMBER), "ascending"))
        order = _sort_indices(columns)
        return order, is_last_of_key(batch, order, layout)
    order, equals_next = _order_of_integers(keys)
    if sequence is not None:
        _sort_within_keys(order, sequence[order], equals_next)
    is_last = np.ones(batch.num_rows, dtype=np.bool_)
    np.logical_not(equals_next, out=is_last[:-1])
    return order, is_last


def _sequence_numbers(batch: pa.RecordBatch) -> Int64s | None:
    """Return sequence numbers; None if rows are in order of age, which stable sorts keep."""
    if batch.schema.get_field_index(SEQUENCE_NUMBER) < 0:
        return None
    sequence: Int64s = batch.column(SEQUENCE_NUMBER).to_numpy()
    return sequence if (sequence[1:] < sequence[:-1]).any() else None


def _order_by_all(batch: pa.RecordBatch, layout: KeyValueLayout) -> Int64s:
    sequence_order = "descending" if layout.is_sequence_descending else "ascending"
    columns = _key_columns(batch, layout)
    for name in layout.sequence_fields:
        # Nulls are older than all values, in both directions.
        columns.append((batch.column(name).is_valid(), "ascending"))
        columns.append((ordered_floats(batch.column(name)), sequence_order))
    columns.append((batch.column(SEQUENCE_NUMBER), "ascending"))
    return _sort_indices(columns)


def _key_columns(batch: pa.RecordBatch, layout: KeyValueLayout) -> list[tuple[pa.Array, str]]:
    """Return the columns that order the keys; nulls come first (``primary-key.nullable``)."""
    columns = []
    for name in layout.key_names:
        column = batch.column(name)
        if column.null_count:
            columns.append((column.is_valid(), "ascending"))
        columns.append((column, "ascending"))
    return columns


def _sort_indices(columns: list[tuple[pa.Array, str]]) -> Int64s:
    names = [str(index) for index in range(len(columns))]
    keys = pa.RecordBatch.from_arrays([column for column, _ in columns], names)
    sort_keys = [(name, order) for name, (_, order) in zip(names, columns, strict=True)]
    indices: Int64s = pc.sort_indices(keys, sort_keys=sort_keys).to_numpy().astype(np.int64)
    return indices


def _order_of_integers(keys: list[npt.NDArray[Any]]) -> tuple[Int64s, Bools]:
    """Sort keys stably, and mark which neighbours have equal keys.

    Key and row number are packed into one integer, the key in the high bits::

        key, row           (7, 0)  (5, 1)  (7, 2)  (5, 3)
        (key - 5) << 2 | row    8       1      10       3
        sorted                  1       3       8      10
        order, low 2 bits  [    1,      3,      0,      2]
        equals_next            [T,      F,      T]

    Args:
        keys: columns, integers [n], the most significant first.

    Returns:
        `order`, int64 [n]. `equals_next`, bool [n - 1]: for each row in that order but the last,
        whether the next row has an equal key.
    """
    count = len(keys[0])
    row_bits = max(count - 1, 0).bit_length()
    minima = [int(key.min()) if count else 0 for key in keys]
    widths = [
        (int(key.max()) - minimum).bit_length() if count else 0
        for key, minimum in zip(keys, minima, strict=True)
    ]
    if row_bits + sum(widths) > PACKED_BITS_MAX:
        # This sort merges presorted runs, so joined runs cost one pass.
        order = np.lexsort(keys[::-1]).astype(np.int64, copy=False)
        equals_next = np.ones(max(count - 1, 0), dtype=np.bool_)
        for key in keys:
            ordered_key = key[order]
            equals_next &= ordered_key[1:] == ordered_key[:-1]
        return order, equals_next
    # Key and row number fit into one integer. Sorting integers is ten times faster than sorting
    # indices, and the row numbers make it stable.
    packed_keys = np.zeros(count, dtype=np.int64)
    for key, minimum, width in zip(keys, minima, widths, strict=True):
        packed_keys <<= width
        packed_keys |= key.astype(np.int64) - minimum
    packed_keys <<= row_bits
    packed_keys |= np.arange(count, dtype=np.int64)
    packed_keys.sort()
    # If two neighbours differ only in the row number, their keys are equal.
    equals_next = (packed_keys[1:] ^ packed_keys[:-1]) >> row_bits == 0
    packed_keys &= (1 << row_bits) - 1
    return packed_keys, equals_next


def _sort_within_keys(order: Int64s, sequence: Int64s, equals_next: Bools) -> None:
    """Sort the rows of each key by `sequence`, changing `order` in place.

    Four rows in order of their keys 5, 5, 7, 7::

        order         [1, 3, 0, 2]    becomes [3, 1, 0, 2]
        sequence      [8, 6, 7, 9]    of the rows in the first order
        equals_next   [T, F, T]

    Args:
        order: int64 [n].
        sequence: int64 [n], in that order.
        equals_next: bool [n - 1]; whether the next row has an equal key.
    """
    if not (equals_next & (sequence[1:] < sequence[:-1])).any():
        return
    has_equal_neighbour = np.zeros(len(order), dtype=np.bool_)
    has_equal_neighbour[:-1] = equals_next
    has_equal_neighbour[1:] |= equals_next
    indices = np.flatnonzero(has_equal_neighbour)
    key_numbers = np.zeros(len(order), dtype=np.int64)
    np.cumsum(~equals_next, out=key_numbers[1:])
    index_order = np.lexsort((sequence[indices], key_numbers[indices]))
    order[indices] = order[indices][index_order]


def is_last_of_key(batch: pa.RecordBatch, order: Int64s | None, layout: KeyValueLayout) -> Bools:
    """Return the mask of rows, in key order, that are the last (newest) of their key.

    Args:
        order: int64 [m], sorts the batch and may omit rows. None if the batch is in order.

    Returns:
        bool [m], in that order.
    """
    is_last = np.ones(batch.num_rows if order is None else len(order), dtype=np.bool_)
    is_last[:-1] = ~_equals_next(batch, order, layout)
    return is_last


def _equals_next(batch: pa.RecordBatch, order: Int64s | None, layout: KeyValueLayout) -> Bools:
    """Return the mask of rows, in order and without the last, whose key equals the next row's."""
    count = batch.num_rows if order is None else len(order)
    equals_next = np.ones(max(count - 1, 0), dtype=np.bool_)
    for name in layout.key_names:
        column = integer_view(batch.column(name))
        if pa.types.is_integer(column.type) and not column.null_count:
            values = column.to_numpy(zero_copy_only=False)
            values = values if order is None else values[order]
            equals_next &= values[1:] == values[:-1]
            continue
        column = column if order is None else column.take(pa.array(order))
        equals_next &= has_equal_values(column.slice(1), column.slice(0, len(equals_next)))
    return equals_next


def has_equal_values(left: pa.Array, right: pa.Array) -> Bools:
    """Return whether values of two flat columns [n] are equal, including nulls: bool [n]."""
    is_equal = pc.equal(left, right)
    if is_equal.null_count:
        both_null = pc.and_(left.is_null(), right.is_null())
        is_equal = pc.coalesce(is_equal, both_null)
    mask: Bools = is_equal.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def _has_lesser_values(left: pa.Array, right: pa.Array) -> Bools:
    """Return whether values of a flat column [n] precede another's, nulls first: bool [n]."""
    is_less = pc.less(left, right)
    if is_less.null_count:
        is_less = pc.coalesce(is_less, pc.and_(left.is_null(), right.is_valid()))
    mask: Bools = is_less.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def breaks_key_order(
    batch: pa.RecordBatch, key_names: Sequence[str], *, accepts_same: bool
) -> Bools:
    """Return the mask of rows, from the second on, that break the key order.

    Args:
        accepts_same: whether a key may equal the previous one.

    Four rows::

        k                      [5, 5, 7, 6]
        accepts_same=False          [T, F, T]
        accepts_same=True           [F, F, T]

    Returns:
        bool [n - 1], or [0] for a batch without rows.
    """
    count = max(batch.num_rows - 1, 0)
    is_equal = np.ones(count, dtype=np.bool_)
    is_less = np.zeros(count, dtype=np.bool_)
    for name in key_names:
        column = integer_view(batch.column(name))
        before, after = column.slice(0, count), column.slice(1)
        is_less |= is_equal & _has_lesser_values(after, before)
        is_equal &= has_equal_values(after, before)
    return is_less if accepts_same else is_less | is_equal


def batches_of_whole_keys(
    batches: Iterable[pa.RecordBatch], key_names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Split batches in key order at keys, so that no key is in two batches.

    Batches with the keys ``[5, 6] [6, 7]`` become ``[5] [6, 6] [7]``. A key is held back until a
    greater one comes.
    """
    held_rows: pa.RecordBatch | None = None
    for batch in batches:
        joined_rows = batch if held_rows is None else pa.concat_batches([held_rows, batch])
        if not joined_rows.num_rows:
            continue
        key_ends = np.flatnonzero(~breaks_key_order(joined_rows, key_names, accepts_same=False)) + 1
        held_start = int(key_ends[-1]) if len(key_ends) else 0
        if held_start:
            yield joined_rows.slice(0, held_start)
        held_rows = joined_rows.slice(held_start)
    if held_rows is not None:
        yield held_rows


def rows_at(batch: pa.RecordBatch, indices: Int64s | None) -> pa.RecordBatch:
    """Return the rows at `indices`, int64 [m]; None returns the batch itself."""
    return batch if indices is None else batch.take(pa.array(indices))


def retract_mask(batch: pa.RecordBatch) -> Bools:
    """Return the mask of rows of kind -U or -D: bool [n]."""
    if batch.schema.get_field_index(VALUE_KIND) < 0:
        return np.zeros(batch.num_rows, dtype=np.bool_)
    return retract_kind_mask(batch.column(VALUE_KIND).to_numpy())


def retract_kind_mask(kinds: npt.NDArray[np.int8]) -> Bools:
    """Return the mask of the kinds -U and -D, whose numbers are odd: bool [n]."""
    is_retract: Bools = (kinds & 1) != 0
    return is_retract
