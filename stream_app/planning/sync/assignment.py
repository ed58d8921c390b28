"""Decides, also in tasks, which table of a running job takes a source table's messages.

A source table that the job should take, and whose table it does not have yet, is new. One that
shares its table with another (shards) needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stream_app.model.source.origin import Origin
from stream_app.planning.sync.target_tables import (
    GhostTable,
    LeftOutTable,
    RefusedTable,
    SyncRules,
    decide_target,
)

NEW = -1
"""Stands in for a table's index: the job has no such table yet."""
TableChoice = int | str | None
"""A table's index, or `NEW`; a text: why no table takes it; None: the job leaves it out."""


@dataclass(frozen=True, slots=True)
class TableLimit:
    """The most tables that a job creates."""

    most: int
    FIX: ClassVar[str] = "raise it, or leave tables out by sync.excluding-tables"

    def has_room(self, name: str, known: Collection[str], refused: int) -> bool:
        """Whether the job has a table, or may make it.

        Args:
            known: names of the tables that it has, or cannot make for now.
            refused: source tables of which no table could be made; these count too.
        """
        return name in known or len(known) + refused < self.most

    @property
    def what(self) -> str:
        """Why the job makes no table of another source table."""
        return f"the job has {self.most} tables, the most that sync.max-tables allows"

    @property
    def reason(self) -> str:
        """The reason why messages of another source table are quarantined."""
        return f"{self.what}; to fix: {self.FIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Gives source tables to the tables of a job. Can be pickled.

    Attributes:
        indexes: name of a table → its index in the job.
        taken: source table → the name of its table; of those that the job has met.
        refused: source table → why its table could not be made.
        hidden: ghosts of online schema changes that the driver knows, and has reported.
        waiting: names of tables that cannot be made for now; the job leaves their messages in the
            topic until then.
        full: why the job makes no further table; empty: it does.
    """

    rules: SyncRules
    indexes: Mapping[str, int] = field(default_factory=dict)
    taken: Mapping[Origin, str] = field(default_factory=dict)
    refused: Mapping[Origin, str] = field(default_factory=dict)
    hidden: frozenset[Origin] = frozenset()
    waiting: frozenset[str] = frozenset()
    full: str = ""

    def __call__(self, origin: Origin) -> TableChoice:
        """The table that takes the messages of a source table."""
        if (reason := self.refused.get(origin)) is not None:
            return reason
        name = self.taken.get(origin)
        if name is None:
            decision = decide_target(self.rules, origin, self.taken)
            if isinstance(decision, LeftOutTable):
                return None
            if isinstance(decision, GhostTable):
                return None if origin in self.hidden else NEW
            if isinstance(decision, RefusedTable):
                return f"{decision.reason}; to fix: {decision.fix}"
            name = decision.name
        if (index := self.indexes.get(name)) is not None or name in self.waiting:
            return index
        # A dropped table of the job is created again, even by a job at its limit.
        return self.full if self.full and origin not in self.taken else NEW
