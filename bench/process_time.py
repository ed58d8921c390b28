"""Measures the processor seconds of a process and of all processes below it.

The times of a process that nobody waits for are missing in its parent's times. Spark's Python
workers end so when their daemon ends. So a thread reads the times of the whole tree at intervals,
and keeps the newest times of every process. The error is at most `INTERVAL_S` for each process that
ends.

Reading costs a few milliseconds a second. Another process reads the times of a measured command
(`run_metered`), so the figures do not contain this cost.
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
    waited_ticks: int


Process = tuple[int, int]
"""The number and the start time of a process, because numbers are reused."""


def lost_ticks(
    earlier: Mapping[Process, Times],
    later: Mapping[Process, Times],
    parents: Mapping[Process, Process],
) -> int:
    """Return the ticks of processes that ended between two reads, and that nobody else counts.

    Their nearest living ancestor counts as many of them as its `Times.waited_ticks` has grown.

    Args:
        earlier: the tree at the earlier read.
        later: the tree at the later read.
        parents: process → the parent at its start, for each process that was ever read.
    """
    ended_processes: dict[Process, int] = {}
    for process in earlier.keys() - later.keys():
        ancestor = parents.get(process)
        while ancestor is not None and ancestor not in later:
            ancestor = parents.get(ancestor)
        if ancestor is not None:
            ended_processes[ancestor] = ended_processes.get(ancestor, 0) + sum(earlier[process])
    return sum(
        max(
            0,
            ticks
            - (later[ancestor].waited_ticks - earlier.get(ancestor, Times(0, 0)).waited_ticks),
        )
        for ancestor, ticks in ended_processes.items()
    )


@dataclass(frozen=True)
class Timeline:
    """The processor seconds so far at times of the monotonic clock, which all processes share."""

    times_s: Sequence[float]
    seconds: Sequence[float]

    @property
    def total(self) -> float:
        """The seconds of the whole lifetime."""
        return self.seconds[-1]

    def seconds_between(self, start: float, end: float) -> float:
        """Return the processor seconds from one time to another, interpolated between reads."""
        return self._seconds_until(end) - self._seconds_until(start)

    def _seconds_until(self, time_s: float) -> float:
        index = bisect.bisect_left(self.times_s, time_s)
        if index in (0, len(self.times_s)):
            return self.seconds[min(index, len(self.times_s) - 1)]
        start_s, end_s = self.times_s[index - 1], self.times_s[index]
        share = (time_s - start_s) / (end_s - start_s)
        return self.seconds[index - 1] * (1 - share) + self.seconds[index] * share


class ProcessorMeter:
    """A meter of the tree below a process, for a ``with`` block.

    Args:
        process: the number of the process.
        without: the number of a process whose tree is left out.
    """

    def __init__(self, process: int, *, without: int | None = None) -> None:
        self._process, self._without = process, without
        self._tree: dict[Process, Times] = {}
        self._parents: dict[Process, Process] = {}
        self._lost_ticks = 0
        self._times_s: list[float] = []
        self._seconds: list[float] = []
        self._lock = threading.Lock()
        self._has_left = threading.Event()
        self._thread = threading.Thread(target=self._read_repeatedly, daemon=True)

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
        self._has_left.set()
        self._thread.join()

    def seconds(self) -> float:
        """Return the processor seconds until now."""
        with self._lock:
            self._read()
            return self._seconds[-1]

    def timeline(self) -> Timeline:
        """Return the processor seconds at each read until now."""
        with self._lock:
            return Timeline(tuple(self._times_s), tuple(self._seconds))

    def _read_repeatedly(self) -> None:
        while not self._has_left.wait(INTERVAL_S):
            self.seconds()

    def _read(self) -> None:
        processes, children = _processes()
        # An orphan belongs to the tree in which an earlier read found it.
        unvisited_processes = [process for process in processes if process in self._tree]
        unvisited_processes += [process for process in processes if process[0] == self._process]
        tree: dict[Process, Times] = {}
        while unvisited_processes:
            process = unvisited_processes.pop()
            if process not in tree:
                tree[process] = processes[process]
                for child in children.get(process[0], ()):
                    if child[0] != self._without:
                        self._parents.setdefault(child, process)
                        unvisited_processes.append(child)
        self._lost_ticks += lost_ticks(self._tree, tree, self._parents)
        self._tree = tree
        ticks = self._lost_ticks + sum(map(sum, tree.values()))
        self._times_s.append(time.monotonic())
        self._seconds.append(ticks / os.sysconf("SC_CLK_TCK"))


def run_metered(command: Sequence[str]) -> tuple[str, Timeline]:
    """Run a command, and return its output and the processor seconds of its tree.

    Raises:
        subprocess.CalledProcessError: the process failed.
    """
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        ProcessorMeter(process.pid) as meter,
    ):
        assert process.stdout is not None
        output = process.stdout.read()
        # The times of an ended process are readable until its parent waits for it.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        meter.seconds()
    if process.returncode:
        sys.stderr.write(output)
        raise subprocess.CalledProcessError(process.returncode, command)
    return output, meter.timeline()


def _processes() -> tuple[dict[Process, Times], dict[int, list[Process]]]:
    """Return process → its times for the whole machine, and number → children."""
    if not sys.platform.startswith("linux"):
        raise SystemExit("benches that count the processor's seconds need Linux: they read /proc")
    times: dict[Process, Times] = {}
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # Fields after the name, which may contain anything: state, parent, …, the four times.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own_ticks = int(fields[11]) + int(fields[12])
        waited_ticks = int(fields[13]) + int(fields[14])
        process = int(folder.name), int(fields[19])
        times[process] = Times(own_ticks, waited_ticks)
        children.setdefault(int(fields[1]), []).append(process)
    return times, children
