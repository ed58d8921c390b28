"""Parses many JSON objects into Arrow columns at once, or declines all of them.

Formats of JSON call it for records of the same shape. `pyarrow.json` reads numbers from their text,
so integers and decimals lose nothing. It accepts all records together or none. Declined records are
read one by one.

This module guards against faults of the parser (each tested). A top-level ``null`` crashes it.
Several objects in one value would shift all later rows. Invalid UTF-8 becomes strings. Decimals
with very many fractional digits become other numbers, or crash it. A bare ``NaN`` or ``Infinity``,
which is not JSON, passes for a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from stream_app.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    bools_of,
    bytes_of,
    lengths_of,
    offsets_of,
    own_bytes,
)

Number = TypeVar("Number", bound=np.generic)
_PART_VALUES_MIN = 32
"""Values of a part that is not halved again, although they do not parse together."""
_BLOCK_BYTES_MAX = 2**31 - 64
_SEARCH_SIZE = 1 << 17
_FINE_DIGITS = 30
_FINE_DECIMAL = (
    r'[eE]-[0-9]{2,}["\s,}\]]'
    rf"|[.][0-9]{{{_FINE_DIGITS}}}"
    r"|\\u00(2[bdeBDE]|3[0-9]|[46]5)"
)
"""An exponent of -10 or below, 30 fractional digits, or one of a number's characters escaped."""
_CONSTANT = r"[:,\[\s]-?(NaN|Inf(inity)?)[\s,}\]]"


def looks_like_object(values: pa.Array) -> Bools:
    """Mark the values that begin with ``{`` and end with ``}``: bool [n].

    Each of them holds exactly one object, and two values never form one. JSON requires a comma
    between ``}`` and ``{``, and a string cannot contain a newline.
    """
    offsets, data = offsets_of(values), bytes_of(values)
    is_braced: Bools = lengths_of(values) >= 2
    if is_braced.any():
        is_braced &= data.take(offsets[:-1], mode="clip") == ord("{")
        is_braced &= data.take(offsets[1:] - 1, mode="clip") == ord("}")
    return is_braced


def may_be_misread(values: pa.Array, *, has_decimals: bool) -> Bools:
    """Mark the values that `parse_objects` might misread: bool [n].

    The parser misreads bare constants and, in decimals, numbers with more than 38 fractional
    digits. For these, Arrow reads beyond the end of its table of powers. So 5e-41 becomes 0.00 in a
    decimal128(10, 2), and 1e-1000000000 crashes the process.

    Args:
        values: binary [n] without nulls.
    """
    is_suspect: Bools = np.zeros(len(values), np.bool_)
    data, offsets = own_bytes(values)
    # Regular expressions are slow on every byte, and marks of such a value are rare.
    positions = _possible_misreads(data, has_decimals=has_decimals)
    indices = np.unique(np.searchsorted(offsets, positions, side="right") - 1)
    if len(indices):
        pattern = f"{_CONSTANT}|{_FINE_DECIMAL}" if has_decimals else _CONSTANT
        is_suspect[indices] = bools_of(
            pc.match_substring_regex(values.take(pa.array(indices)), pattern)
        )
    return is_suspect


def _possible_misreads(data: Bytes, *, has_decimals: bool) -> Int64s:
    """Return where a pattern may match: at ``Na``, ``In``, ``e-``, ``.`` and ``\\u``."""
    positions = [np.empty(0, np.int64)]
    # Blocks fit into the processor's cache, because reading memory costs the most.
    for start in range(0, len(data), _SEARCH_SIZE):
        window = data[start : start + _SEARCH_SIZE + 1]
        byte, next_byte = window[:-1], window[1:]
        may_match = (byte == ord("N")) & (next_byte == ord("a"))
        may_match |= (byte == ord("I")) & (next_byte == ord("n"))
        if has_decimals:
            may_match |= (next_byte == ord("-")) & (byte | 32 == ord("e"))
            may_match |= (byte == ord("\\")) & (next_byte == ord("u"))
            last_digits = data[start + _FINE_DIGITS : start + _FINE_DIGITS + len(byte)]
            is_point = byte[: len(last_digits)] == ord(".")
            may_match[: len(last_digits)] |= is_point & _is_digit(last_digits)
        positions.append(np.flatnonzero(may_match) + start)
    return _drop_impossible(data, np.concatenate(positions))


def _drop_impossible(data: Bytes, positions: Int64s) -> Int64s:
    """Drop the positions where a few bytes show that neither pattern matches."""

    def byte(shift: int) -> Bytes:
        # A position beyond the end repeats the last byte, a bracket: nothing matches there.
        return data.take(positions + shift, mode="clip")

    first_bytes, third_bytes = byte(0), byte(2)
    has_exponent = _is_digit(third_bytes) & _is_digit(byte(3))
    has_fraction = np.logical_and.reduce([_is_digit(byte(shift)) for shift in (1, 10, 20)])
    has_constant = (first_bytes != ord("N")) | (third_bytes == ord("N"))
    has_constant &= (first_bytes != ord("I")) | (third_bytes == ord("f"))
    may_match = np.where(first_bytes | 32 == ord("e"), has_exponent, has_constant)
    may_match = np.where(first_bytes == ord("."), has_fraction, may_match)
    return positions[may_match]


def _is_digit(data: Bytes) -> Bools:
    return (data - ord("0")) < 10


def parse_objects(
    values: pa.Array, schema: pa.Schema, *, is_strict: bool = False
) -> list[pa.Array] | None:
    """Parse one object per value; fields that `schema` does not name are ignored.

    Args:
        values: binary [n] without nulls, each `looks_like_object`.
        is_strict: whether objects with such fields fail to parse.

    Returns:
        A column for each field of `schema`, null where the object has null or lacks the field. None
        if any value is not JSON, not UTF-8, not of these types, or has a field twice.
    """
    try:
        values.cast(pa.string())  # checks UTF-8, copies nothing
        lines = pc.binary_join_element_wise(values, b"\n", b"").buffers()[2]
        if lines.size > _BLOCK_BYTES_MAX:
            return None
        # `read_json` would hand the block to a thread, which costs more than parsing a small one.
        with pj.open_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema,
                unexpected_field_behavior="error" if is_strict else "ignore",
            ),
        ) as reader:
            table = reader.read_all()
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    return [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in table.columns
    ]


def parse_by_halves(
    values: pa.Array, items: npt.NDArray[Number], schema: pa.Schema
) -> Iterator[tuple[pa.Array, npt.NDArray[Number], list[pa.Array] | None]]:
    """Parse the objects in the largest parts that the parser accepts.

    Args:
        values: binary [n] without nulls, each `looks_like_object`.
        items: [n]; an item for each value, such as its index.

    Returns:
        The parts of both arguments, each with its columns; None for a few values that the parser
        refuses together.
    """
    if not len(values):
        return
    columns = parse_objects(values, schema)
    if columns is not None or len(values) <= _PART_VALUES_MIN:
        yield values, items, columns
        return
    half = len(values) // 2
    yield from parse_by_halves(values.slice(0, half), items[:half], schema)
    yield from parse_by_halves(values.slice(half), items[half:], schema)
