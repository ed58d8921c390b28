"""A snapshot of a whole database: for each table the snapshot that belongs to one transaction.

A job with ``sync.transactions = whole`` records one when all of its tables have an epoch. It is a
small JSON document in the database's folder (`table.api.database_snapshots`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_VERSION = 1


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A transaction of one connector, by its END marker.

    Attributes:
        transaction: the id; PostgreSQL's is ``NUMBER:LSN``, with the LSN of the commit.
        time_ms: the commit time at the source, in ms since 1970.
    """

    transaction: str
    time_ms: int

    def is_named(self, transaction: str) -> bool:
        """Return whether a text is this transaction's id, or its number alone in PostgreSQL."""
        return transaction in (self.transaction, self.transaction.partition(":")[0])


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The snapshot of one table.

    Attributes:
        snapshot: the snapshot's number.
        time_ms: its commit time, which distinguishes it from a snapshot that reuses its number
            after a rollback.
    """

    snapshot: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSnapshot:
    """The tables of one job at the newest transaction of each of its connectors.

    Attributes:
        epoch: the job's epoch after which the tables have these snapshots.
        job: the job's commit user.
        time_ms: the time at which the job recorded the database snapshot.
        sources: connector → its newest transaction in the tables.
        tables: table → its snapshot.
        left_out: table that does not belong to it → the reason.
    """

    epoch: int
    job: str
    time_ms: int
    sources: Mapping[str, SourcePosition]
    tables: Mapping[str, TableSnapshot]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def transactions(self) -> list[str]:
        """The ids of the transactions."""
        return [position.transaction for position in self.sources.values()]

    def is_at(self, transaction: str) -> bool:
        """Return whether a text names one of the transactions."""
        return any(position.is_named(transaction) for position in self.sources.values())

    def document(self) -> dict[str, Any]:
        """Return the snapshot as a JSON document."""
        return {"version": _VERSION, **asdict(self)}


def parse_snapshot(document: Any) -> DatabaseSnapshot:
    """Parse a snapshot from its JSON document.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the document is of another form.
    """
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} instead of {_VERSION}")
    return DatabaseSnapshot(
        epoch=int(document["epoch"]),
        job=str(document["job"]),
        time_ms=int(document["time_ms"]),
        sources={
            str(name): SourcePosition(str(entry["transaction"]), int(entry["time_ms"]))
            for name, entry in document["sources"].items()
        },
        tables={
            str(name): TableSnapshot(int(entry["snapshot"]), int(entry["time_ms"]))
            for name, entry in document["tables"].items()
        },
        left_out={str(name): str(reason) for name, reason in document["left_out"].items()},
    )
