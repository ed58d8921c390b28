"""A job of 1,000 tables of which 50 change in an epoch: what a changed and an idle table cost.

    python -m bench.jobs.databases [--tables N] [--changed N] [--rows N] [--epochs N]

The job's own driver, splitter, tasks and commits run in this process, without Spark and without a
broker; plans are pickled for each task as Spark does it. Each line is a job: the same rows in one
table, in as many tables as change, and in those among many idle ones. Times are seconds of the
processor in an epoch; the driver's are those without the tasks'. `look` is a look for finished
compactions and upkeep between two epochs. Beside them pyarrow alone writes as many Parquet files
as tables change, with as many rows. Goals: 50 changed tables ≤ 1.5 × the same rows in one, an idle
table ≤ 0.01 ms; with 10,000 tables, of which 500 change, ≤ 5 s on the driver and a plan of 1 MB at
most.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle

from bench.goal import Goal
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.clock import SystemClock
from stream_app.epochs.commit.epoch_committer import EpochCommitter
from stream_app.epochs.commit.epoch_rounds import EpochRounds
from stream_app.epochs.commit.epoch_tables import IndependentTables
from stream_app.epochs.commit.table_feed import TableFeed
from stream_app.epochs.commit.table_listener import EpochReport
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport, TableJob
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.messages.database_topic import creates
from tests.support.tables.small_table import CompactHere

TABLES, CHANGED, ROWS, EPOCHS = 1000, 50, 20_000, 7
_TASKS = 2
"""That read, and as many that write: each gets the plan."""


T = TypeVar("T")


class Silent:
    """Implements `TableListener`."""

    def on_open(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Ignore the event."""

    def on_epoch(self, report: EpochReport) -> None:
        """Ignore the event."""

    def on_idle_commit(self, report: IdleReport) -> None:
        """Ignore the event."""


@dataclass
class Shipped(EpochHere):
    """Tasks in this process that get their plan as Spark's do.

    Attributes:
        plan_bytes: the size of each plan; an epoch has two, to decode and to write.
        plan_s: seconds of the processor for pickling it and for unpickling it in each task.
        task_s: the seconds of all tasks so far, without unpacking their plans.
    """

    plan_bytes: list[int] = field(default_factory=list)
    plan_s: list[float] = field(default_factory=list)
    task_s: float = 0.0

    def route(self, epoch: int, messages: Parts, plan: EpochPlan) -> RoutedEpoch:
        shipped = self._ship(plan)
        routed = self._time(lambda: EpochHere.route(self, epoch, messages, shipped))

        def write(plan: EpochPlan) -> EpochOutput:
            ready = self._ship(plan)
            return self._time(lambda: routed.write(ready))

        return RoutedEpoch(routed.messages, write, routed.tables)

    def _time(self, work: Callable[[], T]) -> T:
        began = time.process_time()
        done = work()
        self.task_s += time.process_time() - began
        return done

    def _ship(self, plan: EpochPlan) -> EpochPlan:
        began = time.process_time()
        data = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        for _ in range(_TASKS):
            shipped: EpochPlan = cloudpickle.loads(data)
        self.plan_bytes.append(len(data))
        self.plan_s.append(time.process_time() - began)
        return shipped


@dataclass
class DatabaseJob:
    """A job of a database with tables that change and tables that are idle.

    Attributes:
        moves: each epoch changes other tables, and adds rows; else all change the same rows.
    """

    folder: Path
    tables: int
    changed: int
    rows: int
    moves: bool = True
    runner: Shipped = field(default_factory=Shipped)
    batch: EpochCommitter[Parts] = field(init=False)
    _sent: int = 0
    _parts: list[pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spark("metadata", '{"id": "bench"}')
        sync = SyncConfig(
            warehouse=str(self.folder / "warehouse"),
            options={"bucket": "1"},
            max_tables=self.tables,
        )
        database = WholeDatabase(source=SourceConfig(), sync=sync)
        checkpoint = JobFolder(str(self.folder / "checkpoint"), LocalFileIO())
        state = JobStateFile(checkpoint)

        def feed_of(name: str, table: FileStoreTable) -> TableFeed:
            return TableFeed(
                name=name,
                table_job=TableJob(table, CompactHere),
                format_of=lambda seen: job_pipeline(database, seen),
                quarantine=QuarantineWriter(None, 0),
                listener=Silent(),
            )

        database_tables = DatabaseTables(
            job_tables=database, state_file=state, clock=SystemClock(),
            feed_of=feed_of, quarantine=lambda *_: None,
        )  # fmt: skip
        feeds = list(database_tables.create(self._messages(range(self.tables), 1)).feeds)
        tables = IndependentTables(
            feeds,
            epoch_log=EpochLog(checkpoint, can_reread=False),
            state_file=state,
            now_ms=SystemClock().now_ms,
        )
        self.batch = EpochCommitter(
            EpochRounds(
                tables=tables,
                settings=EpochSettings(
                    tasks=_TASKS, splitter=database_tables.splitter(feeds), holds_tables=True
                ),
                runner=self.runner,
                clock=SystemClock(),
                newcomers=database_tables,
            )
        )

    def _messages(self, tables: Sequence[int], rows: int) -> pa.Table:
        sent = [
            message
            for table in tables
            for message in creates(f"shop.t{table}", range(self._sent, self._sent + rows))
        ]
        self._sent += rows
        return pa.Table.from_pydict(
            {
                "topic": ["shop"] * len(sent),
                "partition": [0] * len(sent),
                "offset": range(len(sent)),
                "timestamp": [0] * len(sent),
                "key": [key for key, _ in sent],
                "value": [value for _, value in sent],
            },
            schema=MESSAGE_SCHEMA,
        )

    def epoch(self, number: int) -> float:
        """Seconds of the processor."""
        first = number * self.changed if self.moves else 0
        changed = [(first + number) % self.tables for number in range(self.changed)]
        if self.moves or not self._parts:
            messages = self._messages(changed, self.rows // self.changed)
            self._parts = messages.combine_chunks().to_batches()
        end = json.dumps({"shop": {"0": number}})
        self._spark(f"offsets/{number}", f"v1\n{{}}\n{end}")
        began = time.process_time()
        self.batch.process_epoch(self._parts, number)
        return time.process_time() - began

    def _spark(self, name: str, text: str) -> None:
        """Write a file that Spark has in a checkpoint."""
        path = self.folder / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def look(self) -> float:
        """Seconds of the processor for a look between epochs."""
        began = time.process_time()
        self.batch.while_idle()
        return time.process_time() - began


def memory_mb() -> float:
    """Resident memory of this process, at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(frozen=True)
class DatabaseCost:
    """The median processor seconds of a job's epochs.

    Attributes:
        driver_s: the part of `epoch_s` outside of the tasks.
        plan_s: the seconds for an epoch's two plans.
        plan_bytes: the size of the last epoch's larger plan.
    """

    tables: int
    changed: int
    epoch_s: float
    driver_s: float
    plan_s: float
    plan_bytes: int
    look_s: float

    def line(self) -> str:
        return (
            f"{self.tables:>6} tables, {self.changed:>4} change: {self.epoch_s:7.3f} s an epoch, "
            f"{self.driver_s:.3f} s of it the driver's; the plan {self.plan_s:6.3f} s "
            f"({self.plan_bytes / 1e6:.2f} MB), look {self.look_s:.4f} s, "
            f"memory so far {memory_mb():.0f} MB"
        )


def measure_one(
    folder: Path, *, tables: int, changed: int, rows: int, epochs: int, moves: bool = True
) -> DatabaseCost:
    """Let a job have its epochs; the first two do not count."""
    job = DatabaseJob(folder, tables, changed, rows, moves)
    seconds, driver = [], []
    for number in range(epochs):
        tasks = job.runner.task_s
        seconds.append(job.epoch(number))
        driver.append(seconds[-1] - (job.runner.task_s - tasks))
    return DatabaseCost(
        tables,
        changed,
        statistics.median(seconds[2:]),
        statistics.median(driver[2:]),
        2 * statistics.median(job.runner.plan_s[4:]),
        max(job.runner.plan_bytes[-2:]),
        statistics.median(job.look() for _ in range(5)),
    )


def bare_files_s(folder: Path, files: int, rows: int) -> float:
    """Seconds of the processor in which pyarrow alone writes the files of an epoch; least of five.

    They have the columns of the tables' data files: key, number and kind of a row, and its values.
    """
    numbers, values = pa.array(range(rows)), pa.array([f"v{number}" for number in range(rows)])
    columns = dict.fromkeys(("_KEY_id", "_SEQUENCE_NUMBER", "id", "n"), numbers)
    table = pa.table({**columns, "_VALUE_KIND": pa.array([0] * rows, pa.int8()), "v": values})
    seconds = []
    for _ in range(5):
        began = time.process_time()
        for number in range(files):
            pq.write_table(table, folder / f"{number}.parquet", compression="zstd")
        seconds.append(time.process_time() - began)
    return min(seconds)


def measure(
    folder: Path, *, tables: int, changed: int, rows: int, epochs: int
) -> Iterator[DatabaseCost]:
    """Measure the same rows in one table, in the changing tables, and in these among idle ones."""
    jobs = {"one": (1, 1), "some": (changed, changed), "many": (tables, changed)}
    for name, (all_tables, its) in jobs.items():
        yield measure_one(folder / name, tables=all_tables, changed=its, rows=rows, epochs=epochs)


def _idle_ms(few: DatabaseCost, many: DatabaseCost) -> float:
    """Return what one more idle table costs per epoch."""
    return 1000 * (many.epoch_s - few.epoch_s) / max(1, many.tables - few.tables)


def lines(folder: Path, *, tables: int, changed: int, rows: int, epochs: int) -> Iterator[str]:
    """One job after the other, and what follows from them."""
    costs = []
    for cost in measure(folder, tables=tables, changed=changed, rows=rows, epochs=epochs):
        costs.append(cost)
        yield cost.line()
    single, few, many = costs
    yield (
        f"{rows} rows in {changed} tables cost {few.epoch_s / single.epoch_s:.2f} × those in one; "
        f"among {tables} tables {many.epoch_s / single.epoch_s:.2f} ×. A changed table costs "
        f"{1000 * (few.epoch_s - single.epoch_s) / max(1, changed - 1):.1f} ms an epoch, an idle "
        f"one {_idle_ms(few, many):.3f} ms"
    )
    bare = bare_files_s(folder, changed, rows // changed)
    yield (
        f"pyarrow alone writes {changed} files of these rows in {bare:.3f} s, "
        f"{bare / single.epoch_s:.2f} × the epoch of one table"
    )


def goals(folder: Path, *, tables: int, rows: int, epochs: int) -> Iterator[Goal]:
    """Of changed tables, of idle ones, and of many tables, of which a twentieth change."""
    single, several = (
        measure_one(folder / f"of-{count}", tables=count, changed=count, rows=rows, epochs=epochs)
        for count in (1, CHANGED)
    )
    yield Goal(f"{CHANGED} changed tables ÷ one", several.epoch_s / single.epoch_s, 1.5)
    few, many = (
        measure_one(
            folder / f"idle-{count}", tables=count, changed=1, rows=10, epochs=20, moves=False
        )
        for count in (1, TABLES)
    )
    yield Goal("an idle table, ms an epoch", _idle_ms(few, many), 0.01)
    changed = tables // 20
    most = measure_one(folder / "most", tables=tables, changed=changed, rows=rows, epochs=epochs)
    name = f"{tables:,} tables, {changed:,} change"
    yield Goal(f"{name}: processor of the driver, s an epoch", most.driver_s, 5)
    yield Goal(f"{name}: the plan, MB", most.plan_bytes / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="what tables cost an epoch")
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--changed", type=int, default=CHANGED)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        for line in lines(Path(name), **vars(args)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
