"""Patterns of ``date_format``: the letters of Java's DateTimeFormatter, read into parts.

Pure: `time_functions` formats the parts. The letters are those that a date and a time of day have.
Names are English, weeks are those of ISO 8601; in Paimon both depend on the JVM's locale.

Source: Java `java/time/format/DateTimeFormatterBuilder.java#appendPattern`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

DAY, HOUR, MINUTE, SECOND = 86_400, 3_600, 60, 1
NANO = 0

_TOKEN = re.compile(r"(?P<letters>([A-Za-z])\2*)|(?P<quoted>'(?:[^']|'')*')|(?P<plain>[^A-Za-z'])")
_RESERVED_CHARACTERS = frozenset("{}#[]")


@dataclass(frozen=True, slots=True)
class PatternLetter:
    """The meaning of a pattern's letter.

    Attributes:
        count_max: the most occurrences of the letter in a row.
        unit: the least seconds between its changes; `NANO` if it changes within a second.
    """

    meaning: str
    count_max: int
    unit: int


LETTERS: Mapping[str, PatternLetter] = {
    "y": PatternLetter("year", 19, DAY),
    "u": PatternLetter("year", 19, DAY),
    "Y": PatternLetter("year of the week", 19, DAY),
    "Q": PatternLetter("quarter", 3, DAY),
    "q": PatternLetter("quarter", 3, DAY),
    "M": PatternLetter("month", 4, DAY),
    "L": PatternLetter("month", 4, DAY),
    "w": PatternLetter("week of the year", 2, DAY),
    "D": PatternLetter("day of the year", 3, DAY),
    "d": PatternLetter("day of the month", 2, DAY),
    "E": PatternLetter("day of the week", 4, DAY),
    "a": PatternLetter("AM or PM", 1, HOUR),
    "H": PatternLetter("hour, 0 to 23", 2, HOUR),
    "k": PatternLetter("hour, 1 to 24", 2, HOUR),
    "K": PatternLetter("hour, 0 to 11", 2, HOUR),
    "h": PatternLetter("hour, 1 to 12", 2, HOUR),
    "m": PatternLetter("minute", 2, MINUTE),
    "s": PatternLetter("second", 2, SECOND),
    "S": PatternLetter("fraction of a second", 9, NANO),
}


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A letter and its number of repetitions, or plain text (count 0)."""

    text: str
    count: int = 0


def parse_pattern(pattern: str) -> tuple[PatternPart, ...]:
    """Read a pattern.

    Raises:
        ValueError: the pattern is invalid; the text continues a line that begins with the pattern.
    """
    parts: list[PatternPart] = []
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError("has a quote that is not closed")
        position = token.end()
        text = token[0]
        if token["letters"]:
            _check_letter(text[0], len(text))
            parts.append(PatternPart(text[0], len(text)))
        elif text in _RESERVED_CHARACTERS:
            raise ValueError(f"has {text!r}, which needs quotes: '{text}'")
        else:
            plain_text = text[1:-1].replace("''", "'") or "'" if token["quoted"] else text
            parts.append(PatternPart(plain_text))
    if not parts:
        raise ValueError("is empty: give one such as yyyy-MM-dd")
    return tuple(parts)


def _check_letter(letter: str, count: int) -> None:
    if letter not in LETTERS:
        letters = ", ".join(f"{key} {value.meaning}" for key, value in LETTERS.items())
        raise ValueError(f"has the letter {letter!r}; known: {letters}; other text needs quotes")
    if count > LETTERS[letter].count_max:
        raise ValueError(f"has {letter * count!r}: at most {LETTERS[letter].count_max} in a row")


def unit_of(parts: tuple[PatternPart, ...]) -> int:
    """Return the least seconds between changes of the text; `NANO` if it changes within one."""
    return min((LETTERS[part.text].unit for part in parts if part.count), default=DAY)
