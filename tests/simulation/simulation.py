"""Runs a scenario, and makes a failing one small.

Each round begins its actions at once and ends when they have ended; compactions may be left in the
middle of their work. After each round the oracle looks. At the end all processes die, begin anew
without faults, finish what is pending, and everything is checked once more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stream_app.errors import CorruptFileError
from stream_app.filestore.schema_manager import SchemaManager
from stream_app.model.data_type import parse_columns
from stream_app.model.table_schema import new_table_schema
from stream_app.planning.expire_config import expire_config
from stream_app.table.expire_snapshots import ExpireSnapshots
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.merge_read import MergeRead
from tests.simulation.actors import Job, is_of_a_fault, seen_by
from tests.simulation.faults import FaultKind
from tests.simulation.oracle import Oracle, demand, files_of, named_files
from tests.simulation.scenario import Action, Round, Scenario, Verb, scenario
from tests.simulation.scheduler import CrashError, Task
from tests.simulation.world import BEGIN_MS, World

MINIMISING_RUNS = 400
RIVAL_KEYS = 100


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        failure: None when all promises were kept.
        trace: digest of everything that happened.
        operations: names of all file operations.
        end_of_rounds: how many of them were done before everything began anew.
        struck: faults that came true.
        lines: what happened, when that was asked for.
    """

    failure: BaseException | None
    trace: str
    operations: tuple[str, ...]
    end_of_rounds: int
    snapshots: int
    struck: int
    lost_power: int
    lines: tuple[str, ...] = ()


@dataclass
class Simulation:
    """One run of one scenario."""

    scenario: Scenario
    world: World
    table: FileStoreTable = field(init=False)
    jobs: dict[str, Job] = field(init=False)
    oracle: Oracle = field(init=False)

    def __post_init__(self) -> None:
        self.table = new_table(self.scenario, self.world)
        self.jobs = {
            "job": Job(self.world, self.table, "job"),
            "rival": Job(self.world, self.table, "rival", first_key=RIVAL_KEYS),
            "compactor": Job(self.world, self.table, "compactor", commits_epochs=False),
        }
        self.oracle = Oracle(self.table, self.jobs, self.scenario.expires)

    def run(self) -> None:
        """All rounds.

        Raises:
            BaseException: a promise was broken, or an error that no fault explains.
        """
        for each in self.scenario.rounds:
            self._run_round(each)
            self.oracle.look(self._seen())
        self._finish()

    def _run_round(self, each: Round) -> None:
        self.world.begin_round((fault for _, fault in each.faults), each.seed)
        self.world.clock.jump_ms += each.jump_ms
        begun = []
        for action in each.actions:
            # What an action does must not depend on the others: they may be left out.
            begun.append((action, self._begin(action, random.Random(f"{each.seed}{action.name}"))))
        self.world.scheduler.join([task for _, tasks in begun for task in tasks])
        self._raise_deadlock()
        rng = random.Random(each.seed)
        for action, tasks in begun:
            for task in tasks:
                if action.actor in self.jobs:
                    self.jobs[action.actor].survives(task.error, rng)
                elif task.error and not has_fault(task.error):
                    raise task.error
        for job in self.jobs.values():
            for finding in job.findings:
                raise finding

    def _begin(self, action: Action, rng: random.Random) -> list[Task]:
        if action.verb is Verb.READ:
            return [self._spawn("reader", self._read)]
        if action.verb is Verb.EXPIRE:
            return [self._spawn("expirer", self._expire)]
        job = self.jobs[action.actor]
        match action.verb:
            case Verb.EPOCH:
                return [self._spawn(job.user, lambda: job.do_epochs(rng, action.counts), job)]
            case Verb.TWIN:
                for count in action.counts:
                    job.plan(rng, count)
                return self._begin_twins(job)
            case Verb.IDLE:
                return [self._spawn(job.user, lambda: job.opened().commit_idle(), job)]
            case Verb.DRAIN | Verb.WHOLE:
                return [self._spawn(job.user, lambda: self._compact(job, action.verb), job)]
            case Verb.RESTART:
                job.kill()
        return []

    def _begin_twins(self, job: Job) -> list[Task]:
        """One process is believed dead and lives on."""
        old, zombie = job.process, job.commit
        tasks = []
        if zombie is not None and not old.is_dead:
            twin = zombie
            tasks.append(self._spawn(job.user, lambda: job.attempt(old, twin), None, old.name))
            job.commit = None
        tasks.append(self._spawn(job.user, lambda: job.do_epochs(self.world.rng, ()), job))
        return tasks

    def _spawn(
        self, user: str, work: Callable[[], object], job: Job | None = None, name: str = ""
    ) -> Task:
        """A thread; its process is the one that the job opens in it, so it dies with that."""
        process = self.world.process(name or user)

        def run() -> None:
            try:
                work()
            except CrashError:
                raise
            if job is not None and job.process.is_dead:
                raise CrashError

        return self.world.scheduler.spawn(process, run)

    def _compact(self, job: Job, verb: Verb) -> None:
        commit = job.opened()
        if verb is Verb.WHOLE:
            commit.compact_whole()
        else:
            if not job.commits_epochs:
                commit.touch()
            commit.drain()

    def _read(self) -> None:
        process = self.world.process("reader")
        table = seen_by(self.table, self.world, process)
        snapshot = table.snapshots.latest()
        if snapshot is None:
            return
        # The oracle must know the snapshot, and looks at the files past all faults.
        self.oracle.look(self._seen())
        try:
            self.oracle.check_rows(snapshot, MergeRead(table))
        except (FileNotFoundError, CorruptFileError):
            if not self.scenario.expires:
                raise  # else the snapshot was taken away under the reader

    def _expire(self) -> None:
        process = self.world.process("expirer")
        expire = ExpireSnapshots(seen_by(self.table, self.world, process))
        expiry = expire.plan(expire_config(self.table.options))
        # What goes must have been looked at.
        self.oracle.look(self._seen())
        expire.execute(expiry)

    def _finish(self) -> None:
        """Everything begins anew, and must end well."""
        world = self.world
        world.strikes = None
        world.end_of_rounds = len(world.done)
        world.begin_round((), self.scenario.seed)
        verbs = {action.verb for each in self.scenario.rounds for action in each.actions}
        # Of two processes that do the same, one has worked for nothing.
        is_calm = Verb.TWIN not in verbs and not (
            world.struck or any(process.killed for process in world.processes)
        )
        if not is_calm:
            for job in self.jobs.values():
                job.kill()
        writers = [job for job in self.jobs.values() if job.commits_epochs]
        last = [self._replay_of(job) for job in (*writers, *writers)]
        if self.scenario.expires:
            last.append(self._expire)
        for work in last:
            task = self._spawn("last", work)
            world.scheduler.join([task])
            self._raise_deadlock()
            if task.error is not None:
                raise task.error
        world.scheduler.finish()
        self.oracle.look_at_all(self._seen())
        if is_calm and not any(process.killed for process in world.processes):
            left = files_of(self._seen()).keys() - named_files(self._seen()).keys()
            demand(not left, f"nothing failed, and yet nobody needs {sorted(left)}")

    def _replay_of(self, job: Job) -> Callable[[], None]:
        def replay() -> None:
            job.do_epochs(self.world.rng, ())
            job.opened().drain()

        return replay

    def _raise_deadlock(self) -> None:
        if self.world.scheduler.main.error is not None:
            raise self.world.scheduler.main.error

    def _seen(self) -> FileStoreTable:
        """The table as it lies there."""
        return FileStoreTable(
            self.table.location, self.table.schema, self.world.files, self.world.clock
        )


def has_fault(error: BaseException) -> bool:
    """Whether a fault explains an error: the process died, or an operation failed."""
    return isinstance(error, CrashError) or is_of_a_fault(error)


def new_table(tried: Scenario, world: World) -> FileStoreTable:
    """The scenario's table, empty."""
    partition_keys = ("p",) if tried.partitioned else ()
    schema = new_table_schema(
        columns=parse_columns("k INT, v BIGINT, p STRING, t STRING"),
        primary_keys=(*partition_keys, "k") if tried.kind == "key" else (),
        partition_keys=partition_keys,
        options=tried.options,
        time_millis=BEGIN_MS,
    )
    assert SchemaManager(world.files, "/t").create(schema)
    return FileStoreTable("/t", schema, world.files, world.clock)


def run(
    tried: Scenario, *, strikes: tuple[int, FaultKind] | None = None, keeps_lines: bool = False
) -> Outcome:
    """Run a scenario; never raises what the code under test raises.

    Args:
        strikes: one more fault, at an operation's number among all.
    """
    world = World(tried.seed, keeps_lines, strikes)
    failure: BaseException | None = None
    simulation = Simulation(tried, world)
    with world.determined():
        try:
            simulation.run()
        except BaseException as error:
            failure = error
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            for process in world.processes:
                process.killed = True
            world.scheduler.finish()
    return Outcome(
        failure=failure,
        trace=world.trace,
        operations=tuple(world.done),
        end_of_rounds=world.end_of_rounds,
        snapshots=len(simulation.oracle.checked),
        struck=len(world.struck),
        lost_power=world.lost_power,
        lines=tuple(world.lines),
    )


def outcome_of(seed: int) -> tuple[int, Outcome]:
    """A seed and its outcome, which can be pickled."""
    outcome = run(scenario(seed))
    failure = AssertionError(repr(outcome.failure)) if outcome.failure else None
    return seed, replace(outcome, failure=failure)


def minimised(tried: Scenario, failure: BaseException) -> list[str]:
    """Names of parts that can be left out so that it still fails in the same way."""
    left_out: list[str] = []
    for name in tried.parts[:MINIMISING_RUNS]:
        outcome = run(tried.without([*left_out, name]))
        if outcome.failure is not None and type(outcome.failure) is type(failure):
            left_out.append(name)
    return left_out
