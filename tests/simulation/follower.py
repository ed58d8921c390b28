"""Who follows the table under a consumer's name, is killed, and goes on where the table says.

A run follows until it has looked in vain a few times, or is killed: behind some snapshots, or in
the middle of one.
What it has taken is judged after the round, when the oracle knows the snapshots.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from stream_app.errors import CorruptFileError, UsageError
from stream_app.planning.stream_start import StartMode, StreamStart
from stream_app.planning.stream_step import StreamStep
from stream_app.table.changelog_follow import ChangelogFollow, Following
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.next_snapshot import earliest_changes
from stream_app.table.stream_read import StreamRead
from tests.simulation.actors import is_of_a_fault, seen_by
from tests.simulation.oracle import COLUMNS, Oracle
from tests.simulation.promises import demand
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
    """What one process has got.

    Attributes:
        progress: of the consumer before; None: this is the first run.
        base: number of the version whose rows were read first.
        taken: changes by snapshot, in the order in which they came.
    """

    progress: int | None
    base: int | None = None
    taken: dict[int, list[Change]] = field(default_factory=dict)


@dataclass
class Follower:
    """One consumer of one table.

    Attributes:
        world: whose files it reads.
        base: the version on which all changes rest; None: it has not begun.
        taken: the changes of each snapshot behind it.
        first: the least snapshot that a first run may begin with: what expires is not promised.
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
        """One run.

        Args:
            to_the_end: nothing stops it before it has got everything.
        """
        process = self.world.process(CONSUMER)
        table = seen_by(self.table, self.world, process)
        self._run = _Run(self.progress())
        left = [0 if to_the_end else rng.randrange(LOOKS)]
        abandoned, steps = (0.0, 100) if to_the_end else (ABANDONED, rng.choice(STEPS))

        def stopped() -> bool:
            left[0] -= 1
            return left[0] < 0

        how = Following(start=self._start(), follow=True, consumer_id=CONSUMER)
        following = ChangelogFollow(StreamRead(table), how, stopped)
        for count, step in enumerate(following.steps(), 1):
            changes = []
            for batch in following.batches(step):
                changes += [_change(row) for row in batch.rows.to_pylist()]
                if rng.random() < abandoned:
                    return
            self._take(self._run, step, changes)
            if count == steps:
                return

    def forget(self) -> None:
        """As somebody does by hand."""
        self.world.files.delete(f"{self.table.location}/consumer/consumer-{CONSUMER}")

    def may_be(self, error: BaseException, *, may_be_cut: bool) -> bool:
        """Whether a run may end so: before its progress is there, nothing keeps expiry off."""
        is_first = self._run is not None and self._run.progress is None
        is_gone = isinstance(error, UsageError | CorruptFileError | FileNotFoundError)
        return is_of_a_fault(error) or (may_be_cut and is_first and is_gone)

    def check(self, oracle: Oracle, *, may_be_cut: bool) -> None:
        """See that the last run got what it had to, and nothing else.

        Args:
            may_be_cut: an expiry ran beside the run.
        """
        run, self._run = self._run, None
        if run is None:
            return
        after = self.progress()
        if run.progress is None:
            earliest = earliest_changes(oracle.table)
            if after is None or (may_be_cut and earliest is not None and after < earliest):
                self.forget()
                self._check_rows(oracle, run)
                return  # it has not begun, or too late
            begin = self._check_rows(oracle, run)
            if begin is None and may_be_cut:
                begin = min([*run.taken, after])
            elif begin is None and self._start().mode is StartMode.LATEST_FULL:
                begin = min([*run.taken, after])
                demand(not oracle.rows_at[begin - 1], f"no rows of {begin - 1} came first")
            elif begin is None:
                begin = max(self.first, earliest or 1)
            self.base, self.taken = begin - 1, {}
        else:
            begin = run.progress
        assert after is not None
        demand(begin <= after, f"the consumer was at {begin}, and is at {after}")
        came = list(run.taken)
        wanted = [
            n for n in range(begin, max([*came, after - 1], default=0) + 1) if oracle.changes_at[n]
        ]
        demand(came == wanted, f"from {begin} the consumer got {came}, up to {after} of {wanted}")
        for number, changes in run.taken.items():
            what = f"changes of snapshot {number}"
            same = oracle.by_key(changes) == oracle.by_key(oracle.changes_at[number])
            demand(same, f"{what}: {changes} instead of {oracle.changes_at[number]}")
        self.taken |= run.taken

    def check_replayed(self, oracle: Oracle) -> None:
        """See that all that was taken makes the newest rows."""
        if self.base is not None:
            last = len(oracle.rows_at) - 1
            found = oracle.replayed(self.base, {n: self.taken.get(n, []) for n in range(last + 1)})
            demand(found == oracle.rows_at[last], f"followed from {self.base}, another table")

    def _start(self) -> StreamStart:
        if self.table.options.text("scan.mode") == "latest-full":
            return StreamStart(mode=StartMode.LATEST_FULL)
        return StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=self.first)

    def _take(self, run: _Run, step: StreamStep, changes: list[Change]) -> None:
        if step.begin.is_full:
            run.base = step.begin.snapshot_id
            run.taken[run.base] = changes
            return
        [number] = {split.split.snapshot_id for split in step.splits}
        demand(number not in run.taken or number == run.base, f"{number} came twice")
        run.taken[number] = changes

    def _check_rows(self, oracle: Oracle, run: _Run) -> int | None:
        """Check the rows that came first; the first snapshot whose changes follow."""
        if run.base is None:
            return None
        rows = run.taken.pop(run.base)
        found = Counter(tuple(row[name] for name in COLUMNS) for _, row in rows)
        demand(found == Counter(oracle.rows_at[run.base]), f"rows of snapshot {run.base}")
        return run.base + 1


def _change(row: dict[str, Any]) -> Change:
    return row.pop("rowkind"), row
