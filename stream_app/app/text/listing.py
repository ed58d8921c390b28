"""Formats lists of a table's parts as text or JSON, and sizes, times, ages and counts.

A row is a frozen dataclass of int, float, bool, str and None, whose fields are the columns. Text
shows columns named ``bytes`` and ``bytes_…`` as sizes; JSON has their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import orjson

from stream_app.app.text.text_table import Column, text_lines
from stream_app.clock import utc_text

NOTHING = "nothing to do"
DRY_RUN = "dry run: nothing was changed"
_ABSENT = "-"
_UNIT_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_WIDTHS = {"meaning": 100, "min_key": 32, "max_key": 32}


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of one class, in order. `row_type` determines the columns even without rows."""

    row_type: type[Any]
    rows: Sequence[Any]

    def columns(self) -> list[Column]:
        """Return the columns. Columns of numbers are right-aligned."""
        return [
            Column(
                field.name,
                aligns_right=any(
                    type(getattr(row, field.name)) in (int, float) for row in self.rows
                ),
                width_max=_WIDTHS.get(field.name),
            )
            for field in fields(self.row_type)
        ]

    def texts(self) -> Iterator[list[str]]:
        """Yield each row as texts."""
        names = [field.name for field in fields(self.row_type)]
        for row in self.rows:
            yield [cell_text(name, getattr(row, name)) for name in names]

    def lines(self) -> Iterator[str]:
        """Yield lines of aligned columns, or nothing without rows."""
        return text_lines(self.columns(), self.texts())

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object for each row."""
        for row in self.rows:
            yield orjson.dumps(asdict(row)).decode()


def cell_text(name: str, value: object) -> str:
    """Return a value as a text table shows it."""
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        is_size = name == "bytes" or name.startswith("bytes_")
        return size_text(value) if is_size else str(value)
    return str(value)


def size_text(size: float) -> str:
    """Format a size: ``1536`` gives ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_text(time_ms: int | None, *, zone: str = "Z") -> str | None:
    """Format milliseconds since 1970 as ISO 8601 in UTC, or return None for None.

    For Paimon's local times `zone` is empty.
    """
    return None if time_ms is None else utc_text(time_ms, zone)


def age_text(seconds: float | None) -> str:
    """Format a duration: ``95`` gives ``1 min 35 s``, and None ``-``."""
    if seconds is None:
        return _ABSENT
    whole_seconds = int(seconds)
    for (unit, unit_s), (smaller_unit, smaller_s) in pairwise(_UNIT_SECONDS.items()):
        if whole_seconds >= unit_s:
            smaller_units = whole_seconds % unit_s // smaller_s
            return f"{whole_seconds // unit_s} {unit}" + (
                f" {smaller_units} {smaller_unit}" if smaller_units else ""
            )
    return f"{whole_seconds} s"


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
