"""Rolls the table back: to a snapshot, a tag or a time.

Committers must be stopped meanwhile, and are; their processes live on, and find what has happened.
All other processes continue beside it: expiry, readers, followers and taggers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from stream_app.errors import CorruptFileError, UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.announcements import holding_rollbacks
from stream_app.table.upkeep.rollback import RollbackPlan, plan_rollback, roll_back, rollback_target
from stream_app.table.versions.time_travel import Version
from tests.simulation.actors.workers import Job, seen_by
from tests.simulation.model.oracle import Oracle
from tests.simulation.model.promises import demand
from tests.simulation.scenario import COMMITTING, Verb
from tests.simulation.scheduler import Task
from tests.simulation.world import World


@dataclass
class Turns:
    """Keeps a rollback and the committers of a round apart; the seed decides which is first."""

    seed: int
    begun: list[tuple[Verb, Task]] = field(default_factory=list)

    def is_come(self, verb: Verb) -> bool:
        """Return whether the process of this action may begin."""
        is_rollback = verb is Verb.ROLL_BACK
        if is_rollback == (self.seed % 2 == 0):
            return True
        others = COMMITTING if is_rollback else {Verb.ROLL_BACK}
        return all(task.done for verb, task in self.begun if verb in others)


@dataclass
class Restorer:
    """Rolls one table back."""

    world: World
    table: FileStoreTable
    oracle: Oracle
    jobs: dict[str, Job]

    def roll_back(self, rng: random.Random) -> None:
        """Roll back as ``stream-app rollback-to`` does."""
        table = seen_by(self.table, self.world, self.world.process("restorer"))
        plan = self._plan(table, rng)
        if plan is None:
            return
        target = plan.target_snapshot.snapshot_id
        if "deletion-vectors.enabled" in self.table.schema.options:
            # A compaction in flight may have left out rows whose vectors go: stop it, as told.
            for job in self.jobs.values():
                job.kill()
        # What goes must have been looked at.
        self._look()
        self._begin(target)
        try:
            roll_back(table, plan, resets_consumers=rng.random() < 0.7)
        except UsageError:
            self._look()
            demand(self.oracle.before is None, "a rollback was refused, and something has gone")
        else:
            self._look()
            last = len(self.oracle.checksums)
            demand(last == target, f"rolled back to {target}, and {last} is the newest")
        finally:
            # Before the committers begin.
            self._look()

    def finish(self) -> None:
        """Finish the rollback of a process that died, unless another process has continued it."""
        table = seen_by(self.table, self.world, self.world.process("restorer"))
        for rollback in holding_rollbacks(table):
            target = rollback_target(table, Version(snapshot=rollback.target_id))
            try:
                plan = plan_rollback(table, target)
            except UsageError:
                continue  # an expiry died as well, and its end comes first
            self._begin(rollback.target_id)
            roll_back(table, plan, resets_consumers=True)
            self._look()

    def _begin(self, target: int) -> None:
        self.oracle.goes_back_to = target
        self.oracle.kept_versions.may_go_back(target)

    def _plan(self, table: FileStoreTable, rng: random.Random) -> RollbackPlan | None:
        numbers, tags = table.snapshots.ids(), table.tags.tags()
        ways = [*(Version(snapshot=number) for number in numbers[:-1] or numbers)]
        if tags and (not ways or rng.random() < 0.5):
            alone = [tag.name for tag in tags if tag.snapshot.snapshot_id not in numbers]
            ways = [Version(tag=name) for name in alone or (tag.name for tag in tags)]
        if not ways:
            return None
        version = rng.choice(ways)
        is_by_time = rng.random() < 0.3
        try:
            if is_by_time and version.snapshot is not None:
                version = Version(timestamp=table.snapshots.snapshot(version.snapshot).time_ms)
            return plan_rollback(table, rollback_target(table, version))
        except (UsageError, CorruptFileError, FileNotFoundError):
            # It has gone, or is going.
            is_going = (
                version.snapshot is None or version.snapshot < self.oracle.kept_versions.whole_from
            )
            demand(is_going or is_by_time, f"refused to go back to {version}")
            return None

    def _look(self) -> None:
        table = self.table
        self.oracle.look(
            FileStoreTable(table.location, table.schema, self.world.files, self.world.clock)
        )
