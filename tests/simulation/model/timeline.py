"""The versions of a table that rest on each other, and what takes rows out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.model.snapshot import Snapshot
from tests.simulation.model.promises import demand
from tests.simulation.model.state import COLUMNS, Row, Rows, State
from tests.simulation.scenario import Change
from tests.simulation.seeds import OLD_PARTITION

VALUE, PARTITION = COLUMNS.index("v"), COLUMNS.index("p")


@dataclass
class Others:
    """The rows that an OVERWRITE snapshot deletes, as its maker has noted them before.

    Attributes:
        deleted_values: ``v`` of a row that a deletion vector deletes, by the snapshot's delta list.
        dropped_partitions: a partition, by the commit user.
    """

    deleted_values: dict[str, int] = field(default_factory=dict)
    dropped_partitions: dict[str, str] = field(default_factory=dict)

    def takes_away(self, snapshot: Snapshot) -> Callable[[Row], bool]:
        """Return the predicate of the rows that the snapshot deletes."""
        user, delta = snapshot.commit_user, snapshot.delta_manifest_list
        if delta in self.deleted_values:
            value = self.deleted_values[delta]
            return lambda row: row[VALUE] == value
        if user.endswith("-truncate"):
            return lambda _: True
        partition = self.dropped_partitions.get(user)
        if user.startswith("expire-partitions-"):
            partition = OLD_PARTITION
        demand(partition is not None, f"an overwrite of the unknown user {user}")
        return lambda row: row[PARTITION] == partition


@dataclass
class Timeline:
    """Versions that rest on each other, by number; 0 is the empty table.

    Attributes:
        lists: their delta lists, which no other version has.
        rows: what each of them has.
        changes: the changes that a follower gets of each.
        visible_rows: the rows of a follower up to it.
        states: all that is known of it.
    """

    lists: list[str]
    rows: list[Rows]
    changes: list[list[Change]]
    visible_rows: list[Rows]
    states: list[State]

    def up_to(self, number: int) -> Timeline:
        """Its beginning."""
        end = number + 1
        return Timeline(
            self.lists[:end], self.rows[:end], self.changes[:end], self.visible_rows[:end],
            self.states[:end],
        )  # fmt: skip

    def has(self, snapshot: Snapshot) -> bool:
        """Return whether the timeline has this version."""
        return self.lists[snapshot.snapshot_id :][:1] == [snapshot.delta_manifest_list]
