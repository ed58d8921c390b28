"""Formats rows of texts as lines with aligned columns, which can be streamed.

The first rows determine the widths, and wider values of later rows are cut. Null is printed as
NULL. Characters that would move the cursor are escaped, and East Asian characters count as two
columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from rich.cells import cell_len, set_cell_size

NULL_TEXT = "NULL"
_SAMPLE_ROWS_MAX = 1000
_GAP = "  "
_CUT = "…"
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")

TextRow = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a text table.

    `width_max` counts the terminal's characters; None means no limit.
    """

    name: str
    aligns_right: bool = False
    width_max: int | None = 40


def text_lines(columns: Sequence[Column], rows: Iterable[TextRow]) -> Iterator[str]:
    """Yield the header and the rows as lines, or nothing without rows."""
    rows = iter(rows)
    sample_rows = list(islice(rows, _SAMPLE_ROWS_MAX))
    if not sample_rows:
        return
    cells = [[visible_text(value) for value in row] for row in sample_rows]
    widths = [_width(column, (row[index] for row in cells)) for index, column in enumerate(columns)]
    yield _line([column.name for column in columns], columns, widths)
    yield _GAP.join("─" * width for width in widths)
    for row in chain(cells, ([visible_text(value) for value in row] for row in rows)):
        yield _line(row, columns, widths)


def visible_text(value: str | None) -> str:
    """Return a value with escapes for characters that would move the cursor."""
    if value is None:
        return NULL_TEXT
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), value)


def _width(column: Column, cells: Iterable[str]) -> int:
    width = max(cell_len(cell) for cell in cells)
    if column.width_max is not None:
        width = min(width, column.width_max)
    return max(width, cell_len(column.name))


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    fitted_cells = (
        _fit(cell, width, aligns_right=column.aligns_right)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return _GAP.join(fitted_cells).rstrip()


def _fit(cell: str, width: int, *, aligns_right: bool) -> str:
    free_width = width - cell_len(cell)
    if free_width < 0:
        return set_cell_size(cell, width - 1) + _CUT
    return " " * free_width + cell if aligns_right else cell + " " * free_width
