"""Measures what an epoch of changes costs as rows, partitions, snapshots and tables grow in number.

    ./run.sh bench growth
    python -m bench.growth.growth [--axis NAME …] [--rows N] [--partitions N] [--snapshots N]
        [--tables N] [--delta PYTHON] [--svg FOLDER]

An axis has tables of several sizes, each ten times the previous one, which are otherwise equal.
Their epochs take turns. Seconds are the processor's, of the driver and of its tasks, which
`bench.growth.growing_table` runs in this process, and include compactions. Goal: the last point of
an axis costs at most 1.1 × the first. On the axes of partitions and of tables each epoch changes
the same one. On the axis `all partitions`, which has no goal and a tenth of the partitions, each
epoch changes all.

Beside the job, Paimon Rust writes the same tables by pypaimon-rust, and compacts nothing. `--delta`
names the Python of an environment with deltalake and NumPy. Delta's MERGE then writes its own
tables of up to `DELTA_KEYS` rows. Neither writes on the axes of snapshots and of tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from bench.goal import Goal
from bench.growth.curves import curves
from bench.growth.growing_table import EpochCost, GrowingTable, Size
from bench.jobs.databases import DatabaseJob
from bench.process_time import run_metered
from tests.support.judges.own_environment import python_of
from tests.support.judges.pypaimon_reader import LOCK_LIST

GOAL = 1.1
CHANGES = 250_000
KEYS = 1_000_000
"""The rows of the changed partitions, on the axes of other things than rows."""
WARM_UP, EPOCHS = 1, 15
"""Three rounds of the five flushes after which a bucket is compacted."""
EPOCHS_OF_OTHERS = 4
DELTA_KEYS = 10_000_000


@dataclass(frozen=True)
class Bounds:
    """The largest point of each axis, and the changes of an epoch."""

    rows: int = 100_000_000
    partitions: int = 1_000
    snapshots: int = 10_000
    tables: int = 1_000
    changes: int = CHANGES
    keys: int = KEYS

    def smaller(self) -> Bounds:
        """Return bounds with a tenth of everything."""
        tenths = (self.rows, self.partitions, self.snapshots, self.tables, self.changes, self.keys)
        return Bounds(*(number // 10 for number in tenths))


@dataclass
class Axis:
    """A dimension that grows, and the cost of an epoch at each of its points.

    Attributes:
        epochs: for each point, a function that runs one epoch and returns its cost.
        has_goal: whether the cost at the last point has a goal.
        costs: the mean cost at each point, after `measure`.
        others: other writer → mean seconds, at the first points or at all.
    """

    name: str
    points: Sequence[int]
    epochs: Sequence[Callable[[], EpochCost]]
    has_goal: bool = True
    costs: list[EpochCost] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The seconds at the last point ÷ those at the first point."""
        return self.costs[-1].seconds / self.costs[0].seconds

    def measure(self) -> None:
        """Run epochs of all points in turns, and set the mean cost of each point."""
        costs_of_points: list[list[EpochCost]] = [[] for _ in self.points]
        for _ in range(WARM_UP + EPOCHS):
            for costs, epoch in zip(costs_of_points, self.epochs, strict=True):
                costs.append(epoch())
        self.costs = [_mean(costs[WARM_UP:]) for costs in costs_of_points]

    def lines(self) -> Iterator[str]:
        first = self.costs[0].seconds
        for index, (point, cost) in enumerate(zip(self.points, self.costs, strict=True)):
            other_seconds = [self.others.get(name, [])[index : index + 1] for name in OTHERS]
            cells = (
                self.name,
                f"{point:,}",
                *(f"{part:.3f}" for part in (cost.write_s, cost.compact_s, cost.commit_s)),
                f"{cost.seconds:.3f}",
                f"{cost.seconds / first:.2f}",
                *("".join(f"{seconds:.2f}" for seconds in other) for other in other_seconds),
            )
            yield f"| {' | '.join(cells)} |"

    def picture(self) -> str:
        """Return the axis' curves as SVG."""
        ours = {"stream_app": [cost.seconds for cost in self.costs]}
        title = "Processor seconds of an epoch of changes"
        return curves(title, self.name, self.points, ours | self.others)


OTHERS = {"Paimon Rust": "rust", "Delta MERGE": "delta"}
ONE_TABLE_AXES = ("rows", "partitions", "all partitions", "snapshots")
AXES = (*ONE_TABLE_AXES, "tables")


def measure(
    folder: Path, bounds: Bounds, names: Sequence[str] = AXES, delta: Path | None = None
) -> Iterator[Axis]:
    """Measure axes one after another, and yield each."""
    pa.set_cpu_count(1)
    GrowingTable(folder / "warm-up", Size(bounds.keys // 10), bounds.changes).epoch()
    for name in names:
        with tempfile.TemporaryDirectory(dir=folder) as temporary_folder:
            if name in ONE_TABLE_AXES:
                yield _axis_of_one_table(name, Path(temporary_folder), bounds, delta)
            else:
                yield _tables_axis(Path(temporary_folder), bounds)


def _axis_of_one_table(name: str, folder: Path, bounds: Bounds, delta: Path | None) -> Axis:
    points, size_of = _sizes(name, bounds)
    tables = [GrowingTable(folder, size_of(point), bounds.changes) for point in points]
    epochs = [table.epoch for table in tables]
    axis = Axis(name, points, epochs, has_goal=name != "all partitions")
    axis.measure()
    if name != "snapshots":
        rust = python_of("pypaimon", LOCK_LIST)
        axis.others["Paimon Rust"] = _measure_others(rust, "rust", tables)
    if name != "snapshots" and delta is not None:
        small = [table for table in tables if table.size.keys <= DELTA_KEYS]
        axis.others["Delta MERGE"] = _measure_others(delta, "delta", small)
    return axis


def _sizes(name: str, bounds: Bounds) -> tuple[Sequence[int], Callable[[int], Size]]:
    """Return the points of an axis, and the function point → table."""
    keys = bounds.keys
    if name == "rows":
        return _tens(keys, bounds.rows), Size
    if name == "partitions":
        return _tens(1, bounds.partitions), lambda point: Size(keys, old=point - 1)
    if name == "all partitions":
        return _tens(1, bounds.partitions // 10), lambda point: Size(
            keys // point, changed_count=point
        )
    return _tens(10, bounds.snapshots), lambda point: Size(keys, snapshots=point)


def _tens(first: int, last: int) -> list[int]:
    """Return the first number, multiplied by powers of ten up to the last."""
    points = [first]
    while points[-1] * 10 <= last:
        points.append(points[-1] * 10)
    return points


def _tables_axis(folder: Path, bounds: Bounds) -> Axis:
    """Measure jobs of several tables, of which one changes. Its messages are decoded too."""

    def epochs(tables: int) -> Callable[[], EpochCost]:
        database_folder = folder / f"database-{tables}"
        job = DatabaseJob(database_folder, tables, 1, bounds.changes, moves=False)
        numbers = iter(range(1_000_000))
        return lambda: EpochCost(0.0, 0.0, job.epoch(next(numbers)))

    points = _tens(1, bounds.tables)
    axis = Axis("tables", points, [epochs(tables) for tables in points])
    axis.measure()
    return axis


def _measure_others(python: Path, name: str, tables: Sequence[GrowingTable]) -> list[float]:
    table_specs = [
        {
            "path": table.table.location,
            "keys": table.size.keys,
            "changed": table.size.changed_count,
            "old": table.size.old,
            "changes": table.changes,
            "epochs": EPOCHS_OF_OTHERS,
        }
        for table in tables
    ]
    command = [str(python), "-m", "bench.growth.other_writers", name, json.dumps(table_specs)]
    means: list[float] = json.loads(run_metered(command)[0])
    return means


def _mean(costs: Sequence[EpochCost]) -> EpochCost:
    return EpochCost(
        statistics.mean(cost.write_s for cost in costs),
        statistics.mean(cost.compact_s for cost in costs),
        statistics.mean(cost.commit_s for cost in costs),
    )


def lines(
    folder: Path,
    bounds: Bounds,
    names: Sequence[str] = AXES,
    delta: Path | None = None,
    svg: Path | None = None,
) -> Iterator[str]:
    """Yield a table for docs/performance/whole-jobs.md, and write a picture for each axis."""
    yield (
        f"| {bounds.changes:,} changes: what grows | to | write, s | compactions, s "
        f"| the rest, s | an epoch, s | ÷ first | {' | '.join(f'{name}, s' for name in OTHERS)} |"
    )
    yield f"| --- |{' ---: |' * (6 + len(OTHERS))}"
    missed_goals = []
    for axis in measure(folder, bounds, names, delta):
        yield from axis.lines()
        if axis.has_goal and axis.ratio > GOAL:
            missed_goals.append(f"{axis.name} {axis.ratio:.2f}")
        if svg is not None:
            path = svg / f"growth-{axis.name.replace(' ', '-')}.svg"
            path.write_text(axis.picture(), encoding="utf-8")
    yield f"goal: the last point ≤ {GOAL} × the first; missed: {', '.join(missed_goals) or 'none'}"


def goals(folder: Path, bounds: Bounds) -> Iterator[Goal]:
    """Yield a goal for the ratio of each axis."""
    for axis in measure(folder, bounds):
        if axis.has_goal:
            name = f"an epoch with {axis.points[-1]:,} {axis.name} ÷ with {axis.points[0]:,}"
            yield Goal(name, axis.ratio, GOAL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth.growth")
    bounds = Bounds()
    for name in ("rows", "partitions", "snapshots", "tables", "changes", "keys"):
        parser.add_argument(f"--{name}", type=int, default=getattr(bounds, name))
    parser.add_argument("--axis", nargs="+", choices=AXES, default=AXES)
    parser.add_argument("--delta", type=Path, metavar="PYTHON")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="where pictures are written")
    options = vars(parser.parse_args())
    names, delta, svg = options.pop("axis"), options.pop("delta"), options.pop("svg")
    with tempfile.TemporaryDirectory(prefix="stream_app-growth-") as folder:
        for line in lines(Path(folder), Bounds(**options), names, delta, svg):
            print(line, flush=True)


if __name__ == "__main__":
    main()
