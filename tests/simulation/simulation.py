"""Runs a scenario.

Each round begins its actions at once and ends when they have ended; compactions may be left in the
middle of their work. After each round the oracle looks. At the end all processes die, begin again
without faults, finish what is pending, and everything is checked once more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stream_app.errors import CorruptFileError, UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.overwrite.postponed_move import move_postponed
from tests.simulation.actors.branches import Branches
from tests.simulation.actors.follower import Follower
from tests.simulation.actors.restorer import Restorer, Turns
from tests.simulation.actors.upkeep import Upkeep
from tests.simulation.actors.workers import Job, has_fault, seen_by
from tests.simulation.faults import FaultKind
from tests.simulation.model.named_files import files_left
from tests.simulation.model.oracle import Oracle
from tests.simulation.model.promises import demand
from tests.simulation.scenario import COMMITTING, Action, Round, Scenario, Verb
from tests.simulation.scheduler import CrashError, Task
from tests.simulation.seeds import scenario
from tests.simulation.simulated_table import new_table
from tests.simulation.world import START_MS, World
from tests.support.tables.merge_read import MergeRead

RIVAL_KEYS = 100
SEEDS_PER_CHECK = 3  # `check` examines the table of every third seed


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        failure: None when all promises were kept.
        trace: digest of everything that happened.
        operations: names of all file operations.
        actors: names of the processes that did them.
        end_of_rounds: number of operations before the restart of all processes.
        struck: faults that came true.
        lines: what happened, when that was asked for.
    """

    failure: BaseException | None
    trace: str
    operations: tuple[str, ...]
    actors: tuple[str, ...]
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
    upkeep: Upkeep = field(init=False)
    restorer: Restorer = field(init=False)
    branches: Branches = field(init=False)
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        self.table = new_table(self.scenario, self.world)
        self.jobs = {
            "job": Job(self.world, self.table, "job"),
            "rival": Job(self.world, self.table, "rival", first_key=RIVAL_KEYS),
            "compactor": Job(self.world, self.table, "compactor", commits_epochs=False),
        }
        self.oracle = Oracle(self.table, self.jobs, self.scenario.expires)
        self.oracle.is_checked = self.scenario.seed % SEEDS_PER_CHECK == 0
        self.upkeep = Upkeep(self.world, self.table, self.oracle, self.jobs)
        self.follower = Follower(self.world, self.table)
        self.restorer = Restorer(self.world, self.table, self.oracle, self.jobs)
        self.branches = Branches(self.world, self.table, self.oracle)

    def run(self) -> None:
        """Run all rounds.

        Raises:
            BaseException: a promise was broken, or an error that no fault explains.
        """
        for step in self.scenario.rounds:
            self._run_round(step)
            self._check_round(may_be_cut=step.expires)
        self._finish()

    def _check_round(self, *, may_be_cut: bool) -> None:
        """Check the snapshots, the kept versions and the follower's rows after a round."""
        oracle = self.oracle
        progress = self.follower.progress()
        oracle.look(self._seen())
        if oracle.kept_versions.progress is not None:
            oracle.kept_versions.progress = progress
        self.follower.check(oracle, may_be_cut=may_be_cut)
        oracle.check_kept()
        self.branches.check()
        oracle.kept_versions.progress = self.follower.progress()
        self.follower.first = oracle.kept_versions.whole_from
        oracle.end_round()

    def _run_round(self, step: Round) -> None:
        self.world.begin_round((fault for _, fault in step.faults), step.seed, step.jump_ms)
        for job in self.jobs.values():
            job.zombie = None
        if step.forgets or not self.follower.is_held():
            self.oracle.kept_versions.progress = None
        self._turns = Turns(step.seed)
        # What an action does must not depend on the others: they may be left out.
        begun = [
            (action, self._begin(action, random.Random(f"{step.seed}{action.name}")))
            for action in step.actions
        ]
        self._turns.begun = [(action.verb, task) for action, tasks in begun for task in tasks]
        self.world.scheduler.join([task for _, tasks in begun for task in tasks])
        self._raise_deadlock()
        rng = random.Random(step.seed)
        for action, tasks in begun:
            for task in tasks:
                if action.actor in self.jobs:
                    self.jobs[action.actor].survives(task.error, rng)
                elif task.error and not self._is_explained(task.error, action, step):
                    raise task.error
        for job in self.jobs.values():
            for finding in job.findings:
                raise finding

    def _is_explained(self, error: BaseException, action: Action, step: Round) -> bool:
        """Return whether a fault or a rollback explains the error of a process beside the jobs."""
        if has_fault(error):
            return True
        goes_back = self.oracle.goes_back_to is not None
        if action.verb is Verb.FOLLOW:
            return self.follower.may_be(error, may_be_cut=step.expires, goes_back=goes_back)
        # A rollback may delete files while a process reads them.
        return goes_back and isinstance(error, FileNotFoundError | CorruptFileError)

    def _begin(self, action: Action, rng: random.Random) -> list[Task]:
        if action.verb in (Verb.BRANCH, Verb.UNBRANCH):
            self.branches.do(action.verb, rng)
            return []
        beside = {
            Verb.READ: self._read,
            Verb.ROLL_BACK: lambda: self.restorer.roll_back(rng),
            Verb.FOLLOW: lambda: self.follower.follow(rng),
            **self.upkeep.works(rng),
        }
        if action.verb in beside:
            return [self._spawn(action.actor, self._in_turn(action.verb, beside[action.verb]))]
        job, turn = self.jobs[action.actor], self._in_turn
        match action.verb:
            case Verb.EPOCH | Verb.EMPTYING:
                epochs = turn(action.verb, lambda: job.do_epochs(rng, action.counts, action.verb))
                return [self._spawn(job.name, epochs, job)]
            case Verb.TWIN:
                for count in action.counts:
                    job.plan(rng, count)
                return self._begin_twins(job)
            case Verb.IDLE:
                idle = turn(action.verb, lambda: job.opened().commit_idle())
                return [self._spawn(job.name, idle, job)]
            case Verb.DRAIN | Verb.WHOLE:
                compact = turn(action.verb, lambda: self._compact(job, action.verb))
                return [self._spawn(job.name, compact, job)]
            case Verb.RESTART:
                job.kill()
        return []

    def _in_turn(self, verb: Verb, work: Callable[[], object]) -> Callable[[], object]:
        """Work that waits for the processes beside which it must not run."""
        turns = self._turns

        def wait_and_work() -> None:
            self.world.scheduler.wait_until(lambda: turns.is_come(verb))
            work()

        return wait_and_work if verb in (Verb.ROLL_BACK, *COMMITTING) else work

    def _begin_twins(self, job: Job) -> list[Task]:
        """Begin a process and its twin, which others believe dead."""
        old, zombie = job.process, job.commit
        tasks = []
        if zombie is not None and not old.is_dead:
            twin, job.zombie = zombie, old
            again = self._in_turn(Verb.TWIN, lambda: job.attempt(old, twin))
            tasks.append(self._spawn(job.name, again, None, old.name))
            job.commit = None
        epoch = self._in_turn(Verb.TWIN, lambda: job.do_epochs(self.world.rng, ()))
        tasks.append(self._spawn(job.name, epoch, job))
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
        if self.table.kind_traits.postpones and not job.commits_epochs:
            move_postponed(seen_by(self.table, self.world, job.process))
        if verb is Verb.WHOLE:
            commit.compact_fully()
        else:
            if not job.commits_epochs:
                commit.state.follow_and_load(None)
            commit.compact_due()

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
            if not self.oracle.may_go():
                raise  # else the snapshot was taken away under the reader

    def _finish(self) -> None:
        """Everything begins again, and must end well."""
        world = self.world
        world.strikes = None
        world.end_of_rounds = len(world.done)
        world.begin_round((), self.scenario.seed)
        actions = [{action.verb for action in step.actions} for step in self.scenario.rounds]
        verbs = {verb for action in actions for verb in action}
        is_calm = self._is_calm(actions)
        if not is_calm:
            for job in self.jobs.values():
                job.kill()
        self._at_last(self.restorer.finish)
        self._check_round(may_be_cut=False)
        writers = [job for job in self.jobs.values() if job.commits_epochs]
        replays = [self._replay_of(job) for job in (*writers, *writers)]
        self._at_last(*replays, self._move_at_last)
        self._check_round(may_be_cut=False)
        if Verb.FOLLOW in verbs:
            if self.scenario.expires:
                # Where an expiry was interrupted, nobody may begin to follow before it is finished.
                self._at_last(self.upkeep.expire)
                self._check_round(may_be_cut=True)
            self._at_last(self._follow_to_the_end)
            self._check_round(may_be_cut=False)
            self.follower.check_replayed(self.oracle)
        if self.scenario.expires:
            self._at_last(self.upkeep.expire)
            self._check_round(may_be_cut=True)
        world.scheduler.finish()
        if Verb.SWEEP in verbs:
            for job in self.jobs.values():
                job.kill()
            # Whatever the time was when they were written.
            self._at_last(lambda: self.upkeep.sweep(2 * START_MS))
        self.oracle.look_at_all(self._seen())
        self.oracle.check_kept()
        # A tag may go while an expiry looks at it. What it leaves is not an orphan to a sweeper as
        # long as a manifest tells that it was deleted.
        is_swept = Verb.SWEEP in verbs and not _untags_beside_expiry(actions)
        if is_swept or (is_calm and self._is_calm(actions)):
            demand(
                not (leftover_names := files_left(self._seen())),
                f"nobody needs {sorted(leftover_names)}",
            )

    def _move_at_last(self) -> None:
        if self.table.kind_traits.postpones:
            self._compact(self.jobs["compactor"], Verb.DRAIN)

    def _follow_to_the_end(self) -> None:
        try:
            self.follower.follow(self.world.rng, to_the_end=True)
        except UsageError:
            # It died before it saw that the versions were going, and they are gone.
            demand(self.scenario.expires, "versions that the consumer wants are gone")
            self.follower.forget()
            self.follower.follow(self.world.rng, to_the_end=True)

    def _is_calm(self, rounds: list[set[Verb]]) -> bool:
        """Return whether no needless file remains, because nothing but an expiry was interrupted.

        The next expiry finds the files that an interrupted one has left.
        """
        killed_names = {process.name for process in self.world.processes if process.is_killed}
        struck = killed_names | {fault.role for fault in self.world.struck}
        by_hand = "tag.automatic-creation" not in self.scenario.options
        return not (
            # Of two processes that do the same, one has worked for nothing.
            any(Verb.TWIN in verbs for verbs in rounds)
            # A tag that goes while what it kept expires leaves orphans.
            or _untags_beside_expiry(rounds)
            or self.upkeep.is_wasteful
            or any(job.came_late for job in self.jobs.values())
            # With the table go compactions that have begun; a branch goes without its files.
            or any({Verb.ROLL_BACK, Verb.UNBRANCH} & verbs for verbs in rounds)
            or bool(struck - {"expirer"} if by_hand else struck)
        )

    def _at_last(self, *works: Callable[[], None]) -> None:
        """Run one process after another, without any fault."""
        for work in works:
            task = self._spawn("last", work)
            self.world.scheduler.join([task])
            self._raise_deadlock()
            if task.error is not None:
                raise task.error

    def _replay_of(self, job: Job) -> Callable[[], None]:
        def replay() -> None:
            job.do_epochs(self.world.rng, ())
            job.opened().compact_due()

        return replay

    def _raise_deadlock(self) -> None:
        if self.world.scheduler.main.error is not None:
            raise self.world.scheduler.main.error

    def _seen(self) -> FileStoreTable:
        """The table as it lies there."""
        return FileStoreTable(
            self.table.location, self.table.schema, self.world.files, self.world.clock
        )


def _untags_beside_expiry(rounds: list[set[Verb]]) -> bool:
    return any({Verb.UNTAG, Verb.EXPIRE} <= verbs for verbs in rounds)


def run(
    tried_scenario: Scenario,
    *,
    strikes: tuple[int, FaultKind] | None = None,
    keeps_lines: bool = False,
) -> Outcome:
    """Run a scenario; never raises what the code under test raises.

    Args:
        strikes: one more fault, at an operation's number among all.
    """
    world = World(tried_scenario.seed, keeps_lines, strikes)
    failure: BaseException | None = None
    simulation = Simulation(tried_scenario, world)
    with world.determined():
        try:
            simulation.run()
        except BaseException as error:
            failure = error
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            for process in world.processes:
                process.is_killed = True
            world.scheduler.finish()
    return Outcome(
        failure=failure,
        trace=world.trace,
        operations=tuple(operation for operation, _ in world.done),
        actors=tuple(actor for _, actor in world.done),
        end_of_rounds=world.end_of_rounds,
        snapshots=len(simulation.oracle.checksums),
        struck=len(world.struck),
        lost_power=world.lost_power,
        lines=tuple(world.lines),
    )


def outcome_of(seed: int) -> tuple[int, Outcome]:
    """A seed and its outcome, which can be pickled."""
    outcome = run(scenario(seed))
    failure = AssertionError(repr(outcome.failure)) if outcome.failure else None
    return seed, replace(outcome, failure=failure)
