"""Prints lists of a table's parts as text or JSON; and sizes, times, ages and counts in words.

A row is a frozen dataclass of int, float, bool, str and None; its fields are the columns. Columns
named ``bytes`` and ``bytes_…`` are shown as sizes; JSON has the numbers.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

from stream_app.app.text.text_table import Column, text_lines

NOTHING = "nothing to do"
DRY_RUN = "dry run: nothing was changed"
_ABSENT = "-"
_WIDTHS = {"meaning": 100, "min_key": 32, "max_key": 32}


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of one class, in order; `row_type` has the columns even without rows."""

    row_type: type[Any]
    rows: Sequence[Any]

    def columns(self) -> list[Column]:
        """The columns; those of numbers are right-aligned."""
        return [
            Column(
                field.name,
                right=any(type(getattr(row, field.name)) in (int, float) for row in self.rows),
                width_max=_WIDTHS.get(field.name),
            )
            for field in fields(self.row_type)
        ]

    def texts(self) -> Iterator[list[str]]:
        """Each row as texts."""
        names = [field.name for field in fields(self.row_type)]
        for row in self.rows:
            yield [value_text(name, getattr(row, name)) for name in names]

    def lines(self) -> Iterator[str]:
        """Aligned columns; nothing when there are no rows."""
        return text_lines(self.columns(), self.texts())

    def json_lines(self) -> Iterator[str]:
        """A JSON object a row."""
        for row in self.rows:
            yield orjson.dumps(asdict(row)).decode()


def value_text(name: str, value: object) -> str:
    """A value as a text table shows it."""
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        is_size = name == "bytes" or name.startswith("bytes_")
        return size_text(value) if is_size else str(value)
    return str(value)


def size_text(size: float) -> str:
    """A size for people: ``1536`` gives ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_text(millis: int | None, *, zone: str = "Z") -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC; Paimon's local times take `zone` ''."""
    if millis is None:
        return None
    seconds, rest = divmod(millis, 1000)
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{rest:03}{zone}"


def age_text(seconds: float | None) -> str:
    """An age for people: ``95`` gives ``1 min 35 s``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, name, smaller, of in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {of}" if rest else "")
    return f"{whole} s"


def counted(count: int, what: str) -> str:
    """A number with its noun: ``1 file``, ``2 files``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
