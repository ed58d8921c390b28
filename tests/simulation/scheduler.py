"""Runs one thread at a time, and chooses it by a random number, so that a run can be repeated.

A thread gives the baton away only in `switch` and `wait_until`, which simulated files, waiting and
time call. So two processes that race for a table do so at every file operation, and the same seed
makes the same race.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

DELAY_SWITCHES = 25, 25, 25, 1000
"""The delays of a slow operation, in switches of threads.

The short one lets another operation pass, the long one whole epochs and expiries.
"""


class CrashError(BaseException):
    """The process has died. No `except Exception` of the code under test may catch this."""


class DeadlockError(Exception):
    """Every thread waits for another one."""


@dataclass
class Process:
    """The threads that die together: a driver, a task, or a compaction on an executor.

    Attributes:
        parent: the process whose death ends this one too; None for a driver.
        born_in: the number of the round in which the process began.
    """

    name: str
    parent: Process | None = None
    is_killed: bool = False
    born_in: int = 0

    @property
    def is_dead(self) -> bool:
        return self.is_killed or (self.parent is not None and self.parent.is_dead)

    @property
    def driver(self) -> Process:
        return self if self.parent is None else self.parent.driver


@dataclass(eq=False)
class Task:
    """A thread of a process.

    Attributes:
        condition: the condition for which the thread waits; None if it waits for none.
        delayed: the number of switches before the thread runs on.
    """

    process: Process
    work: Callable[[], None]
    gate: threading.Lock = field(default_factory=threading.Lock)
    condition: Callable[[], bool] | None = None
    delay_count: int = 0
    done: bool = False
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.gate.acquire()

    @property
    def is_ready(self) -> bool:
        return self.condition is None or self.process.is_dead or self.condition()


@dataclass
class Scheduler:
    """Passes the baton.

    Attributes:
        rng: chooses the next thread.
        stickiness: chance that a thread continues without being interrupted.
    """

    rng: random.Random
    stickiness: float = 0.5
    tasks: list[Task] = field(default_factory=list)
    main: Task = field(init=False)
    current: Task = field(init=False)

    def __post_init__(self) -> None:
        self.main = self.current = Task(Process("main"), lambda: None)

    def spawn(self, process: Process, work: Callable[[], None]) -> Task:
        """Start a thread, which runs when the scheduler chooses it."""
        task = Task(process, work)
        self.tasks.append(task)
        threading.Thread(target=self._run, args=(task,), daemon=True).start()
        return task

    def switch(self) -> None:
        """Let another thread go on, or the same one.

        Raises:
            CrashError: the thread's process has died.
        """
        me = self.current
        if me is self.main:
            return
        if me.delay_count or self.rng.random() >= self.stickiness:
            self._pass_on(me)
        if me.process.is_dead:
            raise CrashError

    def delay(self) -> None:
        """Let other threads run for a random number of switches."""
        self.current.delay_count = self.rng.choice(DELAY_SWITCHES)
        self.switch()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds."""
        me = self.current
        if me is self.main or not condition():
            me.condition = condition
            self._pass_on(me)
            me.condition = None
        if me.process.is_dead:
            raise CrashError

    def join(self, tasks: list[Task]) -> None:
        """Run until these tasks are done; other tasks may be in the middle of an operation."""
        self.wait_until(lambda: all(task.done for task in tasks))

    def finish(self) -> None:
        """Run until all tasks are done."""
        while self.tasks:
            self.join(list(self.tasks))

    def _run(self, task: Task) -> None:
        task.gate.acquire()
        try:
            if not task.process.is_dead:
                task.work()
        except BaseException as error:
            task.error = error
        task.done = True
        self.tasks.remove(task)
        self._next(task).gate.release()

    def _pass_on(self, me: Task) -> None:
        following = self._next(me)
        if following is not me:
            following.gate.release()
            me.gate.acquire()

    def _next(self, me: Task) -> Task:
        main = self.main
        if main.condition is not None and main.condition():
            self.current = main
            return main
        ready = [task for task in self.tasks if task.is_ready]
        for task in ready:
            task.delay_count = max(0, task.delay_count - 1)
        now = [task for task in ready if not task.delay_count] or ready
        if not now:
            main.error = DeadlockError(f"all wait, {me.process.name} the last")
            self.current = main
            return main
        self.current = self.rng.choice(now) if len(now) > 1 else now[0]
        return self.current
