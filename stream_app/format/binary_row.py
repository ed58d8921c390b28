"""Encodes Paimon's BinaryRow one row at a time: partitions, bounds of keys, statistics.

The Python values of a row, by type of column:

==================  ==========================================================================
BOOLEAN             bool
TINYINT … BIGINT    int
FLOAT, DOUBLE       float
DECIMAL             decimal.Decimal
CHAR, VARCHAR       str
BINARY, VARBINARY   bytes
DATE                int, days since 1970-01-01
TIME                int, milliseconds of the day
TIMESTAMP, _LTZ     int, nanoseconds since 1970-01-01 00:00 (of any size; a datetime is too coarse)
null                None
==================  ==========================================================================

A row is a header with a bit for each null, and a slot of eight bytes for each column. Values that
do not fit into their slot follow, padded to eight bytes. All numbers are little-endian, except the
arity before the serialized form and the digits of long decimals.

`binary_row_columns` encodes whole Arrow columns.

Source: Paimon `data/BinaryRow.java`, `data/AbstractBinaryWriter.java`,
`utils/SerializationUtils.java`.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, total_ordering
from typing import Any

import pyarrow as pa

from stream_app.errors import CorruptFileError
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

WORD = 8
INLINE_BYTES_MAX = 7
"""Strings and binaries up to this length live in their slot."""
COMPACT_DECIMAL_PRECISION_MAX = 18
COMPACT_TIMESTAMP_PRECISION_MAX = 3
LONG_DECIMAL_SIZE = 16
NANOS_OF_MILLI = 1_000_000

_HEADER_BITS = 8
_INLINE_MARK = 0x80
_EXACT = decimal.Context(prec=120, traps=[decimal.Inexact, decimal.InvalidOperation])
_SLOT_FORMATS = {
    TypeRoot.BOOLEAN: "<?7x",
    TypeRoot.TINYINT: "<b7x",
    TypeRoot.SMALLINT: "<h6x",
    TypeRoot.INT: "<i4x",
    TypeRoot.DATE: "<i4x",
    TypeRoot.TIME: "<i4x",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f4x",
    TypeRoot.DOUBLE: "<d",
}
_NANOS_OF_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_CACHED_KEY_BYTES_MAX = 256


def header_size(arity: int) -> int:
    """Return the bytes before the first slot: eight bits for the row kind, then the null bits."""
    return (arity + 63 + _HEADER_BITS) // 64 * 8


def has_long_form(data_type: DataType) -> bool:
    """Return whether even a null takes space after the slots: DECIMAL(p > 18), TIMESTAMP(p > 3)."""
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision > COMPACT_DECIMAL_PRECISION_MAX
    return (
        data_type.root in TIMESTAMP_ROOTS and data_type.precision > COMPACT_TIMESTAMP_PRECISION_MAX
    )


def unscaled_decimal(value: decimal.Decimal, scale: int) -> int:
    """Convert ``1.50`` with scale 2 to 150.

    Raises:
        decimal.Inexact: the value has more fractional digits than `scale`.
    """
    return int(value.scaleb(scale, _EXACT).to_integral_exact(context=_EXACT))


def unscaled_bytes(unscaled_value: int) -> bytes:
    """Encode an integer big-endian with its sign, in the fewest bytes: -128 in one, 128 in two."""
    magnitude = unscaled_value if unscaled_value >= 0 else -unscaled_value - 1
    return unscaled_value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def scaled_decimal(unscaled_value: int, scale: int) -> decimal.Decimal:
    """Convert 150 with scale 2 to ``1.50``; exact for every precision."""
    return decimal.Decimal(unscaled_value).scaleb(-scale, _EXACT)


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Encode a row without its arity. The bucket hash is that of these bytes.

    Raises:
        ValueError, struct.error, decimal.Inexact: a value is not of its column's type.
    """
    header = bytearray(header_size(len(types)))
    slots = bytearray()
    tail = bytearray()
    tail_start = len(header) + WORD * len(types)
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bit = index + _HEADER_BITS
            header[bit // 8] |= 1 << bit % 8
        slot, tail_bytes = _encode(value, data_type, tail_start + len(tail))
        slots += slot
        tail += tail_bytes
    return bytes(header + slots + tail)


def _encode(value: object, data_type: DataType, offset: int) -> tuple[bytes, bytes]:
    """Return the value's slot, and its bytes after the slots, which begin at `offset`."""
    if has_long_form(data_type):
        return _encode_long_form(value, data_type, offset)
    if value is None:
        return bytes(WORD), b""
    if data_type.root is TypeRoot.DECIMAL:
        assert isinstance(value, decimal.Decimal), value
        return struct.pack("<q", unscaled_decimal(value, data_type.scale)), b""
    if data_type.root in TIMESTAMP_ROOTS:
        assert isinstance(value, int), value
        return struct.pack("<q", value // NANOS_OF_MILLI), b""
    if data_type.root in _SLOT_FORMATS:
        return struct.pack(_SLOT_FORMATS[data_type.root], value), b""
    data = value.encode() if isinstance(value, str) else value
    assert isinstance(data, bytes), value
    if len(data) <= INLINE_BYTES_MAX:
        return data.ljust(INLINE_BYTES_MAX, b"\0") + bytes([_INLINE_MARK | len(data)]), b""
    return struct.pack("<II", len(data), offset), data + bytes(-len(data) % WORD)


def _encode_long_form(value: object, data_type: DataType, offset: int) -> tuple[bytes, bytes]:
    # Java reserves space for a null too, and leaves its offset in the slot. The bytes are hashed
    # and compared, so a null with other bytes would be another partition or bucket.
    if data_type.root is TypeRoot.DECIMAL:
        digits = b""
        if value is not None:
            assert isinstance(value, decimal.Decimal), value
            digits = unscaled_bytes(unscaled_decimal(value, data_type.scale))
        return struct.pack("<II", len(digits), offset), digits.ljust(LONG_DECIMAL_SIZE, b"\0")
    assert value is None or isinstance(value, int), value
    ms, nanos = divmod(value or 0, NANOS_OF_MILLI)
    return struct.pack("<II", nanos, offset), struct.pack("<q", ms)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Decode a row without arity.

    Raises:
        CorruptFileError: the bytes are too short, or an offset is out of range.
    """
    start = header_size(len(types))
    if len(data) < start + WORD * len(types):
        raise _corrupt(f"a row of {len(types)} columns cannot have {len(data)} bytes")
    try:
        return tuple(
            None
            if data[(index + _HEADER_BITS) // 8] >> (index + _HEADER_BITS) % 8 & 1
            else _decode(data, start + WORD * index, data_type)
            for index, data_type in enumerate(types)
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise _corrupt(f"a row of {len(types)} columns cannot be decoded: {error}") from error


def _decode(data: bytes, byte_offset: int, data_type: DataType) -> object:
    """Decode the value whose slot is at a byte offset."""
    root = data_type.root
    if root in _SLOT_FORMATS:
        return struct.unpack_from(_SLOT_FORMATS[root], data, byte_offset)[0]
    if root in STRING_ROOTS:
        return _decode_bytes(data, byte_offset).decode()
    if root in BINARY_ROOTS:
        return _decode_bytes(data, byte_offset)
    low, offset = struct.unpack_from("<II", data, byte_offset)
    if root is TypeRoot.DECIMAL:
        if has_long_form(data_type):
            unscaled_value = int.from_bytes(_slice(data, offset, low), "big", signed=True)
        else:
            unscaled_value = struct.unpack_from("<q", data, byte_offset)[0]
        return scaled_decimal(unscaled_value, data_type.scale)
    if has_long_form(data_type):
        ms = struct.unpack_from("<q", data, offset)[0]
        return int(ms * NANOS_OF_MILLI + low)
    return int(struct.unpack_from("<q", data, byte_offset)[0] * NANOS_OF_MILLI)


def _decode_bytes(data: bytes, byte_offset: int) -> bytes:
    mark = data[byte_offset + INLINE_BYTES_MAX]
    if mark & _INLINE_MARK:
        length = mark & ~_INLINE_MARK
        if length > INLINE_BYTES_MAX:
            raise _corrupt(f"a slot claims to hold {length} bytes")
        return data[byte_offset : byte_offset + length]
    length, offset = struct.unpack_from("<II", data, byte_offset)
    return _slice(data, offset, length)


def _slice(data: bytes, offset: int, length: int) -> bytes:
    if offset + length > len(data):
        raise _corrupt(
            f"a value at {offset} with {length} bytes exceeds the row of {len(data)} bytes"
        )
    return data[offset : offset + length]


def serialize_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Encode a row as manifests store it: four big-endian bytes of arity, then `encode_row`."""
    return struct.pack(">I", len(types)) + encode_row(values, types)


def deserialize_row(data: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Decode a row as manifests store it.

    Raises:
        CorruptFileError: the arity differs from `types`, or the bytes are damaged.
    """
    if len(data) < 4:
        raise _corrupt(f"a serialized row cannot have {len(data)} bytes")
    arity = struct.unpack_from(">I", data)[0]
    if arity != len(types):
        raise _corrupt(f"a serialized row has {arity} columns instead of {len(types)}")
    return decode_row(data[4:], types)


def _corrupt(problem: str) -> CorruptFileError:
    return CorruptFileError(
        problem,
        fix="the manifest is damaged: restore the table from a backup or roll back to a tag",
    )


@total_ordering
class _Null:
    """A null in a key, which sorts before every value, and equals only itself."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return not is_null(other)

    def __eq__(self, other: object) -> bool:
        return is_null(other)

    def __hash__(self) -> int:
        return hash(_Null)

    def __repr__(self) -> str:
        return "null"


_NULL = _Null()


def is_null(part: object) -> bool:
    """Return whether a part of a `key_order` tuple is null."""
    return isinstance(part, _Null)


class _KeyOrder:
    """The function of `key_order`, hashed by identity so that lookups need not hash the types."""

    def __init__(self, types: tuple[DataType, ...]) -> None:
        self._types = types

    def __call__(self, data: bytes) -> tuple[object, ...]:
        if len(data) > _CACHED_KEY_BYTES_MAX:
            return self.decode(data)
        return _cached_key(self, data)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return key_order, (self._types,)

    def decode(self, data: bytes) -> tuple[object, ...]:
        return tuple(
            value.encode() if isinstance(value, str) else _NULL if value is None else value
            for value in deserialize_row(data, self._types)
        )


@lru_cache(maxsize=1 << 10)
def key_order(types: tuple[DataType, ...]) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function from a serialized key to a tuple that sorts as Paimon's keys.

    Strings become UTF-8 bytes, because Paimon compares these; nulls come first. Short keys are
    cached, because each epoch plans a bucket's compactions with the bounds of the same files.
    """
    return _KeyOrder(types)


_cached_key = lru_cache(maxsize=1 << 14)(_KeyOrder.decode)


def python_value(scalar: pa.Scalar, data_type: DataType) -> object:
    """Convert an Arrow value to a Python value of this module, without rounding timestamps."""
    if not scalar.is_valid:
        return None
    if data_type.root in TIMESTAMP_ROOTS:
        return int(scalar.value) * _NANOS_OF_UNIT[scalar.type.unit]
    if data_type.root is TypeRoot.TIME:
        return int(scalar.value) * _NANOS_OF_UNIT[scalar.type.unit] // NANOS_OF_MILLI
    if data_type.root is TypeRoot.DATE:
        return int(scalar.value)
    return scalar.as_py()


def serialize_arrow_row(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], row_index: int
) -> bytes:
    """Encode row `row_index` of Arrow columns as manifests store it, such as its first key."""
    values = [
        python_value(column[row_index], data_type)
        for column, data_type in zip(columns, types, strict=True)
    ]
    return serialize_row(values, types)
