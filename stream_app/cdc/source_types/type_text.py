"""Parses a database's spelling of a type, such as ``decimal(10,2) unsigned``.

Source: Paimon `flink/action/cdc/mysql/MySqlTypeUtils.java#getTypeInfo`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATTERN = re.compile(r"([^()]*)(?:\((.*)\)([^()]*))?", re.DOTALL)
_NUMBERS = re.compile(r"\s*(-?\d{1,9})\s*(?:,\s*(-?\d{1,9})\s*)?")


@dataclass(frozen=True, slots=True)
class TypeText:
    """The parts of a type.

    Attributes:
        name: all words in capitals without brackets, such as ``BIGINT UNSIGNED``.
        length, scale: the numbers in the brackets, or None without brackets.
    """

    name: str
    length: int | None = None
    scale: int | None = None


def parse_type_text(text: str) -> TypeText:
    """Take a type apart; the labels of an ENUM or SET are not numbers."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        return TypeText(_words(text))
    name = _words(f"{match[1]} {match[3] or ''}")
    arguments = _NUMBERS.fullmatch(match[2] or "")
    if arguments is None:
        return TypeText(name)
    return TypeText(name, int(arguments[1]), None if arguments[2] is None else int(arguments[2]))


def _words(text: str) -> str:
    return " ".join(text.upper().split())
