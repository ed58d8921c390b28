"""Parses the texts of arguments: times, durations, partitions and names of columns."""

from __future__ import annotations

import re

from stream_app.errors import UsageError
from stream_app.model.options.option import parse_duration_ms
from stream_app.table.versions.time_travel import Timestamp

_COMMA_OR_ENCLOSED = re.compile(r"(,)|'[^']*'|\((?:'[^']*'|[^'()])*\)")
"""A comma between two columns, or a text or an argument list whose commas are inside."""


def timestamp_argument(text: str) -> Timestamp:
    """Parse a time on the command line: ISO 8601, or milliseconds since 1970."""
    return int(text) if text.lstrip("-").isdigit() else text


def duration_argument(name: str, text: str) -> int:
    """Parse a duration with a unit, such as ``1h``, to milliseconds.

    Raises:
        UsageError: the text is not a duration; `name` is the name of the argument.
    """
    # Paimon would read such a number as milliseconds, which nobody means here.
    if text.strip().isdecimal():
        raise UsageError(f"{name} {text} has no unit", fix="write it as 30min, 1h or 2d")
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{name} {text}: {error}", fix="write it as 30min, 1h or 2d") from None


def columns_argument(text: str | None) -> list[str] | None:
    """Return the names and functions that ``--columns`` lists, or None for all columns."""
    if text is None:
        return None
    commas = [match.start() for match in _COMMA_OR_ENCLOSED.finditer(text) if match[1]]
    return [
        text[start:end].strip()
        for start, end in zip([0, *(comma + 1 for comma in commas)], [*commas, None], strict=True)
    ]


def partition_argument(text: str) -> dict[str, str]:
    """Parse a partition, such as ``dt=2026-11-20,region=eu``.

    Raises:
        UsageError: the text has another form, or two values of one column.
    """
    values: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not (name and sign):
            raise UsageError(
                f"{text!r} is not a partition", fix="write it as dt=2026-11-20,region=eu"
            )
        name, value = name.strip(), value.strip()
        if name in values:
            raise UsageError(
                f"{text!r} has two values of {name}",
                fix=f"name two partitions: {name}={values[name]} and {name}={value}",
            )
        values[name] = value
    return values
