"""One steady epoch as a picture: which threads have the processor, and which wait for it.

    ./run.sh bench timeline
    python -m bench.jobs.timeline [--messages N] [--epoch N] [--options TOML] [--svg FILE]

A job ingests a topic on two cores, changelog input, compaction on. This process looks from outside
at every thread of the job and of the broker (``/proc/PID/task/TID/schedstat``: nanoseconds on a
core, nanoseconds ready without one). It shows threads by groups. The table is of all steady epochs,
the picture of their median one. What looking costs is in nobody's figures.
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
"""Epochs that are left out: Spark's code is not compiled yet."""

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
"""By the beginning of a thread's name, of which Linux keeps 15 bytes."""


class Moment(NamedTuple):
    """The seconds that one group had used at a moment."""

    on_core: float
    ready: float


@dataclass(frozen=True)
class Look:
    """All groups at one moment.

    Attributes:
        time_s: seconds of the clock, as events have them.
    """

    time_s: float
    groups: Mapping[str, Moment]


class ThreadWatch:
    """Looks at the threads of a job and of its broker until it is left.

    Args:
        job: the number of the job's process, the driver.
        broker: the number of the broker's process.
    """

    def __init__(self, job: int, broker: int) -> None:
        self._job, self._broker = job, broker
        self._names: dict[tuple[int, int], str] = {}
        self._latest: dict[tuple[int, int], Moment] = {}
        self.looks: list[Look] = []
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
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

    def _look_on(self) -> None:
        while not self._left.wait(INTERVAL_S):
            self._look()

    def _look(self) -> None:
        time_s = time.time()
        for process, process_group in self._processes():
            for thread in _threads(process):
                self._see(process, thread, process_group)
        groups: dict[str, Moment] = defaultdict(lambda: Moment(0, 0))
        for key, moment in self._latest.items():
            before = groups[self._names[key]]
            groups[self._names[key]] = Moment(
                before.on_core + moment.on_core, before.ready + moment.ready
            )
        self.looks.append(Look(time_s, dict(groups)))

    def _see(self, process: int, thread: int, process_group: str) -> None:
        folder = Path(f"/proc/{process}/task/{thread}")
        try:
            on_core, ready, _ = (folder / "schedstat").read_text().split()
            if (process, thread) not in self._names:
                self._names[process, thread] = group(
                    process_group, (folder / "comm").read_text().strip()
                )
        except OSError:
            return
        self._latest[process, thread] = Moment(int(on_core) / 1e9, int(ready) / 1e9)

    def _processes(self) -> Iterator[tuple[int, str]]:
        """The processes of the job, each with what it is."""
        yield self._broker, "broker"
        yield self._job, "driver"
        waiting = [(child, "JVM") for child in _children(self._job)]
        while waiting:
            process, process_group = waiting.pop()
            yield process, process_group
            waiting += [(child, "workers") for child in _children(process)]


def group(process: str, thread: str) -> str:
    """The group of a thread.

    Args:
        process: `broker`, `driver`, `JVM` or `workers`.
        thread: its name, as Linux has it.
    """
    if process != "JVM":
        return "Python workers" if process == "workers" else process
    for begin, name in _JVM_GROUPS.items():
        if thread.startswith(begin):
            return name
    return "JVM: others"


def process_tree(process: int) -> Iterator[int]:
    """A process and all below it."""
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
    """Its threads; none when it has ended."""
    try:
        return [int(folder.name) for folder in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return []


@dataclass(frozen=True)
class Epoch:
    """One epoch of the job.

    Attributes:
        begin, end: seconds of the clock, from the commit before to its own.
    """

    begin: float
    end: float
    messages: int


@dataclass(frozen=True)
class Watched:
    """The steady epochs of a run, and all looks at it."""

    epochs: Sequence[Epoch]
    looks: Sequence[Look]

    def used(self, epoch: Epoch) -> dict[str, Moment]:
        """Return the seconds that each group used in an epoch."""
        first, last = self._look_near(epoch.begin), self._look_near(epoch.end)
        nothing = Moment(0, 0)
        return {
            name: Moment(
                moment.on_core - first.groups.get(name, nothing).on_core,
                moment.ready - first.groups.get(name, nothing).ready,
            )
            for name, moment in last.groups.items()
        }

    def median(self) -> Epoch:
        """The epoch whose length is the median."""
        return sorted(self.epochs, key=lambda epoch: epoch.end - epoch.begin)[len(self.epochs) // 2]

    def steps(self, epoch: Epoch) -> list[tuple[Look, Look]]:
        """Pairs of looks, one after the other, that cover an epoch."""
        inside = [look for look in self.looks if epoch.begin <= look.time_s <= epoch.end]
        return list(itertools.pairwise(inside))

    def _look_near(self, moment: float) -> Look:
        return min(self.looks, key=lambda look: abs(look.time_s - moment))


def watch(messages: int, epoch: int, options: str, folder: Path) -> Watched:
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
    return Watched(_steady(events), threads.looks)


def _steady(events: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    ends = [event["time_ms"] / 1000 for event in events]
    pairs = zip(events, ends, ends[1:], strict=False)
    epochs = [Epoch(begin, end, event["messages"]) for event, begin, end in pairs]
    return epochs[WARM_UP:-1]


def lines(watched: Watched) -> Iterator[str]:
    """The table of all steady epochs."""
    messages = sum(epoch.messages for epoch in watched.epochs)
    seconds = sum(epoch.end - epoch.begin for epoch in watched.epochs)
    sums: dict[str, Moment] = defaultdict(lambda: Moment(0, 0))
    for epoch in watched.epochs:
        for name, moment in watched.used(epoch).items():
            sums[name] = Moment(
                sums[name].on_core + moment.on_core, sums[name].ready + moment.ready
            )
    count = len(watched.epochs)
    yield f"{count} epochs, {messages / count:,.0f} messages and {seconds / count:.2f} s each"
    yield "| threads | processor, us a message | cores | ready without a core, us a message |"
    yield "| --- | ---: | ---: | ---: |"
    for name, moment in sorted(sums.items(), key=lambda item: -item[1].on_core):
        spent, ready = moment.on_core / messages * 1e6, moment.ready / messages * 1e6
        yield f"| {name} | {spent:.2f} | {moment.on_core / seconds:.2f} | {ready:.2f} |"
    whole = sum(moment.on_core for name, moment in sums.items() if name != "broker")
    yield f"| job, without the broker | {whole / messages * 1e6:.2f} | {whole / seconds:.2f} | |"


_LEFT, _LANE, _WIDTH = 210, 46, 900


def picture(watched: Watched) -> str:
    """The median epoch as SVG: a lane for each group, dark for cores, light for waiting."""
    epoch = watched.median()
    used, steps = watched.used(epoch), watched.steps(epoch)
    names = sorted(used, key=lambda name: -used[name].on_core)
    length = epoch.end - epoch.begin
    height = _LANE * len(names) + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 90} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="20">'
        f"{epoch.messages:,} messages in {length:.2f} s: cores that threads use (dark) and are "
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
        spent = used[name].on_core / epoch.messages * 1e6
        parts.append(f'<text x="{_LEFT + _WIDTH + 8}" y="{top + 26}">{spent:.2f} us</text>')
    base = 34 + len(names) * _LANE
    for tick in range(5):
        x = _LEFT + _WIDTH * tick / 4
        parts.append(f'<text x="{x:.0f}" y="{base + 14}">{length * tick / 4:.2f} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bars(epoch: Epoch, earlier: Look, later: Look, name: str, top: float) -> Iterator[str]:
    seconds, nothing = later.time_s - earlier.time_s, Moment(0, 0)
    before, after = earlier.groups.get(name, nothing), later.groups.get(name, nothing)
    scale = _WIDTH / (epoch.end - epoch.begin)
    x, width = _LEFT + (earlier.time_s - epoch.begin) * scale, seconds * scale
    cores, ready = (
        (after.on_core - before.on_core) / seconds,
        (after.ready - before.ready) / seconds,
    )
    bottom = top + _LANE - 4
    for share, colour in ((min(2.0, cores + ready), "#cfe0f5"), (min(2.0, cores), "#2f6db5")):
        high = share / 2 * (_LANE - 6)
        yield (
            f'<rect x="{x:.1f}" y="{bottom - high:.1f}" width="{width:.1f}" height="{high:.1f}" '
            f'fill="{colour}"/>'
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.timeline")
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--epoch", type=int, default=EPOCH)
    parser.add_argument("--options", default="bucket = 2", help="lines of [table.options]")
    parser.add_argument("--svg", type=Path, help="where the picture is written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-timeline-") as folder:
        watched = watch(args.messages, args.epoch, args.options, Path(folder))
    print("\n".join(lines(watched)))
    if args.svg:
        args.svg.write_text(picture(watched), encoding="utf-8")


if __name__ == "__main__":
    main()
