"""Converts values of columns whose `mysqlType` gives them another meaning.

Canal sends the number of an ENUM's member, of a SET the bits of its members, a BIT as its number,
and a geometry as MySQL's bytes. So such a value is read by the type of its own message.

Source: Paimon `format/canal/CanalFieldParser.java` and `mysql/MySqlTypeUtils.java`. Different here:
a SET becomes MySQL's own text, names with commas between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.canal.geometry import geometry_json
from stream_app.cdc.columns.arrow_buffers import Bools, bools_of, null_where, valid_of
from stream_app.cdc.columns.column_reading import Family

Conversion = Callable[[str], str]
"""Of a value's text; raises ValueError, which says behind the value what is wrong with it."""

_NAMED = re.compile(r"\s*(enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_GEOMETRY = re.compile(
    r"\s*(geometry|point|linestring|polygon|multi\w+|geomcollection|geometrycollection)\b",
    re.IGNORECASE,
)
_BITS = re.compile(r"\s*bit\s*(?:\(\s*(\d+)\s*\))?\s*$", re.IGNORECASE)
_DIGITS_MAX = 20


@lru_cache(maxsize=4096)
def conversion(family: Family, mysql_type: str) -> Conversion | None:
    """The conversion of a type's values into a column's; None: they need none."""
    if family is Family.STRING:
        if named := _NAMED.match(mysql_type):
            names = tuple(label.replace("''", "'") for label in _MEMBER.findall(named[2]))
            return partial(_named, names, is_set=named[1].lower() == "set")
        return geometry_json if _GEOMETRY.match(mysql_type) else None
    if family is Family.BINARY and (bits := _BITS.match(mysql_type)):
        return partial(_bits, (int(bits[1] or 1) + 7) // 8)
    return None


def _named(names: tuple[str, ...], text: str, *, is_set: bool) -> str:
    if not _is_number(text):
        labels = text.split(",") if is_set and text else [text]
        if set(labels) <= {*names, ""}:
            return text
        raise ValueError("is no member of its ENUM or SET")
    number = int(text)
    if is_set and number < 1 << len(names):
        return ",".join(name for bit, name in enumerate(names) if number >> bit & 1)
    if not is_set and number <= len(names):
        return names[number - 1] if number else ""  # 0: MySQL's mark of an invalid value
    raise ValueError("is no member of its ENUM or SET")


def _bits(size: int, text: str) -> str:
    """The bytes of a number, the most significant first, as text of ISO 8859-1."""
    if not _is_number(text) or int(text) >= 1 << 8 * size:
        raise ValueError("is not the number of its BIT")
    return int(text).to_bytes(size, "big").decode("latin-1")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def converted(family: Family, types: pa.Array, texts: pa.Array) -> tuple[pa.Array, Bools]:
    """A column [n] converted by the messages' types [n]; and where a value cannot be converted."""
    failed = ~valid_of(texts) & valid_of(texts)
    for mysql_type in types.unique().drop_null().to_pylist():  # a loop over types
        convert = conversion(family, mysql_type)
        if convert is None:
            continue
        rows = bools_of(pc.equal(types, mysql_type))
        wanted = null_where(texts, ~rows).dictionary_encode()
        texts_by_code = pa.array(
            [_or_none(convert, text) for text in wanted.dictionary.to_pylist()]
        )
        values = texts_by_code.cast(pa.string()).take(wanted.indices)
        failed |= rows & valid_of(texts) & ~valid_of(values)
        texts = pc.if_else(pa.array(rows), values, texts)
    return texts, failed


def _or_none(convert: Conversion, text: str) -> str | None:
    try:
        return convert(text)
    except ValueError:
        return None
