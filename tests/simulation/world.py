"""Simulates one machine room: files, time and processes. It traces all that happens.

The seed decides what is chance elsewhere: the thread that runs, fresh names, the end of a
background sync, and the files that a crash leaves.
"""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.clock import Clock
from stream_app.fileio import background_sync
from stream_app.table import map_in_threads
from stream_app.table.compact.append import planner_runner
from stream_app.table.key_index import key_indexes, key_layer_files
from stream_app.table.versions.index_manifests import RECENT_MANIFESTS
from stream_app.table.write.dynamic_buckets import HASH_CACHE
from stream_app.table.write.hidden_changes import RECENT_HIDDEN
from tests.simulation.faults import DEADLY, GROUPS, Fault, FaultKind, Group
from tests.simulation.scheduler import CrashError, Process, Scheduler
from tests.support.files.memory_file_io import MemoryFileIO

START_MS = 1_767_225_600_000  # 2026-01-01
OUTAGE_OPERATIONS = 6
"""The operations that fail after the first one.

They are enough that the look whether the first one took effect fails too.
"""
POWER = frozenset({FaultKind.POWER_BEFORE, FaultKind.POWER_AFTER})


@dataclass
class World:
    """Files and processes of one run.

    Attributes:
        faults: the faults planned for this round.
        struck: the faults of all rounds that have struck an operation.
        lost_power: the number of power failures, each of which ended all processes at once.
        strikes: the number of an operation among all, and the fault that strikes it; None: none.
        done: the name of each operation so far, and of the process that did it.
        end_of_rounds: the number of operations before the restart of all processes.
        begin_times_ms: the times at which rounds began.
    """

    seed: int
    keeps_lines: bool = False
    strikes: tuple[int, FaultKind] | None = None
    scheduler: Scheduler = field(init=False)
    clock: SimulatedClock = field(init=False)
    files: MemoryFileIO = field(init=False)
    faults: tuple[Fault, ...] = ()
    struck: list[Fault] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    lost_power: int = 0
    done: list[tuple[str, str]] = field(default_factory=list)
    end_of_rounds: int = 0
    begin_times_ms: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _counts: Counter[tuple[str, Group]] = field(default_factory=Counter)
    _outages: Counter[str] = field(default_factory=Counter)
    _held: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.names = random.Random(self.seed + 1)
        self.scheduler = Scheduler(random.Random(self.seed + 2))
        self.clock = SimulatedClock(self)
        self.files = MemoryFileIO(self.clock)
        self._digest = hashlib.blake2b(digest_size=8)

    @property
    def trace(self) -> str:
        """A digest of everything that happened, in its order."""
        return self._digest.hexdigest()

    def begin_round(self, faults: Iterable[Fault], seed: int, jump_ms: int = 0) -> None:
        """Begin a round with new faults, and with turns that do not depend on earlier rounds."""
        self.clock.jump_ms += jump_ms
        self.begin_times_ms.append(self.clock.now_ms())
        self.faults = tuple(faults)
        self._counts.clear()
        self._outages.clear()
        self.scheduler.rng.seed(seed)
        self.rng.seed(seed + 1)
        self.scheduler.stickiness = self.rng.choice([0.0, 0.5, 0.9])

    def process(self, name: str, parent: Process | None = None) -> Process:
        """A new process."""
        process = Process(name, parent, born_in=len(self.begin_times_ms) - 1)
        self.processes.append(process)
        return process

    def unfinished_since_ms(self, drivers: Iterable[Process]) -> int:
        """The time before which all files were written that no process still works on.

        Args:
            drivers: that live on from one round to the next.
        """
        living = {id(task.process.driver): task.process.driver for task in self.scheduler.tasks}
        born = [
            process.born_in
            for process in (*living.values(), *drivers)
            if not process.is_dead and process.born_in >= 0
        ]
        return min(self.begin_times_ms[min(born, default=-1) :])

    def note(self, line: str) -> None:
        """Write down what happened."""
        self._digest.update(line.encode())
        if self.keeps_lines:
            self.lines.append(line)

    def before(self, process: Process, operation: str, path: str) -> FaultKind | None:
        """See `simulated_files.FaultyWorld`."""
        self.scheduler.switch()
        if process.is_dead:
            raise CrashError
        fault = self._fault(process, operation)
        if self.strikes is not None and self.strikes[0] == len(self.done):
            self.struck.append(
                Fault(process.name, GROUPS[operation], len(self.done), self.strikes[1])
            )
            fault = self.strikes[1]
            if fault is FaultKind.OUTAGE:
                self._outages[process.name] = OUTAGE_OPERATIONS
        self.done.append((operation, process.name))
        self.note(f"{process.name} {operation} {path}{f' {fault.value}' if fault else ''}\n")
        if fault is FaultKind.SLOW:
            self.scheduler.delay()
            if process.is_dead:
                raise CrashError
            return None
        return fault

    def after(self, process: Process, operation: str, outcome: str) -> None:
        """See `simulated_files.FaultyWorld`."""
        if outcome:
            self.note(f"{process.name} {operation} gave {outcome}\n")

    def strike(self, process: Process, kind: FaultKind) -> None:
        """See `simulated_files.FaultyWorld`."""
        assert kind in DEADLY
        if kind in POWER:
            self.lose_power()
        else:
            process.is_killed = True
        raise CrashError

    def lose_power(self) -> None:
        """End all processes, and leave a random part of each file that was not synced."""
        self.lost_power += 1
        for process in self.processes:
            process.is_killed = True
        self.files = self.files.after_crash(surviving=self._surviving)

    def _surviving(self, path: str, size: int) -> int | None:
        return self.rng.choice([None, size, self.rng.randrange(size + 1)])

    def _fault(self, process: Process, operation: str) -> FaultKind | None:
        struck_by = None
        if self._outages[process.name]:
            self._outages[process.name] -= 1
            struck_by = FaultKind.FAILS
        for group in (Group.ANY, GROUPS[operation]):
            number = self._counts[process.name, group]
            self._counts[process.name, group] += 1
            for fault in self.faults:
                if (fault.role, fault.group, fault.number) == (process.name, group, number):
                    self.struck.append(fault)
                    struck_by = fault.kind
                    if struck_by is FaultKind.OUTAGE:
                        self._outages[process.name] = OUTAGE_OPERATIONS
        return struck_by

    @contextmanager
    def determined(self) -> Iterator[None]:
        """Names, threads, waiting and local disk of the code under test come from here."""
        with (
            tempfile.TemporaryDirectory() as disk,
            pytest.MonkeyPatch.context() as environment,
            self._patched(),
        ):
            environment.setenv("TMPDIR", disk)
            yield

    @contextmanager
    def _patched(self) -> Iterator[None]:
        patches: list[tuple[Any, str, Any]] = [
            (uuid, "uuid4", lambda: uuid.UUID(int=self.names.getrandbits(128), version=4)),
            (planner_runner, "Thread", self._thread),
            (key_indexes, "locked_folder", self._locked),
            (key_layer_files, "locked_folder", self._locked),
            (os, "fsync", lambda _: None),
            (background_sync, "_threads", lambda _: _LazyPool(self.rng)),
            (map_in_threads, "ThreadPoolExecutor", lambda n, **_: _Threads(self.scheduler, n)),
        ]
        before = [(place, name, getattr(place, name)) for place, name, _ in patches]
        # Names of files are unique in a world, and repeat in the next one.
        RECENT_MANIFESTS.clear()
        HASH_CACHE.clear()
        RECENT_HIDDEN.clear()
        try:
            for place, name, value in patches:
                setattr(place, name, value)
            yield
        finally:
            for place, name, value in before:
                setattr(place, name, value)

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Replace the lock of an index of keys: a waiting thread lets others continue."""
        folder.mkdir(parents=True, exist_ok=True)
        self.scheduler.wait_until(lambda: folder not in self._held)
        self._held.add(folder)
        try:
            yield
        finally:
            self._held.remove(folder)

    def _thread(self, *, target: Callable[[], None], **_: Any) -> _Starter:
        """Return a stand-in for `threading.Thread`."""
        process = self.scheduler.current.process
        return _Starter(lambda: self.scheduler.spawn(process, target))


@dataclass
class _Starter:
    start: Callable[[], object]


@dataclass
class SimulatedClock(Clock):
    """A millisecond passes at each look; waiting takes no time but lets others continue.

    Attributes:
        jump_ms: by how much the time of day is off; the steady time does not know.
    """

    world: World
    millis: int = START_MS
    jump_ms: int = 0

    def now_ms(self) -> int:
        self.millis += 1
        return self.millis + self.jump_ms

    def steady_seconds(self) -> float:
        self.millis += 1
        return self.millis / 1000

    def sleep(self, seconds: float) -> None:
        self.millis += int(seconds * 1000)
        self.world.scheduler.switch()

    def wait_for_any(
        self, futures: Collection[Future[Any]], timeout_s: float | None = None
    ) -> None:
        self.world.scheduler.wait_until(lambda: any(future.done() for future in futures))


class _LazyFuture(Future[None]):
    """Work that runs when a caller asks for its result."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(None)

    def result(self, timeout: float | None = None) -> None:
        if not self.done():
            self.run()
        return super().result(timeout)


@dataclass
class _LazyPool:
    """A stand-in for the pool that syncs in the background: at once, or at the last moment."""

    rng: random.Random

    def submit(self, work: Callable[[str], None], path: str) -> Future[None]:
        future = _LazyFuture(lambda: work(path))
        if self.rng.random() < 0.5:
            future.run()
        return future


@dataclass
class _Threads:
    """A stand-in for the pool of file operations; the scheduler gives turns to its threads."""

    scheduler: Scheduler
    count: int

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *_: object) -> None:
        """All have ended when `map` returns."""

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        me = self.scheduler.current
        if me is self.scheduler.main:
            return [work(item) for item in items]
        queue = deque(enumerate(items))
        results: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}

        def run() -> None:
            while queue and not errors:
                index, item = queue.popleft()
                try:
                    results[index] = work(item)
                except BaseException as error:
                    errors[index] = error

        self.scheduler.join([self.scheduler.spawn(me.process, run) for _ in range(self.count)])
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(items))]
