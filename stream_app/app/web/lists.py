"""Lists of a table's page: the columns with values, and values as a page shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from stream_app.app.text.listing import Listing, value_text
from stream_app.app.text.text_table import Column

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z?")
_COUNTS = ("rows", "records", "deletes")
_LONG = 48
"""Characters beyond which a value breaks into lines."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a list."""

    text: str
    is_number: bool

    @property
    def is_long(self) -> bool:
        """Whether it needs several lines."""
        return len(self.text) > _LONG


@dataclass(frozen=True, kw_only=True)
class PageList:
    """A list that unfolds.

    Attributes:
        total: number of existing rows; the listing may have fewer.
        which: which of its rows are shown, when not all are.
    """

    title: str
    listing: Listing
    total: int
    which: str = "first"

    @property
    def size(self) -> str:
        """The number of rows, in all and shown."""
        shown = len(self.listing.rows)
        if shown == self.total:
            return f"{shown:,}"
        return f"{self.which} {shown:,} of {self.total:,}"

    @cached_property
    def columns(self) -> Sequence[Column]:
        """The columns in which any row has a value."""
        return [
            column
            for column in self.listing.columns()
            if any(getattr(row, column.name) not in (None, "") for row in self.listing.rows)
        ]

    def cells(self) -> list[list[Cell]]:
        """The cells of the rows."""
        return [
            [Cell(_text(one.name, getattr(row, one.name)), one.right) for one in self.columns]
            for row in self.listing.rows
        ]


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith(_COUNTS):
        return f"{value:,}"
    return short_times(value_text(name, value))


def short_times(text: str) -> str:
    """ISO times without milliseconds and zone."""
    return _TIME.sub(r"\1 \2", text)
