"""A table's options: those set in its schema, and the defaults of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_app.app.text.listing import size_text
from stream_app.model.options.core_options import OPTIONS
from stream_app.model.options.option import DURATION, SIZE, Option
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option; `value` is None for an option without a default that is not set."""

    option: str
    value: str | None
    is_set: bool
    meaning: str | None


def option_rows(table: FileStoreTable) -> list[OptionRow]:
    """The options, set ones first; options that stream_app does not read have no meaning here."""
    options = table.schema.options
    rows = [_set(key, value) for key, value in sorted(options.items())]
    defaults = [option for key, option in sorted(OPTIONS.items()) if key not in options]
    return rows + [_default(option) for option in defaults]


def _set(key: str, value: str) -> OptionRow:
    known = OPTIONS.get(key)
    return OptionRow(
        option=key, value=value, is_set=True, meaning=None if known is None else known.meaning
    )


def _default(option: Option[Any]) -> OptionRow:
    value = option.default
    text = None if value in (None, "") else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int) and option.kind is SIZE:
        text = size_text(value)
    elif isinstance(value, int) and option.kind is DURATION:
        text = f"{value} ms"
    return OptionRow(option=option.key, value=text, is_set=False, meaning=option.meaning)
