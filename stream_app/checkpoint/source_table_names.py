"""The source tables whose rows a table has, by topic. Pure.

`job_state` stores them. `source_table_check` and `truncation` in `epochs.rounds` base their
decisions on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

SourceTableNames = Mapping[str, Collection[str]]
"""Topic → names of the source tables whose rows it has brought."""


def add_source_tables_seen(
    source_tables: Mapping[str, Iterable[str]], sent_tables: Iterable[tuple[str, str]]
) -> Mapping[str, list[str]]:
    """Return the known source tables of a table, extended by those of another epoch."""
    topics = {topic: set(names) for topic, names in source_tables.items()}
    for topic, name in sent_tables:
        topics.setdefault(topic, set()).add(name)
    return {topic: sorted(names) for topic, names in topics.items()}
