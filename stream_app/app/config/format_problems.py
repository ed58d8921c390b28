"""Checks the options of the source's format, beside the table's columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from stream_app.app.config.sync_problems import excluding_options
from stream_app.cdc.message_format import Format
from stream_app.errors import UsageError
from stream_app.message_formats import FORMATS
from stream_app.model.schema.data_type import RowType

_SOURCE = "source."


def format_problems(
    name: str,
    options: Mapping[str, str],
    columns: RowType,
    given: Collection[str],
    many_tables: bool,
) -> Iterator[tuple[str, str]]:
    """Problems by key of the configuration.

    Args:
        name: of the format.
        given: all keys that the configuration has.
        many_tables: whether the tables and their columns come from the messages.
    """
    chosen = FORMATS[name]
    yield from _of_others(chosen, given)
    for option in chosen.options:
        if option.example and option.key not in options:
            yield chosen.full_key(option.key), f"is missing: such as {option.example!r}"
    if not many_tables:
        for key, problem in excluding_options(options):
            yield chosen.full_key(key), problem
    if options and (columns.fields or many_tables):
        try:
            chosen.check(options, columns)
        except UsageError as error:
            yield f"{_SOURCE}{chosen.section}", error.what


def _of_others(chosen: Format, given: Collection[str]) -> Iterator[tuple[str, str]]:
    """Options of formats that are not chosen, which have no effect."""
    names: dict[str, list[str]] = {}
    for known in FORMATS.values():
        names.setdefault(known.section, []).append(known.name)
    del names[chosen.section]
    for key in sorted(given):
        section, _, rest = key.removeprefix(_SOURCE).partition(".")
        if rest and key.startswith(_SOURCE) and section in names:
            yield key, f"is of source.format = {' or '.join(names[section])}, not {chosen.name}"
