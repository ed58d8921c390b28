"""Completes images that lack columns: `old` of Maxwell and Canal, both images of GoldenGate.

A missing column has the value of the other image, but an explicit null is a value. The columnar
parser returns null in both cases, so the few affected messages are examined one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, own_bytes, slices_of, valid_of
from stream_app.cdc.columns.byte_patterns import positions_of
from stream_app.cdc.rows.row_assembly import Ops


def ops_of(texts: pa.Array, ops: Mapping[str, int]) -> Ops:
    """Map each text to an op letter of `row_assembly`, or to 0 for other texts and null."""
    codes = pc.fill_null(pc.index_in(texts, pa.array(list(ops))), len(ops))
    table = np.array([*ops.values(), 0], np.uint8)
    ops_of_texts: Ops = table[codes.to_numpy()]
    return ops_of_texts


def rows_with_nulls_after(values: pa.Array, is_wanted: Bools, marker: bytes) -> Int64s:
    """Return the wanted rows in which a null may follow a marker: int64 [m].

    Four values, of which the last two are wanted, with the marker ``"old":``::

        values     [..."a":null..., ..."old":null, ..."old":{"a":null}..., ..."a":null,"old":{}]
        is_wanted  [F, F, T, T]
        result     [2]

    Args:
        values: JSON as binary [n] without nulls.
        marker: the marker, at least four bytes; the result includes rows without it.
    """
    data, starts = own_bytes(values)
    markers = positions_of(data, marker)
    nulls = positions_of(data, b"null")
    first_markers: Int64s = np.full(len(values), -1, np.int64)
    first_markers[_indices_of_positions(starts, markers)[::-1]] = markers[::-1]
    last_nulls: Int64s = np.full(len(values), -1, np.int64)
    last_nulls[_indices_of_positions(starts, nulls)] = nulls
    return np.flatnonzero(
        is_wanted & ((first_markers < 0) | (last_nulls > first_markers + len(marker)))
    )


def _indices_of_positions(starts: Int64s, positions: Int64s) -> Int64s:
    indices: Int64s = np.searchsorted(starts, positions, side="right") - 1
    return indices


def rows_with(values: pa.Array, text: bytes) -> Int64s:
    """Return the indices of values that contain a text: int64 [m].

    Args:
        values: binary [n] without nulls.
        text: at least four bytes.
    """
    data, starts = own_bytes(values)
    return np.unique(_indices_of_positions(starts, positions_of(data, text)))


def first_values_after(values: pa.Array, marker: bytes) -> dict[bytes, int]:
    """Return the objects that follow a marker, each with the index of its first value.

    An object ends at its first closing brace. So one with objects in it is cut.

    Args:
        values: JSON as binary [n] without nulls.
        marker: the marker, at least four bytes.
    """
    data, offsets = own_bytes(values)
    starts = positions_of(data, marker)
    starts = starts[data.take(starts + len(marker), mode="clip") == ord("{")]
    ends = np.flatnonzero(data == ord("}")) + 1
    if not len(starts) or not len(ends):
        return {}
    object_ends = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
    are_separate = np.append(starts[1:] >= object_ends[:-1], True) & (object_ends > starts)
    starts, object_ends = starts[are_separate], object_ends[are_separate]
    objects = slices_of(data, starts, object_ends).dictionary_encode()
    first_objects = np.unique(objects.indices.to_numpy(), return_index=True)[1]
    indices = _indices_of_positions(offsets, starts[first_objects])
    return dict(zip(objects.dictionary.to_pylist(), indices.tolist(), strict=True))


def explicit_nulls(
    values: pa.Array,
    indices: Int64s,
    names: Sequence[str],
    images_of: Callable[[Any, int], Iterable[tuple[int, Mapping[str, Any] | None]]],
) -> tuple[list[Int64s], list[int]]:
    """Find the records whose image has an explicit null, for each column.

    Args:
        indices: those of the values to examine; they are few, because each is parsed by itself.
        images_of: index of a parsed value → its records and their images.

    Returns:
        The records, by name; and the indices of values that cannot be parsed.
    """
    nulls: dict[str, list[int]] = {name: [] for name in names}
    unreadable_indices: list[int] = []
    # A loop over messages in which something that the table has is null.
    for index, text in zip(
        indices.tolist(), values.take(pa.array(indices)).to_pylist(), strict=True
    ):
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            unreadable_indices.append(index)
            continue
        for record, image in images_of(document, index):
            for name, value in (image or {}).items():
                if value is None and name in nulls:
                    nulls[name].append(record)
    return [np.array(records, np.int64) for records in nulls.values()], unreadable_indices


def fill_up(
    arrays: Sequence[pa.Array], other_arrays: Sequence[pa.Array], nulls: Sequence[Int64s]
) -> list[pa.Array]:
    """Return the columns of incomplete images, filled with the values of the other images.

    Args:
        arrays, other_arrays: for each column an array [n].
        nulls: for each column the indices at which `arrays` has a null that is a value.
    """
    filled_columns = []
    for column, other_column, rows in zip(arrays, other_arrays, nulls, strict=True):
        is_sent = valid_of(column)
        is_sent[rows] = True
        if not is_sent.any():
            filled_columns.append(other_column)
        elif is_sent.all():
            filled_columns.append(column)
        elif pa.types.is_struct(column.type):  # for which there is no kernel
            indices = np.arange(len(column))
            both_columns = pa.concat_arrays([column, other_column])
            filled_columns.append(
                both_columns.take(pa.array(np.where(is_sent, indices, indices + len(column))))
            )
        else:
            filled_columns.append(pc.if_else(pa.array(is_sent), column, other_column))
    return filled_columns
