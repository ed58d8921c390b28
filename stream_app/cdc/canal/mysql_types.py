"""Converts values whose meaning depends on the `mysqlType` of their column.

Canal sends an ENUM as the number of its member, a SET as a bit mask of its members, and a BIT as a
number. It sends a geometry in MySQL's binary form. So each of these values is read by the type in
its own message.

Source: Paimon `format/canal/CanalFieldParser.java` and `mysql/MySqlTypeUtils.java`. Unlike Paimon,
this module writes a SET as MySQL does: its names, separated by commas. A geometry is OGC's
well-known binary ("Simple Features"), after the number of its reference system.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, null_where, valid_of
from stream_app.cdc.columns.column_reading import Family

Conversion = Callable[[str], str]
"""Converts a value's text; raises ValueError, whose text continues a sentence about the value."""

_ENUM_OR_SET = re.compile(r"\s*(enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_GEOMETRY = re.compile(
    r"\s*(geometry|point|linestring|polygon|multi\w+|geomcollection|geometrycollection)\b",
    re.IGNORECASE,
)
_BIT_TYPE = re.compile(r"\s*bit\s*(?:\(\s*(\d+)\s*\))?\s*$", re.IGNORECASE)
_DIGITS_MAX = 20
"""Digits of the largest number of 64 bits."""
_COLLECTION = 7
_GEOMETRY_NAMES = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    _COLLECTION: "GeometryCollection",
}
_GEOMETRY_DEPTH_MAX = 32
"""Levels of collections; each takes a level of Python's stack."""


@lru_cache(maxsize=4096)
def conversion(family: Family, mysql_type: str) -> Conversion | None:
    """Return the conversion from a MySQL type to a column's; None if none is needed."""
    if family is Family.STRING:
        if match := _ENUM_OR_SET.match(mysql_type):
            members = tuple(member.replace("''", "'") for member in _MEMBER.findall(match[2]))
            return partial(_member_text, members, is_set=match[1].lower() == "set")
        return geometry_json if _GEOMETRY.match(mysql_type) else None
    if family is Family.BINARY and (bit_type := _BIT_TYPE.match(mysql_type)):
        return partial(_bit_text, (int(bit_type[1] or 1) + 7) // 8)
    return None


def _member_text(members: tuple[str, ...], text: str, *, is_set: bool) -> str:
    if not _is_number(text):
        names = text.split(",") if is_set and text else [text]
        if set(names) <= {*members, ""}:
            return text
        raise ValueError("is not a member of its ENUM or SET")
    member_code = int(text)
    if is_set and member_code < 1 << len(members):
        return ",".join(name for bit, name in enumerate(members) if member_code >> bit & 1)
    if not is_set and member_code <= len(members):
        return (
            members[member_code - 1] if member_code else ""
        )  # 0: MySQL's mark of an invalid value
    raise ValueError("is not a member of its ENUM or SET")


def _bit_text(size: int, text: str) -> str:
    """Return the bytes of a number as text of ISO 8859-1, the most significant byte first."""
    if not _is_number(text) or int(text) >= 1 << 8 * size:
        raise ValueError("is not the number of its BIT")
    return int(text).to_bytes(size, "big").decode("latin-1")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def convert_by_types(family: Family, types: pa.Array, texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Convert a column [n] by the messages' types [n], and return the mask of failed values too."""
    has_failed = np.zeros(len(texts), bool)
    for mysql_type in types.unique().drop_null().to_pylist():  # a loop over types
        convert = conversion(family, mysql_type)
        if convert is None:
            continue
        has_type = bools_of(pc.equal(types, mysql_type))
        encoded_texts = null_where(texts, ~has_type).dictionary_encode()
        texts_by_code = pa.array(
            [_convert_or_none(convert, text) for text in encoded_texts.dictionary.to_pylist()]
        )
        values = texts_by_code.cast(pa.string()).take(encoded_texts.indices)
        has_failed |= has_type & valid_of(texts) & ~valid_of(values)
        texts = pc.if_else(pa.array(has_type), values, texts)
    return texts, has_failed


def _convert_or_none(convert: Conversion, text: str) -> str | None:
    try:
        return convert(text)
    except ValueError:
        return None


def geometry_json(text: str) -> str:
    """Convert a geometry to GeoJSON; its bytes are given as ISO 8859-1 text.

    Raises:
        ValueError: the bytes are not a geometry.
    """
    try:
        data = text.encode("latin-1")
        (srid,) = struct.unpack_from("<I", data)
        reader = _GeometryReader(data, 4)
        name, members = reader.geometry(0)
    except (UnicodeEncodeError, struct.error, KeyError, RecursionError):
        raise ValueError("is not a geometry as MySQL stores it") from None
    if reader.position != len(data):
        raise ValueError("is not a geometry as MySQL stores it")
    field = "geometries" if name == _GEOMETRY_NAMES[_COLLECTION] else "coordinates"
    return json.dumps({field: members, "type": name, "srid": srid}, separators=(",", ":"))


class _GeometryReader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def geometry(self, depth: int) -> tuple[str, Any]:
        """Return the name of the type, and the coordinates or, in a collection, the geometries."""
        if depth > _GEOMETRY_DEPTH_MAX:
            raise RecursionError
        (order,) = self._take("<B")
        byte_order = ">" if order == 0 else "<"
        (type_code,) = self._take(f"{byte_order}I")
        name = _GEOMETRY_NAMES[type_code]
        match type_code:
            case 1:
                return name, self._point(byte_order)
            case 2:
                return name, self._points(byte_order)
            case 3:
                return name, [self._points(byte_order) for _ in range(self._count(byte_order))]
            case _:
                members = [self.geometry(depth + 1) for _ in range(self._count(byte_order))]
                if type_code == _COLLECTION:
                    return name, [
                        {"type": member_name, "coordinates": coordinates}
                        for member_name, coordinates in members
                    ]
                return name, [coordinates for _, coordinates in members]

    def _point(self, byte_order: str) -> list[float]:
        return [
            int(coordinate) if coordinate.is_integer() else coordinate
            for coordinate in self._take(f"{byte_order}2d")
        ]

    def _points(self, byte_order: str) -> list[list[float]]:
        return [self._point(byte_order) for _ in range(self._count(byte_order))]

    def _count(self, byte_order: str) -> int:
        (count,) = self._take(f"{byte_order}I")
        if count > len(self._data):
            raise struct.error
        return int(count)

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self.position)
        self.position += struct.calcsize(layout)
        return values
