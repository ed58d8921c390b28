"""Renders pages as HTML: templates, filled from what a site shows, and lists of values.

Every value is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from stream_app import __version__
from stream_app.app.text.listing import Listing, age_text, cell_text, size_text, time_text
from stream_app.app.text.text_table import CONTROL, Column, visible_text

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z?")
_COUNTS = ("rows", "records", "deletes")
_LINE_WIDTH = 48
"""The number of characters beyond which a value breaks into lines."""
_KIND_NAMES = {"+I": "insert", "-U": "before", "+U": "after", "-D": "delete"}


@dataclass(frozen=True, slots=True)
class ListCell:
    """A value in a list of a page."""

    text: str
    is_number: bool

    @property
    def is_long(self) -> bool:
        """Whether it needs several lines."""
        return len(self.text) > _LINE_WIDTH


@dataclass(frozen=True, kw_only=True)
class PageList:
    """A list that unfolds.

    Attributes:
        total: the number of existing rows; the listing may have fewer.
        which: the shown rows in one word, if not all rows are shown.
    """

    title: str
    listing: Listing
    total: int
    which: str = "first"

    @property
    def size(self) -> str:
        """The number of rows, in all and shown."""
        shown_count = len(self.listing.rows)
        if shown_count == self.total:
            return f"{shown_count:,}"
        return f"{self.which} {shown_count:,} of {self.total:,}"

    @cached_property
    def columns(self) -> Sequence[Column]:
        """The columns in which any row has a value."""
        return [
            column
            for column in self.listing.columns()
            if any(getattr(row, column.name) not in (None, "") for row in self.listing.rows)
        ]

    def cells(self) -> list[list[ListCell]]:
        """Return the cells of the rows."""
        return [
            [
                ListCell(_shown_text(column.name, getattr(row, column.name)), column.aligns_right)
                for column in self.columns
            ]
            for row in self.listing.rows
        ]


def _shown_text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith(_COUNTS):
        return f"{value:,}"
    return short_times(cell_text(name, value))


def short_times(text: str) -> str:
    """Return a text with its ISO times without milliseconds and zone."""
    return _TIME.sub(r"\1 \2", text)


def _page_environment() -> Environment:
    """Return Jinja's environment, with the pages' filters, tests and globals."""
    environment = Environment(
        loader=PackageLoader("stream_app.app.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": size_text,
        "age": age_text,
        "visible": lambda value: visible_text(str(value)),
        "lines": lambda text: "\n".join(
            visible_text(line.strip()) for line in str(text).splitlines()
        ),
        "block": multiline_text,
        "value": _value,
        "payload": payload,
        "short_times": short_times,
        "neighbour_groups": _neighbour_groups,
        "kind_name": _KIND_NAMES.get,
    }
    environment.tests |= {"known_in": _has_value}
    environment.globals |= {"time_text": time_text, "version": __version__}
    return environment


def _neighbour_groups(rows: Sequence[Sequence[str]]) -> list[tuple[str, list[Sequence[str]]]]:
    """Return groups of neighbours with the same first value."""
    return [(first_value, list(group)) for first_value, group in groupby(rows, key=itemgetter(0))]


def _has_value(name: str, rows: Sequence[object]) -> bool:
    """Return whether a row has a value of this name."""
    return any(getattr(row, name) is not None for row in rows)


def multiline_text(text: object) -> str:
    """Return a text that keeps its lines and indents, without other characters that move a cursor.

    For a box that keeps blanks, such as ``<pre>``.
    """
    lines = str(text).replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible_text, line.split("\t"))) for line in lines)


def _value(text: str) -> Markup:
    """Return a value on one line.

    Escapes are marked, so that no backslash of a value is taken for one.
    """
    parts = re.split(f"({CONTROL.pattern})", text)
    marked_parts = (
        Markup('<span class="control">{}</span>').format(visible_text(part))
        if index % 2
        else escape(part)
        for index, part in enumerate(parts)
    )
    return Markup("").join(marked_parts)


def payload(data: bytes | None) -> str:
    """Return a message as it came, without the schema that a converter may have put before it."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    with suppress(ValueError, RecursionError):
        members = _members(text)
        if members.keys() == {"schema", "payload"}:
            return members["payload"]
    return text


def _members(text: str) -> dict[str, str]:
    """Return name → value of a JSON object, each value as it is spelled.

    Raises:
        ValueError: the text is not a JSON object, or has a name twice.
    """
    decoder = json.JSONDecoder()
    members = dict[str, str]()
    index = _end_of_sign(text, "{", 0)
    while True:
        name, index = decoder.raw_decode(text, index)
        start = _end_of_sign(text, ":", index)
        _, index = decoder.raw_decode(text, start)
        if name in members:
            raise ValueError(f"the object has the name {name!r} twice")
        members[name] = text[start:index]
        if text[index:].lstrip().startswith("}"):
            return members
        index = _end_of_sign(text, ",", index)


def _end_of_sign(text: str, sign: str, start: int) -> int:
    """Return the index after a given character that only blanks precede."""
    match = re.compile(rf"\s*{re.escape(sign)}\s*").match(text, start)
    if match is None:
        raise ValueError(f"the text lacks {sign!r} at index {start}")
    return match.end()


PAGE_ENVIRONMENT = _page_environment()


def escaped(text: str) -> str:
    """Return a text with HTML's special characters escaped."""
    return str(escape(text))


def page(template: str, /, **values: Any) -> str:
    """Render the template of a page."""
    return PAGE_ENVIRONMENT.get_template(f"{template}.html").render(**values)
