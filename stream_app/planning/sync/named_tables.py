"""Decides whether any table of the job can have a name, by the rules that name tables.

Settings for a table name have no effect if no source table can become that table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from stream_app.model.near_names import nearest_names
from stream_app.planning.sync.target_tables import SyncRules, by_lower_case


def unreachable_reason(rules: SyncRules, name: str) -> str:
    """Return the reason why no source table can become the table `name`; empty if one can."""
    source_tables = list(dict.fromkeys(_sources(rules, name)))
    if not source_tables:
        return _naming_advice(rules, name)
    reasons = [_why_left_out(rules, source) for source in source_tables]
    return "" if "" in reasons else reasons[0]


def nearest_table(name: str, names: Collection[str]) -> str | None:
    """Return the known table that a name probably means."""
    names_by_lower_case = {candidate.lower(): candidate for candidate in sorted(names)}
    overlapping_names = [
        candidate
        for candidate in names_by_lower_case
        if name.lower() in candidate or candidate in name.lower()
    ]
    near_names = nearest_names(name.lower(), names_by_lower_case) or overlapping_names[:1]
    return names_by_lower_case[near_names[0]] if near_names else None


class _Source(NamedTuple):
    """A source table that may become a table.

    Attributes:
        database: the database's name; None: any.
        is_cased: whether the case of the names is the source's for certain.
    """

    database: str | None
    table_name: str
    is_cased: bool


def _sources(rules: SyncRules, name: str) -> Iterator[_Source]:
    target_name = name if rules.case_sensitive else name.lower()
    for source, table_name in rules.table_mapping.items():
        if (table_name if rules.case_sensitive else table_name.lower()) != target_name:
            continue
        database, dot, _ = source.partition(".")
        if dot:
            yield _Source(database, source.rpartition(".")[2], False)
        yield from _own_names(rules, source, is_cased=False)
    yield from _unmapped_sources(rules, name)


def _unmapped_sources(rules: SyncRules, name: str) -> Iterator[_Source]:
    """Yield the source tables that become the table by prefixes and suffixes."""
    mapped_names = {source.lower() for source in rules.table_mapping}
    affixes: dict[str | None, tuple[str, str]] = {None: (rules.table_prefix, rules.table_suffix)}
    prefixes, suffixes = map(by_lower_case, (rules.table_prefix_db, rules.table_suffix_db))
    for database in sorted({*prefixes, *suffixes}):
        affixes[database] = (
            prefixes.get(database, rules.table_prefix),
            suffixes.get(database, rules.table_suffix),
        )
    for only_database, (prefix, suffix) in affixes.items():
        inner = name[len(prefix) : len(name) - len(suffix)]
        if not inner or f"{prefix}{inner}{suffix}" != name or inner.lower() in mapped_names:
            continue
        for source in _own_names(rules, inner, is_cased=rules.case_sensitive):
            if rules.merge_shards:
                yield source._replace(database=only_database)
            elif only_database in (None, (source.database or "").lower()):
                yield source


def _own_names(rules: SyncRules, name: str, *, is_cased: bool) -> Iterator[_Source]:
    """Yield source tables with this name; for unmerged shards, with the database as prefix."""
    if rules.merge_shards:
        yield _Source(None, name, is_cased)
        return
    parts = name.split("_")
    for count in range(1, len(parts)):
        database_name, table_name = "_".join(parts[:count]), "_".join(parts[count:])
        if table_name and database_name:
            yield _Source(database_name, table_name, is_cased)


def _naming_advice(rules: SyncRules, name: str) -> str:
    if table_name := by_lower_case(rules.table_mapping).get(name.lower()):
        return f"sync.table-mapping makes it {table_name!r}: write [sync.tables.{table_name}]"
    stem = name if rules.merge_shards else f"DATABASE_{name}"
    example = f"{rules.table_prefix}{stem}{rules.table_suffix}"
    return f"names of tables look like {example!r}, by the rules of [sync]"


def _why_left_out(rules: SyncRules, source: _Source) -> str:
    """Return the pattern that excludes a source table; empty if none does."""
    for noun, name, including, excluding in (
        ("tables", source.table_name, rules.including_tables, rules.excluding_tables),
        ("dbs", source.database, rules.including_dbs, rules.excluding_dbs),
    ):
        if name is None:
            continue
        spellings = (name,) if source.is_cased else (name, name.lower(), name.upper())
        if excluding is not None and all(
            re.fullmatch(excluding, spelling) for spelling in spellings
        ):
            return f"sync.excluding-{noun} = {excluding!r} leaves {name!r} out"
        flags = 0 if source.is_cased else re.IGNORECASE
        if re.fullmatch(including, name, flags) is None:
            return f"sync.including-{noun} = {including!r} leaves {name!r} out"
    return ""
