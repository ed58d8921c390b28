"""What `mysqlType` says of a column's values: names of ENUM and SET, and what cannot be stored.

Canal sends the number of an ENUM's member, and of a SET the bits of its members. The type has the
names. A number has no name without it, so a value is read by the type of its own message.

Source: Paimon `format/canal/CanalFieldParser.java`; MySQL's text of a SET parts names by commas.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools, null_where
from stream_app.cdc.columns.column_reading import Family

_NAMED = re.compile(r"\s*(enum|set)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(r"'((?:[^']|'')*)'")
_GEOMETRY = re.compile(
    r"\s*(geometry|point|linestring|polygon|multi\w+|geomcollection|geometrycollection)\b", re.I
)
_BITS = re.compile(r"\s*bit\b", re.IGNORECASE)
_DIGITS_MAX = 20


def refusal(family: Family, mysql_type: str) -> str:
    """Why a column of this family cannot take values of a type; empty: it can."""
    if family is Family.STRING and _GEOMETRY.match(mysql_type):
        return "is a geometry, which is bytes: make the column BYTES"
    if family is Family.BINARY and _BITS.match(mysql_type):
        return "is the number of a BIT: make the column BIGINT, or BOOLEAN for one bit"
    return ""


def has_names(mysql_type: str) -> bool:
    """Whether values are numbers of names."""
    return _NAMED.match(mysql_type) is not None


@lru_cache(maxsize=256)
def _members(mysql_type: str) -> tuple[bool, tuple[str, ...]]:
    """Whether it is a SET, and the names."""
    found = _NAMED.match(mysql_type)
    assert found is not None, mysql_type
    names = tuple(each.replace("''", "'") for each in _MEMBER.findall(found[2]))
    return found[1].lower() == "set", names


def named_value(mysql_type: str, text: str) -> str:
    """The name, or names, of a value of ENUM or SET.

    Raises:
        ValueError: the type has no such member; says so behind the value.
    """
    is_set, names = _members(mysql_type)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        told = text.split(",") if is_set and text else [text]
        if set(told) <= {*names, ""}:
            return text
        raise ValueError(f"is no member of {mysql_type[:80]}")
    number = int(text)
    if is_set and number < 1 << len(names):
        return ",".join(name for bit, name in enumerate(names) if number >> bit & 1)
    if not is_set and number <= len(names):
        return names[number - 1] if number else ""  # 0: MySQL's mark of an invalid value
    raise ValueError(f"is no member of {mysql_type[:80]}")


def named_values(mysql_type: str, texts: pa.Array, rows: Bools) -> tuple[pa.Array, Bools]:
    """`named_value` of the texts [n] in these rows; and where the type has no such member."""
    wanted = null_where(texts, ~rows).dictionary_encode()
    names: list[str | None] = []
    for text in wanted.dictionary.to_pylist():  # a loop over members
        try:
            names.append(named_value(mysql_type, text))
        except ValueError:
            names.append(None)
    found = pa.array(names, pa.string()).take(wanted.indices)
    failed: Bools = rows & texts.is_valid().to_numpy(zero_copy_only=False)
    failed &= ~found.is_valid().to_numpy(zero_copy_only=False)
    return pc.if_else(pa.array(rows), found, texts), failed
