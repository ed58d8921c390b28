"""Decides, even in tasks, which table of a running job gets a source table's messages.

A source table is new if the job should ingest it and does not have its table yet. A source table
that shares its table with others (shards) needs no new table.
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
"""A table's index, or `NEW`; a text: why no table takes it; None if the job leaves it out."""


@dataclass(frozen=True, slots=True)
class TableLimit:
    """The maximum number of tables that a job creates."""

    max_tables: int
    FIX: ClassVar[str] = "raise it, or leave tables out by sync.excluding-tables"

    def has_room(self, name: str, names: Collection[str], refused_count: int) -> bool:
        """Return whether the job has a table, or may create it.

        Args:
            names: the names of tables that it has, or cannot create for now.
            refused_count: the number of source tables whose table could not be created, which also
                count.
        """
        return name in names or len(names) + refused_count < self.max_tables

    @property
    def problem(self) -> str:
        """The reason why the job creates no table for a further source table."""
        return f"the job has {self.max_tables} tables, the most that sync.max-tables allows"

    @property
    def reason(self) -> str:
        """The reason why messages of a further source table are quarantined."""
        return f"{self.problem}; to fix: {self.FIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The assignment of source tables to the tables of a job. Can be pickled.

    Attributes:
        table_indices: name of a table → its index in the job.
        targets: known source table → the name of its table.
        refusal_reasons: source table → why its table could not be created.
        reported_ghosts: ghost tables of online schema changes that the driver has reported.
        held_tables: the names of tables that cannot be created for now, whose messages the job
            leaves in the topic.
        full_reason: why the job creates no further table; empty if it does.
    """

    rules: SyncRules
    table_indices: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[Origin, str] = field(default_factory=dict)
    refusal_reasons: Mapping[Origin, str] = field(default_factory=dict)
    reported_ghosts: frozenset[Origin] = frozenset()
    held_tables: frozenset[str] = frozenset()
    full_reason: str = ""

    def __call__(self, origin: Origin) -> TableChoice:
        """Return the table that gets the messages of a source table."""
        if (reason := self.refusal_reasons.get(origin)) is not None:
            return reason
        name = self.targets.get(origin)
        if name is None:
            decision = decide_target(self.rules, origin, self.targets)
            if isinstance(decision, LeftOutTable):
                return None
            if isinstance(decision, GhostTable):
                return None if origin in self.reported_ghosts else NEW
            if isinstance(decision, RefusedTable):
                return f"{decision.reason}; to fix: {decision.fix}"
            name = decision.name
        if (index := self.table_indices.get(name)) is not None or name in self.held_tables:
            return index
        # A job recreates its dropped table even at the limit.
        return self.full_reason if self.full_reason and origin not in self.targets else NEW
