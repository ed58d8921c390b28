"""Stops a job whose topics tell of several tables of the source.

Their rows would meet under one primary key: deleting order 6 would delete customer 6. Called by
`micro_batch` with what an epoch has seen, before it is committed. What earlier epochs have seen
stands in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.errors import WrongSourceError
from stream_app.spark.epoch.decode_counts import TablesSeen
from stream_app.spark.ingest.checkpoint_state import remember_tables, remembered_tables
from stream_app.spark.job_folder import Folder

SHARDS_REMEDY = (
    "give each table of the source a job and a table of its own; if they are shards of one table, "
    "with a primary key that tells the rows of all apart, set source.merge-shards = true"
)


def distinct_tables(by_topic: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The different tables of the source → a topic that has each.

    Args:
        by_topic: for each topic the names that its records tell; the empty name is that of
            records which do not tell. A topic of such records alone stands for a table.
    """
    found: dict[str, str] = {}
    for topic, names in sorted(by_topic.items()):
        told = sorted(name for name in names if name)
        for name in told or [f"the table of topic {topic}"]:
            found.setdefault(name, topic)
    return found


@dataclass(frozen=True, slots=True)
class SourceTableCheck:
    """Remembers the source tables of a job in its checkpoint's folder."""

    checkpoint: Folder

    def check(self, seen: TablesSeen) -> None:
        """Take in what an epoch has seen.

        Args:
            seen: empty when several tables are allowed.

        Raises:
            WrongSourceError: this epoch and those before have records of several tables.
        """
        if not seen:
            return
        known = remembered_tables(self.checkpoint)
        merged = {topic: set(names) for topic, names in known.items()}
        for topic, name in seen:
            merged.setdefault(topic, set()).add(name)
        tables = distinct_tables(merged)
        if len(tables) > 1:
            raise WrongSourceError(
                f"the records are of {len(tables)} tables of the source: "
                + ", ".join(f"{name} (in {topic})" for name, topic in tables.items()),
                where="; ".join(
                    f"topic {topic}, partition {partition}, offset {offset}: "
                    f"{name or 'a table that is not named'}"
                    for (topic, name), (partition, offset) in sorted(seen.items())
                ),
                fix=SHARDS_REMEDY,
            )
        if any(names - set(known.get(topic, ())) for topic, names in merged.items()):
            remember_tables(self.checkpoint, {name: sorted(of) for name, of in merged.items()})
