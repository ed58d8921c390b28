"""Helpers of all casts: values as NumPy arrays and back, and the refusal of a value.

Every function keeps nulls where they are. All arrays of one call have the same length [n].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.model.schema.data_type import DataType

Doubles = npt.NDArray[np.float64]
_SHOWN_CHARACTERS = 60


class CastError(ValueError):
    """A value has no counterpart in the wanted type; Paimon's readers fail at it as well."""


def refuse_where(values: pa.Array, refused: Any, wanted: DataType) -> None:
    """Check that no value is refused.

    Args:
        values: what is cast, as it is shown.
        refused: booleans, in Arrow or NumPy; null counts as false.

    Raises:
        CastError: names the first refused value.
    """
    mask = pc.and_(pa.array(refused, pa.bool_()), values.is_valid())
    if not pc.any(mask).as_py():
        return
    shown = repr(values.filter(mask)[0].as_py())
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    raise CastError(f"{shown} is not a valid {wanted.as_nullable()}")


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """The numbers as NumPy [n], of the array's own width; zero where null."""
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))


def ticks_of(values: pa.Array) -> Int64s:
    """The integers of Arrow's dates, times and timestamps: int64 [n], zero where null."""
    width = pa.int64() if values.type.bit_width == 64 else pa.int32()
    return numbers_of(values.view(width)).astype(np.int64)


def array_of_numbers(numbers: npt.NDArray[Any], like: pa.Array, data_type: pa.DataType) -> pa.Array:
    """An Arrow array of type `data_type` with NumPy's numbers; null where `like` is null."""
    mask = np.asarray(like.is_null().to_numpy(zero_copy_only=False), np.bool_)
    return pa.array(numbers, mask=mask, from_pandas=False).cast(data_type, safe=False)


def null_where(values: pa.Array, mask: Bools) -> pa.Array:
    """The array with null wherever the mask is true."""
    return pc.replace_with_mask(values, pa.array(mask), pa.scalar(None, values.type))


def regex_group(matched: pa.StructArray, name: str) -> pa.Array:
    """The text of a named group of `extract_regex`; null where the whole text does not match."""
    return pc.struct_field(matched, name)


def integers_of_digits(texts: pa.Array) -> Int64s:
    """Parse texts of at most 18 digits and a sign to int64 [n]; zero where null or empty."""
    filled = pc.utf8_ltrim(pc.fill_null(texts, "0"), "+")
    return numbers_of(pc.if_else(pc.equal(filled, ""), "0", filled).cast(pa.int64()))
