"""Draws one steady epoch: which threads have the processor, and which wait for it.

    ./run.sh bench timeline
    python -m bench.jobs.timeline [--messages N] [--epoch N] [--options TOML] [--svg FILE]

A job ingests a topic on two cores, changelog input, compaction on. This process reads the times of
every thread of the job and of the broker (``/proc/PID/task/TID/schedstat``: nanoseconds on a core,
and nanoseconds ready without one). It shows threads by groups. The table is about all steady
epochs, and the picture about the median one. The figures do not contain the cost of reading.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from bench.jobs.ingest import run_apart
from bench.shop.shop_topic import write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

INTERVAL_S = 0.05
EPOCH = 250_000
WARM_UP = 3
"""The number of first epochs that are left out, because Spark's code is not compiled yet."""

_JVM_GROUPS = {
    "Executor task": "JVM: tasks",
    "C1 Compiler": "JVM: compiler",
    "C2 Compiler": "JVM: compiler",
    "GC ": "JVM: garbage",
    "G1 ": "JVM: garbage",
    "VM ": "JVM: garbage",
    "stream executi": "JVM: query and planning",
    "dag-scheduler": "JVM: query and planning",
    "task-result": "JVM: query and planning",
    "dispatcher": "JVM: query and planning",
    "Writer for": "JVM: to workers",
    "stdout writer": "JVM: to workers",
    "Thread-": "JVM: calls of the driver",
}
"""Beginning of a thread's name, of which Linux keeps 15 bytes → group."""


class ThreadSeconds(NamedTuple):
    """The seconds of a thread or group so far: on a core, and ready without one."""

    core_s: float
    ready_s: float


@dataclass(frozen=True)
class Sample:
    """The seconds of all groups at one time.

    Attributes:
        time_s: the time of the clock, as in events.
    """

    time_s: float
    groups: Mapping[str, ThreadSeconds]


class ThreadWatch:
    """A sampler of the threads of a job and of its broker, for a ``with`` block.

    Args:
        job: the number of the job's process, the driver.
        broker: the number of the broker's process.
    """

    def __init__(self, job: int, broker: int) -> None:
        self._job, self._broker = job, broker
        self._names: dict[tuple[int, int], str] = {}
        self._latest: dict[tuple[int, int], ThreadSeconds] = {}
        self.samples: list[Sample] = []
        self._has_left = threading.Event()
        self._thread = threading.Thread(target=self._sample_repeatedly, daemon=True)

    def __enter__(self) -> Self:
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

    def _sample_repeatedly(self) -> None:
        while not self._has_left.wait(INTERVAL_S):
            self._take_sample()

    def _take_sample(self) -> None:
        time_s = time.time()
        for process, process_group in self._processes():
            for thread in _threads(process):
                self._read_thread(process, thread, process_group)
        groups: dict[str, ThreadSeconds] = defaultdict(lambda: ThreadSeconds(0, 0))
        for key, seconds in self._latest.items():
            total = groups[self._names[key]]
            groups[self._names[key]] = ThreadSeconds(
                total.core_s + seconds.core_s, total.ready_s + seconds.ready_s
            )
        self.samples.append(Sample(time_s, dict(groups)))

    def _read_thread(self, process: int, thread: int, process_group: str) -> None:
        folder = Path(f"/proc/{process}/task/{thread}")
        try:
            core_ns, ready_ns, _ = (folder / "schedstat").read_text().split()
            if (process, thread) not in self._names:
                self._names[process, thread] = group(
                    process_group, (folder / "comm").read_text().strip()
                )
        except OSError:
            return
        self._latest[process, thread] = ThreadSeconds(int(core_ns) / 1e9, int(ready_ns) / 1e9)

    def _processes(self) -> Iterator[tuple[int, str]]:
        """Yield the processes of the job and of the broker, each with its group."""
        yield self._broker, "broker"
        yield self._job, "driver"
        unvisited_processes = [(child, "JVM") for child in _children(self._job)]
        while unvisited_processes:
            process, process_group = unvisited_processes.pop()
            yield process, process_group
            unvisited_processes += [(child, "workers") for child in _children(process)]


def group(process: str, thread: str) -> str:
    """Return the group of a thread.

    Args:
        process: `broker`, `driver`, `JVM` or `workers`.
        thread: the name of the thread in Linux.
    """
    if process != "JVM":
        return "Python workers" if process == "workers" else process
    for prefix, name in _JVM_GROUPS.items():
        if thread.startswith(prefix):
            return name
    return "JVM: others"


def process_tree(process: int) -> Iterator[int]:
    """Yield a process and all processes below it."""
    yield process
    for child in _children(process):
        yield from process_tree(child)


def _children(process: int) -> list[int]:
    children = []
    for thread in _threads(process):
        with contextlib.suppress(OSError):
            children += Path(f"/proc/{process}/task/{thread}/children").read_text().split()
    return [int(child) for child in children]


def _threads(process: int) -> list[int]:
    """Return the threads of a process; none after its end."""
    try:
        return [int(folder.name) for folder in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return []


@dataclass(frozen=True)
class Epoch:
    """One epoch of the job.

    Attributes:
        start_s, end_s: the times of the previous commit and of its own commit.
    """

    start_s: float
    end_s: float
    messages: int


@dataclass(frozen=True)
class WatchedRun:
    """The steady epochs of a run, and all samples of its threads."""

    epochs: Sequence[Epoch]
    samples: Sequence[Sample]

    def used(self, epoch: Epoch) -> dict[str, ThreadSeconds]:
        """Return group → the seconds that it used in an epoch."""
        first, last = self._sample_near(epoch.start_s), self._sample_near(epoch.end_s)
        nothing = ThreadSeconds(0, 0)
        return {
            name: ThreadSeconds(
                seconds.core_s - first.groups.get(name, nothing).core_s,
                seconds.ready_s - first.groups.get(name, nothing).ready_s,
            )
            for name, seconds in last.groups.items()
        }

    def median(self) -> Epoch:
        """Return the epoch whose length is the median."""
        epochs = sorted(self.epochs, key=lambda epoch: epoch.end_s - epoch.start_s)
        return epochs[len(epochs) // 2]

    def steps(self, epoch: Epoch) -> list[tuple[Sample, Sample]]:
        """Return the pairs of successive samples in an epoch."""
        inside = [
            sample for sample in self.samples if epoch.start_s <= sample.time_s <= epoch.end_s
        ]
        return list(itertools.pairwise(inside))

    def _sample_near(self, time_s: float) -> Sample:
        return min(self.samples, key=lambda sample: abs(sample.time_s - time_s))


def watch(messages: int, epoch: int, options: str, folder: Path) -> WatchedRun:
    """Fill a topic, let a job ingest it, and look at its threads."""
    file, job_folder = folder / "messages.parquet", folder / "ours"
    write_messages(file, messages)
    with EmbeddedBroker(folder / "kafka") as broker:
        run_apart("fill", broker, folder, "fill", epoch, {"messages": str(file)})
        job = {"mode": "ours", "folder": str(job_folder), "epoch": epoch, "options": options}
        job["bootstrap"] = broker.bootstrap
        command = [sys.executable, "-m", "bench.jobs.ingest", "--worker", json.dumps(job)]
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
            ThreadWatch(process.pid, broker.pid or 0) as threads,
        ):
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, command)
    lines = (job_folder / "events.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
    return WatchedRun(_steady(events), threads.samples)


def _steady(events: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    ends = [event["time_ms"] / 1000 for event in events]
    pairs = zip(events, ends, ends[1:], strict=False)
    epochs = [Epoch(start, end, event["messages"]) for event, start, end in pairs]
    return epochs[WARM_UP:-1]


def lines(watched_run: WatchedRun) -> Iterator[str]:
    """Yield a table of all steady epochs."""
    messages = sum(epoch.messages for epoch in watched_run.epochs)
    seconds = sum(epoch.end_s - epoch.start_s for epoch in watched_run.epochs)
    sums: dict[str, ThreadSeconds] = defaultdict(lambda: ThreadSeconds(0, 0))
    for epoch in watched_run.epochs:
        for name, used_s in watched_run.used(epoch).items():
            sums[name] = ThreadSeconds(
                sums[name].core_s + used_s.core_s, sums[name].ready_s + used_s.ready_s
            )
    count = len(watched_run.epochs)
    yield f"{count} epochs, {messages / count:,.0f} messages and {seconds / count:.2f} s each"
    yield "| threads | processor, us a message | cores | ready without a core, us a message |"
    yield "| --- | ---: | ---: | ---: |"
    for name, used_s in sorted(sums.items(), key=lambda item: -item[1].core_s):
        core_us, ready_us = used_s.core_s / messages * 1e6, used_s.ready_s / messages * 1e6
        yield f"| {name} | {core_us:.2f} | {used_s.core_s / seconds:.2f} | {ready_us:.2f} |"
    job_core_s = sum(used_s.core_s for name, used_s in sums.items() if name != "broker")
    job_us, job_cores = job_core_s / messages * 1e6, job_core_s / seconds
    yield f"| job, without the broker | {job_us:.2f} | {job_cores:.2f} | |"


_LEFT, _LANE, _WIDTH = 210, 46, 900


def picture(watched_run: WatchedRun) -> str:
    """Return the median epoch as SVG: a lane for each group, dark for cores, light for waiting."""
    epoch = watched_run.median()
    used_by_name, steps = watched_run.used(epoch), watched_run.steps(epoch)
    names = sorted(used_by_name, key=lambda name: -used_by_name[name].core_s)
    length_s = epoch.end_s - epoch.start_s
    height = _LANE * len(names) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 90} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="20">'
        f"{epoch.messages:,} messages in {length_s:.2f} s: cores that threads use (dark) and are "
        "ready for (light); a lane is two cores high</text>",
    ]
    for row, name in enumerate(names):
        top = 34 + row * _LANE
        parts.append(f'<text x="10" y="{top + 26}">{html.escape(name)}</text>')
        parts.append(
            f'<line x1="{_LEFT}" y1="{top + _LANE - 4}" x2="{_LEFT + _WIDTH}" '
            f'y2="{top + _LANE - 4}" stroke="#ccc"/>'
        )
        for earlier, later in steps:
            parts += _bars(epoch, earlier, later, name, top)
        core_us = used_by_name[name].core_s / epoch.messages * 1e6
        parts.append(f'<text x="{_LEFT + _WIDTH + 8}" y="{top + 26}">{core_us:.2f} us</text>')
    base = 34 + len(names) * _LANE
    for tick in range(5):
        x = _LEFT + _WIDTH * tick / 4
        parts.append(f'<text x="{x:.0f}" y="{base + 14}">{length_s * tick / 4:.2f} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bars(epoch: Epoch, earlier: Sample, later: Sample, name: str, top: float) -> Iterator[str]:
    seconds, nothing = later.time_s - earlier.time_s, ThreadSeconds(0, 0)
    before, after = earlier.groups.get(name, nothing), later.groups.get(name, nothing)
    scale = _WIDTH / (epoch.end_s - epoch.start_s)
    x, width = _LEFT + (earlier.time_s - epoch.start_s) * scale, seconds * scale
    cores = (after.core_s - before.core_s) / seconds
    ready = (after.ready_s - before.ready_s) / seconds
    bottom = top + _LANE - 4
    for share, colour in ((min(2.0, cores + ready), "#cfe0f5"), (min(2.0, cores), "#2f6db5")):
        bar_height = share / 2 * (_LANE - 6)
        yield (
            f'<rect x="{x:.1f}" y="{bottom - bar_height:.1f}" width="{width:.1f}" '
            f'height="{bar_height:.1f}" fill="{colour}"/>'
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.timeline")
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--epoch", type=int, default=EPOCH)
    parser.add_argument("--options", default="bucket = 2", help="lines of [table.options]")
    parser.add_argument("--svg", type=Path, help="where the picture is written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-timeline-") as folder:
        watched_run = watch(args.messages, args.epoch, args.options, Path(folder))
    print("\n".join(lines(watched_run)))
    if args.svg:
        args.svg.write_text(picture(watched_run), encoding="utf-8")


if __name__ == "__main__":
    main()
