"""Compares tables of the warehouse with those of the source: each column's type, each value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from tests.support.judges.normal_rows import Row
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.source_database import SourceDatabase
from tests.testbed.source_tables import SourceTable

_MISSING = "(no such column)"
Read = Callable[[Path, Sequence[str]], list[Row]]
"""A reader of the warehouse: a table's folder and its key → its rows in the normal form."""


def differences(
    database: SourceDatabase, table: SourceTable, location: Path, read: Read
) -> Iterator[str]:
    """Yield the differences of the warehouse's table from its source, in the source's columns."""
    names = [*table.key_names, *(column.name for column in table.columns)]
    expected = _by_key(table, database.rows(table))
    try:
        rows = read(location, table.key_names)
    except Exception as error:  # a proof goes on to the next table, whatever the reader says
        yield f"{location.name}: cannot be read: {error}"
        return
    by_key = _by_key(table, rows)
    if len(by_key) != len(rows):
        yield f"{location.name}: {len(rows) - len(by_key)} rows are there twice"
    yield from _reported(location.name, "rows are missing", sorted(expected.keys() - by_key.keys()))
    yield from _reported(
        location.name, "rows are too many", sorted(by_key.keys() - expected.keys())
    )
    for name in names:
        changed_lines = [
            f"{key}: {by_key[key].get(name, _MISSING)!r} instead of {expected[key][name]!r}"
            for key in sorted(expected.keys() & by_key.keys())
            if by_key[key].get(name, _MISSING) != expected[key][name]
        ]
        yield from _reported(f"{location.name}.{name}", "values are others", changed_lines)


def _by_key(table: SourceTable, rows: Iterable[Row]) -> dict[tuple[object, ...], Row]:
    return {tuple(row[name] for name in table.key_names): row for row in rows}


def _reported(where: str, problem: str, cases: Sequence[object]) -> Iterator[str]:
    if cases:
        yield f"{where}: {len(cases)} {problem}: {'; '.join(map(str, islice(cases, 3)))}"


def replayed(changes: Iterable[tuple[str, Row]], key: Sequence[str]) -> list[Row]:
    """The rows to which a changelog leads."""
    rows: dict[tuple[object, ...], Row] = {}
    for kind, row in changes:
        place = tuple(row[name] for name in key)
        if kind in ("+I", "+U"):
            rows[place] = row
        elif kind == "-D":
            rows.pop(place, None)
    return list(rows.values())


def column_differences(
    database: SourceDatabase, table: SourceTable, location: Path, java: PaimonJava
) -> Iterator[str]:
    """Types, NOT NULL and comments that Java reads otherwise than the source's columns have them.

    A column that came with an ALTER may be null: older rows have no value there.
    """
    schema = max(java.read(f"{location}$schemas"), key=lambda row: int(row["schema_id"]))
    comments = {load["name"]: load.get("description") for load in json.loads(schema["fields"])}
    types = dict(java.types(location))
    expected: dict[str, tuple[str, str | None]] = {
        name: (sql.upper(), None) for name, sql in table.key
    }
    for column in table.columns:
        is_required = column.is_required and not table.is_new(column.name)
        text = database.type_in_warehouse(column) + (" NOT NULL" if is_required else "")
        expected[column.name] = (text, column.comment)
    for name, (type_, comment) in expected.items():
        if (types.get(name), comments.get(name)) != (type_, comment):
            actual = f"{types.get(name, _MISSING)}, comment {comments.get(name)!r}"
            yield f"{location.name}.{name}: {actual}, instead of {type_}, comment {comment!r}"
