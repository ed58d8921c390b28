"""Makes columns without nesting of columns with it, so that equal rows give equal cells.

`check` sums up the hashes of rows, whatever their columns are. A struct becomes its fields and a
column that tells nulls. A list or map becomes its length and a sum of the hashes of its elements,
each multiplied by an odd number of its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stream_app.format.bucket_hash import hash_columns
from stream_app.model.schema.data_type import DataType, TypeRoot

_BIGINT = DataType(root=TypeRoot.BIGINT)
_BOOLEAN = DataType(root=TypeRoot.BOOLEAN)
Flat = tuple[list[pa.Array], list[DataType]]


def flat_columns(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Flat:
    """The columns with their types, those without nesting as they are."""
    flat: list[pa.Array] = []
    kinds: list[DataType] = []
    for column, data_type in zip(columns, types, strict=True):
        more, of_more = _flat(column, data_type)
        flat += more
        kinds += of_more
    return flat, kinds


def _flat(column: pa.Array, data_type: DataType) -> Flat:
    if data_type.root is TypeRoot.ROW:
        fields, types = flat_columns(
            column.flatten(), [field.data_type for field in data_type.fields]
        )
        return [column.is_valid(), *fields], [_BOOLEAN, *types]
    if data_type.root not in (TypeRoot.ARRAY, TypeRoot.MAP):
        return [column], [data_type]
    offsets = column.offsets.to_numpy()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(offsets), 0)
    first = np.repeat(offsets[:-1], lengths)
    places = np.arange(len(first)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    hashes = _hashes(column, data_type, first + places)
    sums = np.zeros(len(column), np.uint64)
    rows = np.repeat(np.arange(len(column)), lengths)
    np.add.at(sums, rows, hashes * (2 * places.astype(np.uint64) + np.uint64(1)))
    return [pa.array(lengths.astype(np.int64), mask=~valid), pa.array(sums.view(np.int64))], [
        _BIGINT,
        _BIGINT,
    ]


def _hashes(
    column: pa.Array, data_type: DataType, at: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The hash of each element at these positions of the column's elements."""
    assert data_type.element is not None, "lists and maps have elements"
    chosen = pa.array(at)
    if data_type.root is TypeRoot.MAP:
        assert data_type.key is not None, "maps have keys"
        elements = [column.keys.take(chosen), column.items.take(chosen)]
        types = [data_type.key, data_type.element]
    else:
        elements, types = [column.values.take(chosen)], [data_type.element]
    if not len(at):
        return np.zeros(0, np.uint64)
    return hash_columns(*flat_columns(elements, types)).view(np.uint32).astype(np.uint64)
