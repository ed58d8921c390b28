"""Converts between Arrow and NumPy arrays for all casts, and refuses values.

Each function keeps nulls in place. All arrays of one call have the same length [n].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.model.schema.data_type import DataType

Doubles = npt.NDArray[np.float64]
_SHOWN_LENGTH_MAX = 60


class CastError(ValueError):
    """A value has no counterpart in the target type. Paimon's readers fail on it as well."""


def refuse_where(values: pa.Array, refusal_mask: Any, target_type: DataType) -> None:
    """Check that no value is refused.

    Args:
        values: the values to cast, for the error.
        refusal_mask: booleans in Arrow or NumPy; null counts as false.

    Raises:
        CastError: a value is refused; the error names the first.
    """
    is_refused = pc.and_(pa.array(refusal_mask, pa.bool_()), values.is_valid())
    if pc.any(is_refused).as_py():
        raise cast_error(values.filter(is_refused)[0].as_py(), target_type)


def cast_error(value: object, target_type: DataType) -> CastError:
    """Return the error about a value that has no counterpart in the target type."""
    text = repr(value)
    if len(text) > _SHOWN_LENGTH_MAX:
        text = text[:_SHOWN_LENGTH_MAX] + "…"
    return CastError(f"{text} is not a valid {target_type.as_nullable()}")


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers as NumPy [n] of the array's own width, with zero for null."""
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))


def ticks_of(values: pa.Array) -> Int64s:
    """Return the integers of dates, times or timestamps: int64 [n], zero for null."""
    integer_type = pa.int64() if values.type.bit_width == 64 else pa.int32()
    return numbers_of(values.view(integer_type)).astype(np.int64)


def array_of_numbers(values: npt.NDArray[Any], like: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return NumPy's numbers as an Arrow array of `data_type`; null where `like` is null."""
    mask = np.asarray(like.is_null().to_numpy(zero_copy_only=False), np.bool_)
    return pa.array(values, mask=mask, from_pandas=False).cast(data_type, safe=False)


def regex_group(groups: pa.StructArray, name: str) -> pa.Array:
    """Return a named group of `extract_regex`; null where the text does not match."""
    return pc.struct_field(groups, name)


def integers_of_digits(texts: pa.Array) -> Int64s:
    """Parse texts of at most 18 digits and a sign: int64 [n], zero for null or empty."""
    filled_texts = pc.utf8_ltrim(pc.fill_null(texts, "0"), "+")
    return numbers_of(pc.if_else(pc.equal(filled_texts, ""), "0", filled_texts).cast(pa.int64()))
