"""Follows the table under a consumer's name, is killed, and continues where the table says.

A run follows until it has looked in vain a few times, or is killed: behind some snapshots, or in
the middle of one. After the round, when the oracle knows the snapshots, it judges what came.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.errors import CheckpointError, CorruptFileError, UsageError
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME, SCAN_MODE
from stream_app.planning.read.stream_start import StartMode, StreamStart
from stream_app.planning.read.stream_step import StreamStep
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import ChangelogFollow, FollowSettings
from stream_app.table.follow.followed_snapshot import earliest_changes_id
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.upkeep.announcements import holding_rollbacks
from tests.simulation.actors.workers import seen_by
from tests.simulation.model.oracle import Oracle
from tests.simulation.model.promises import demand
from tests.simulation.model.state import COLUMNS, Row, replayed
from tests.simulation.scenario import Change
from tests.simulation.world import World

CONSUMER = "follower"
LOOKS = 4
ABANDONED = 0.1
"""How often a run ends behind a batch, in the middle of a step or not."""
STEPS = (1, 2, 100)
"""Behind so many it ends, before the progress of the last one is written."""


@dataclass
class _Run:
    """The changes that one process has received.

    Attributes:
        progress: of the consumer before; None: this is the first run.
        is_refused: a process has died in a rollback of the table.
        base: number of the version whose rows were read first.
        taken: changes by snapshot, in the order in which they came.
    """

    progress: int | None
    is_refused: bool = False
    base: int | None = None
    taken: dict[int, list[Change]] = field(default_factory=dict)


@dataclass
class Follower:
    """One consumer of one table.

    Attributes:
        world: whose files it reads.
        base: the version on which all changes rest; None: it has not begun.
        taken: the changes of each snapshot behind it.
        first: the least snapshot that a first run may begin with; expired ones are not promised.
    """

    world: World
    table: FileStoreTable
    base: int | None = None
    taken: dict[int, list[Change]] = field(default_factory=dict)
    first: int = 1
    _run: _Run | None = None

    def progress(self) -> int | None:
        """The next snapshot, as the consumer's file says."""
        path = f"{self.table.location}/consumer/consumer-{CONSUMER}"
        if not self.world.files.exists(path):
            return None
        return int(json.loads(self.world.files.read_bytes(path))["nextSnapshot"])

    def follow(self, rng: random.Random, *, to_the_end: bool = False) -> None:
        """Do one run.

        Args:
            to_the_end: nothing stops it before it has got everything.
        """
        process = self.world.process(CONSUMER)
        table = seen_by(self.table, self.world, process)
        self._run = _Run(self.progress(), bool(holding_rollbacks(self._seen())))
        looks_left = [0 if to_the_end else rng.randrange(LOOKS)]
        abandon_share, steps = (0.0, 100) if to_the_end else (ABANDONED, rng.choice(STEPS))

        def stopped() -> bool:
            looks_left[0] -= 1
            return looks_left[0] < 0

        how = FollowSettings(start=self._start(), follows=True, consumer_id=CONSUMER)
        following = ChangelogFollow(StreamRead(table), how, stopped)
        if following._is_new_consumer:  # it was forgotten before it had asked
            self._run.progress = None
        for count, step in enumerate(following.steps(), 1):
            changes = []
            for batch in following.batches(step):
                changes += [_change(row) for row in batch.rows.to_pylist()]
                if rng.random() < abandon_share:
                    return
            self._take(self._run, step, changes)
            if count == steps:
                return

    def forget(self) -> None:
        """Forget the consumer, as an operator does by hand."""
        self.world.files.delete(f"{self.table.location}/consumer/consumer-{CONSUMER}")

    def is_held(self) -> bool:
        """Return whether the table has the consumer, and its progress is recent."""
        expires_after = self.table.options[CONSUMER_EXPIRATION_TIME]
        consumers = self._seen().consumers.consumers()
        return any(
            not consumer.has_expired(self.world.clock.now_ms(), expires_after)
            for consumer in consumers
        )

    def _seen(self) -> FileStoreTable:
        """The table as it lies there."""
        return replace(self.table, file_io=self.world.files)

    def may_be(self, error: BaseException, *, may_be_cut: bool, goes_back: bool) -> bool:
        """Return whether a run may end so: expiry spares nothing before the run stores its
        progress.

        Args:
            may_be_cut: an expiry ran beside the run.
            goes_back: a rollback did.
        """
        expiry_errors = UsageError | CorruptFileError | FileNotFoundError
        if goes_back and isinstance(error, expiry_errors | CheckpointError):
            return True
        if self._run is None or not isinstance(error, expiry_errors):
            return False
        if self._run.progress is None:
            return may_be_cut or self._run.is_refused
        # Was it forgotten, or did a rollback die before it was done?
        return self._run.is_refused or not self._is_there(self._run.progress)

    def _is_there(self, number: int) -> bool:
        """Return whether the changes of a version exist, or are the next to come."""
        table = self._seen()
        ids = {*table.snapshots.ids(), *table.changelogs.ids()}
        return number in ids or number == max(ids, default=0) + 1

    def check(self, oracle: Oracle, *, may_be_cut: bool) -> None:
        """See that the last run got what it had to, and nothing else.

        Args:
            may_be_cut: an expiry ran beside the run.
        """
        run, self._run = self._run, None
        if oracle.goes_back_to is not None and run is not None:
            self._check_beside_rollback(oracle, run)
            return
        after = self._look_after_progress(oracle)
        if run is None:
            return
        if run.progress is not None and after is None:
            after = max([run.progress - 1, *run.taken]) + 1  # forgotten while it ran
        start = run.progress
        if start is None:
            earliest = earliest_changes_id(oracle.table)
            if after is None or (may_be_cut and earliest is not None and after < earliest):
                self.forget()
                self._check_rows(oracle, run)
                return  # it has not begun, or too late
            start = self._begin(oracle, run, after, earliest if not may_be_cut else None)
            self.base, self.taken = start - 1, {}
        assert after is not None
        demand(start <= after, f"the consumer was at {start}, and is at {after}")
        came = list(run.taken)
        numbers = range(start, max([*came, after - 1], default=0) + 1)
        expected = [number for number in numbers if oracle.time.changes[number]]
        demand(
            came == expected, f"from {start} the consumer got {came}, up to {after} of {expected}"
        )
        for number, changes in run.taken.items():
            same = oracle.by_key(changes) == oracle.by_key(oracle.time.changes[number])
            demand(same, f"{changes} instead of changes {oracle.time.changes[number]} of {number}")
        self.taken |= run.taken

    def _look_after_progress(self, oracle: Oracle) -> int | None:
        """Reset a consumer that cannot continue, as an operator would; returns its progress."""
        after = self.progress()
        if oracle.before is not None:
            demand(after is None or after <= oracle.cut + 1, f"consumer is at {after}, and ahead")
            self.taken = {n: self.taken[n] for n in self.taken if n <= oracle.cut}
        rests_on_what_went = oracle.before is not None and (self.base or 0) > oracle.cut
        if rests_on_what_went:
            self.base = None
        # It was forgotten, and what it wanted is gone.
        if after is not None and (rests_on_what_went or not self._is_there(after)):
            self.forget()
            return None if rests_on_what_went else after
        return after

    def _begin(self, oracle: Oracle, run: _Run, after: int, earliest: int | None) -> int:
        """The snapshot whose changes a first run had to take first.

        Args:
            earliest: from which on there were changes; None: an expiry ran beside it.
        """
        start = self._check_rows(oracle, run)
        if start is not None:
            return start
        is_full = self._start().mode is StartMode.LATEST_FULL
        if earliest is None or is_full:
            start = min([*run.taken, after])
            nothing = earliest is None or not oracle.time.visible_rows[start - 1]
            demand(nothing, f"no rows of {start - 1} came first")
            return start
        return max(self.first, earliest)

    def _check_beside_rollback(self, oracle: Oracle, run: _Run) -> None:
        """See that a run got nothing of a new version behind one that went; then begin again.

        A follower that has taken rows of lost versions must reset itself, and does.
        """
        old, new = oracle.before or oracle.time, oracle.time
        has_gone = False
        for number, changes in run.taken.items():
            if number == run.base:
                rows = _first_rows(oracle, changes)
                is_old = (
                    rows == Counter(old.visible_rows[number])
                    if number < len(old.visible_rows)
                    else False
                )
                is_new = (
                    rows == Counter(new.visible_rows[number])
                    if number < len(new.visible_rows)
                    else False
                )
            else:
                grouped_changes = oracle.by_key(changes)
                is_old, is_new = (
                    number < len(time.changes)
                    and oracle.by_key(time.changes[number]) == grouped_changes
                    for time in (old, new)
                )
            demand(is_old or is_new, f"changes of snapshot {number}: {changes}")
            demand(is_old or not has_gone, f"{number} is new, and came behind one that is gone")
            has_gone |= not is_new
        self.forget()
        self.base, self.taken = None, {}

    def check_replayed(self, oracle: Oracle) -> None:
        """See that all that was taken makes the newest rows."""
        if self.base is not None:
            last = len(oracle.time.rows) - 1
            rows = oracle.replayed(self.base, {n: self.taken.get(n, []) for n in range(last + 1)})
            demand(
                rows == oracle.time.visible_rows[last], f"followed from {self.base}, another table"
            )

    def _start(self) -> StreamStart:
        if self.table.options[SCAN_MODE] == "latest-full":
            return StreamStart(mode=StartMode.LATEST_FULL)
        return StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=self.first)

    def _take(self, run: _Run, step: StreamStep, changes: list[Change]) -> None:
        if step.start.is_full:
            run.base = step.start.snapshot_id
            run.taken[run.base] = changes
            return
        [number] = {split.split.snapshot_id for split in step.splits}
        demand(number not in run.taken or number == run.base, f"{number} came twice")
        run.taken[number] = changes

    def _check_rows(self, oracle: Oracle, run: _Run) -> int | None:
        """Check the rows that came first; the first snapshot whose changes follow."""
        if run.base is None:
            return None
        rows = _first_rows(oracle, run.taken.pop(run.base))
        demand(rows == Counter(oracle.time.visible_rows[run.base]), f"rows of snapshot {run.base}")
        return run.base + 1


def _first_rows(oracle: Oracle, changes: list[Change]) -> Counter[Row]:
    """The rows that came first; behind them come changes of rows that have no bucket yet."""
    if oracle.rules.postpones:
        return Counter(replayed(oracle.rules, [], changes))
    return Counter(tuple(row[name] for name in COLUMNS) for _, row in changes)


def _change(row: dict[str, Any]) -> Change:
    return row.pop("rowkind"), row
