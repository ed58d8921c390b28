"""Seconds of the processor that a process and all below it use, those that end without a trace too.

A process that nobody waits for leaves nothing in its parent's times: Spark's Python workers end so,
when their daemon does. So a thread looks at the tree again and again, and keeps what it last saw of
every process. It is right to `INTERVAL_S` for each process that ends.

Looking costs a few milliseconds a second. The processes of a measured command are looked at from
the outside (`run_metered`), so this cost is not in their figures.
"""

from __future__ import annotations

import bisect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

INTERVAL_S = 0.05


class Times(NamedTuple):
    """The ticks of one process, and those of ended children for which it has waited."""

    own_ticks: int
    waited: int


Process = tuple[int, int]
"""Number and start: numbers come again."""


def lost_ticks(
    before: Mapping[Process, Times],
    now: Mapping[Process, Times],
    parents: Mapping[Process, Process],
) -> int:
    """Ticks of processes that ended between two looks, and that are in nobody's times.

    Their nearest ancestor that still lives got them only as far as its `Times.waited` has grown.

    Args:
        before: the tree at the earlier look.
        now: the tree at the later look.
        parents: of each process that was ever seen, as it began.
    """
    ended: dict[Process, int] = {}
    for process in before.keys() - now.keys():
        ancestor = parents.get(process)
        while ancestor is not None and ancestor not in now:
            ancestor = parents.get(ancestor)
        if ancestor is not None:
            ended[ancestor] = ended.get(ancestor, 0) + sum(before[process])
    return sum(
        max(0, ticks - (now[ancestor].waited - before.get(ancestor, Times(0, 0)).waited))
        for ancestor, ticks in ended.items()
    )


@dataclass(frozen=True)
class Timeline:
    """Seconds of the processor at moments of the monotonic clock, which all processes share."""

    moments: Sequence[float]
    seconds: Sequence[float]

    @property
    def total(self) -> float:
        """Return the seconds of the whole lifetime."""
        return self.seconds[-1]

    def seconds_between(self, begin: float, end: float) -> float:
        """Seconds of the processor from one moment to another."""
        return self._seconds_until(end) - self._seconds_until(begin)

    def _seconds_until(self, moment: float) -> float:
        after = bisect.bisect_left(self.moments, moment)
        if after in (0, len(self.moments)):
            return self.seconds[min(after, len(self.moments) - 1)]
        begin, end = self.moments[after - 1], self.moments[after]
        share = (moment - begin) / (end - begin)
        return self.seconds[after - 1] * (1 - share) + self.seconds[after] * share


class ProcessorMeter:
    """Looks at the tree below a process until it is left.

    Args:
        process: its number.
        without: a process whose tree is left out.
    """

    def __init__(self, process: int, *, without: int | None = None) -> None:
        self._process, self._without = process, without
        self._tree: dict[Process, Times] = {}
        self._parents: dict[Process, Process] = {}
        self._lost = 0
        self._moments: list[float] = []
        self._seconds: list[float] = []
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self.seconds()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        self._thread.join()

    def seconds(self) -> float:
        """Used until now."""
        with self._lock:
            self._look()
            return self._seconds[-1]

    def timeline(self) -> Timeline:
        """All looks until now."""
        with self._lock:
            return Timeline(tuple(self._moments), tuple(self._seconds))

    def _look_on(self) -> None:
        while not self._left.wait(INTERVAL_S):
            self.seconds()

    def _look(self) -> None:
        processes, children = _processes()
        # An orphan belongs to the tree in which it was seen before.
        waiting = [process for process in processes if process in self._tree]
        waiting += [process for process in processes if process[0] == self._process]
        tree: dict[Process, Times] = {}
        while waiting:
            process = waiting.pop()
            if process not in tree:
                tree[process] = processes[process]
                for child in children.get(process[0], ()):
                    if child[0] != self._without:
                        self._parents.setdefault(child, process)
                        waiting.append(child)
        self._lost += lost_ticks(self._tree, tree, self._parents)
        self._tree = tree
        ticks = self._lost + sum(map(sum, tree.values()))
        self._moments.append(time.monotonic())
        self._seconds.append(ticks / os.sysconf("SC_CLK_TCK"))


def run_metered(command: Sequence[str]) -> tuple[str, Timeline]:
    """Run a command: what it prints, and what it and all below it used.

    Raises:
        subprocess.CalledProcessError: the process failed.
    """
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ProcessorMeter(process.pid) as meter,
    ):
        assert process.stdout is not None
        output = process.stdout.read()
        # Its times stay readable until it is waited for.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        meter.seconds()
    if process.returncode:
        sys.stderr.write(output)
        raise subprocess.CalledProcessError(process.returncode, command)
    return output, meter.timeline()


def _processes() -> tuple[dict[Process, Times], dict[int, list[Process]]]:
    """Every process of the machine; the children of each."""
    if not sys.platform.startswith("linux"):
        raise SystemExit("benches that count the processor's seconds need Linux: they read /proc")
    times: dict[Process, Times] = {}
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # Behind the name, which may hold anything: state, parent, …, own and waited times.
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own_ticks, waited = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
        process = int(folder.name), int(words[19])
        times[process] = Times(own_ticks, waited)
        children.setdefault(int(words[1]), []).append(process)
    return times, children
