"""Measures what changed and idle tables cost, in a job of 1,000 tables of which 50 change.

    python -m bench.jobs.databases [--tables N] [--changed N] [--rows N] [--epochs N]

The job's own driver, splitter, tasks and commits run in this process, without Spark and without a
broker. Plans are pickled for each task, as Spark does. Each line is a job: the same rows in one
table, in all changing tables, and in these among many idle tables. Times are processor seconds of
an epoch; the driver's are those outside of tasks. `look` is a check for finished compactions and
upkeep between two epochs. Beside the job, pyarrow alone writes a Parquet file of the same rows for
each changed table.

Goals: 50 changed tables ≤ 1.5 × the same rows in one table; an idle table ≤ 0.01 ms. With 10,000
tables, of which 500 change: ≤ 5 s on the driver, and a plan of at most 1 MB.
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
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import IndependentTables
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.rounds.table_listener import EpochReport
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
"""The number of tasks that read, and of those that write. Each gets the plan."""


T = TypeVar("T")


class SilentListener:
    """A `TableListener` that ignores all events."""

    def on_open_table(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Ignore the event."""

    def on_epoch(self, report: EpochReport) -> None:
        """Ignore the event."""

    def on_idle_commit(self, report: IdleReport) -> None:
        """Ignore the event."""


@dataclass
class ShippedPlans(EpochHere):
    """An epoch runner in this process, whose tasks get pickled plans as Spark's tasks do.

    Attributes:
        plan_sizes: the size of each plan; an epoch has two, to decode and to write.
        plan_s: the processor seconds of pickling each plan, and of unpickling it in each task.
        task_s: the processor seconds of all tasks so far, without unpickling.
    """

    plan_sizes: list[int] = field(default_factory=list)
    plan_s: list[float] = field(default_factory=list)
    task_s: float = 0.0

    def route(self, epoch: int, messages: Parts, plan: EpochPlan) -> RoutedEpoch:
        task_plan = self._ship(plan)
        routed_blocks = self._time(lambda: EpochHere.route(self, epoch, messages, task_plan))

        def write(plan: EpochPlan) -> EpochOutput:
            write_plan = self._ship(plan)
            return self._time(lambda: routed_blocks.write(write_plan))

        return RoutedEpoch(routed_blocks.message_count, write, routed_blocks.table_indices)

    def _time(self, work: Callable[[], T]) -> T:
        start_s = time.process_time()
        result = work()
        self.task_s += time.process_time() - start_s
        return result

    def _ship(self, plan: EpochPlan) -> EpochPlan:
        start_s = time.process_time()
        data = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        for _ in range(_TASKS):
            task_plan: EpochPlan = cloudpickle.loads(data)
        self.plan_sizes.append(len(data))
        self.plan_s.append(time.process_time() - start_s)
        return task_plan


@dataclass
class DatabaseJob:
    """A job of a database with tables that change and tables that are idle.

    Attributes:
        moves: whether each epoch changes other tables and adds rows; if not, all epochs change the
            same rows.
    """

    folder: Path
    tables: int
    changed_count: int
    rows: int
    moves: bool = True
    runner: ShippedPlans = field(default_factory=ShippedPlans)
    committer: EpochCommitter[Parts] = field(init=False)
    _sent: int = 0
    _parts: list[pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._write_checkpoint_file("metadata", '{"id": "bench"}')
        sync = SyncConfig(
            warehouse=str(self.folder / "warehouse"),
            options={"bucket": "1"},
            max_tables=self.tables,
        )
        database = WholeDatabase(source=SourceConfig(), sync=sync)
        checkpoint = JobFolder(str(self.folder / "checkpoint"), LocalFileIO())
        state = JobStateFile(checkpoint)

        def make_feed(name: str, table: FileStoreTable) -> TableFeed:
            return TableFeed(
                name=name,
                table_job=TableJob(table, CompactHere),
                make_pipeline=lambda table: job_pipeline(database, table),
                quarantine_writer=QuarantineWriter(None, 0),
                listener=SilentListener(),
            )

        database_tables = DatabaseTables(
            job_tables=database, state_file=state, clock=SystemClock(),
            make_feed=make_feed, write_unassigned_messages=lambda *_: None,
        )  # fmt: skip
        feeds = list(database_tables.create(self._messages(range(self.tables), 1)).feeds)
        tables = IndependentTables(
            feeds,
            epoch_log=EpochLog(checkpoint, can_reread=False),
            state_file=state,
            now_ms=SystemClock().now_ms,
        )
        self.committer = EpochCommitter(
            RoundRunner(
                tables=tables,
                settings=EpochSettings(
                    task_count=_TASKS, splitter=database_tables.splitter(feeds), holds_tables=True
                ),
                epoch_runner=self.runner,
                clock=SystemClock(),
                newcomer_creator=database_tables,
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
        """Run an epoch, and return its processor seconds."""
        first_table = number * self.changed_count if self.moves else 0
        changed_tables = [
            (first_table + index) % self.tables for index in range(self.changed_count)
        ]
        if self.moves or not self._parts:
            messages = self._messages(changed_tables, self.rows // self.changed_count)
            self._parts = messages.combine_chunks().to_batches()
        end = json.dumps({"shop": {"0": number}})
        self._write_checkpoint_file(f"offsets/{number}", f"v1\n{{}}\n{end}")
        start_s = time.process_time()
        self.committer.process_epoch(self._parts, number)
        return time.process_time() - start_s

    def _write_checkpoint_file(self, name: str, text: str) -> None:
        """Write a file of Spark's checkpoint."""
        path = self.folder / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def look(self) -> float:
        """Do the work between epochs, and return its processor seconds."""
        start_s = time.process_time()
        self.committer.while_idle()
        return time.process_time() - start_s


def memory_mb() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(frozen=True)
class DatabaseCost:
    """The median processor seconds of a job's epochs.

    Attributes:
        driver_s: the part of `epoch_s` outside of the tasks.
        plan_s: the seconds for an epoch's two plans.
        plan_size: the size of the last epoch's larger plan.
    """

    tables: int
    changed_count: int
    epoch_s: float
    driver_s: float
    plan_s: float
    plan_size: int
    look_s: float

    def line(self) -> str:
        return (
            f"{self.tables:>6} tables, {self.changed_count:>4} change: "
            f"{self.epoch_s:7.3f} s an epoch, {self.driver_s:.3f} s of it the driver's; "
            f"the plan {self.plan_s:6.3f} s ({self.plan_size / 1e6:.2f} MB), "
            f"look {self.look_s:.4f} s, memory so far {memory_mb():.0f} MB"
        )


def measure_one(
    folder: Path, *, tables: int, changed_count: int, rows: int, epochs: int, moves: bool = True
) -> DatabaseCost:
    """Run the epochs of a job, and return the costs. The first two epochs do not count."""
    job = DatabaseJob(folder, tables, changed_count, rows, moves)
    seconds, driver_seconds = [], []
    for number in range(epochs):
        task_s = job.runner.task_s
        seconds.append(job.epoch(number))
        driver_seconds.append(seconds[-1] - (job.runner.task_s - task_s))
    return DatabaseCost(
        tables,
        changed_count,
        statistics.median(seconds[2:]),
        statistics.median(driver_seconds[2:]),
        2 * statistics.median(job.runner.plan_s[4:]),
        max(job.runner.plan_sizes[-2:]),
        statistics.median(job.look() for _ in range(5)),
    )


def bare_files_s(folder: Path, files: int, rows: int) -> float:
    """Return the processor seconds in which pyarrow alone writes the files of an epoch.

    It is the shortest time of five. The files have the columns of the tables' data files: key,
    number and kind of a row, and the row's values.
    """
    numbers, values = pa.array(range(rows)), pa.array([f"v{number}" for number in range(rows)])
    columns = dict.fromkeys(("_KEY_id", "_SEQUENCE_NUMBER", "id", "n"), numbers)
    table = pa.table({**columns, "_VALUE_KIND": pa.array([0] * rows, pa.int8()), "v": values})
    seconds = []
    for _ in range(5):
        start_s = time.process_time()
        for number in range(files):
            pq.write_table(table, folder / f"{number}.parquet", compression="zstd")
        seconds.append(time.process_time() - start_s)
    return min(seconds)


def measure(
    folder: Path, *, tables: int, changed_count: int, rows: int, epochs: int
) -> Iterator[DatabaseCost]:
    """Yield the costs of the same rows in one table, in all changing ones, and among idle ones."""
    jobs = {"one": (1, 1), "some": (changed_count, changed_count), "many": (tables, changed_count)}
    for name, (table_count, touched_count) in jobs.items():
        yield measure_one(
            folder / name, tables=table_count, changed_count=touched_count, rows=rows, epochs=epochs
        )


def _idle_ms(few: DatabaseCost, many: DatabaseCost) -> float:
    """Return the cost of one more idle table for each epoch, in milliseconds."""
    return 1000 * (many.epoch_s - few.epoch_s) / max(1, many.tables - few.tables)


def lines(
    folder: Path, *, tables: int, changed_count: int, rows: int, epochs: int
) -> Iterator[str]:
    """Yield a line for each job, and lines that compare them."""
    costs = []
    for cost in measure(
        folder, tables=tables, changed_count=changed_count, rows=rows, epochs=epochs
    ):
        costs.append(cost)
        yield cost.line()
    single, few, many = costs
    changed_ms = 1000 * (few.epoch_s - single.epoch_s) / max(1, changed_count - 1)
    yield (
        f"{rows} rows in {changed_count} tables cost {few.epoch_s / single.epoch_s:.2f} × "
        f"those in one; among {tables} tables {many.epoch_s / single.epoch_s:.2f} ×. "
        f"A changed table costs {changed_ms:.1f} ms an epoch, an idle one "
        f"{_idle_ms(few, many):.3f} ms"
    )
    files_s = bare_files_s(folder, changed_count, rows // changed_count)
    yield (
        f"pyarrow alone writes {changed_count} files of these rows in {files_s:.3f} s, "
        f"{files_s / single.epoch_s:.2f} × the epoch of one table"
    )


def goals(folder: Path, *, tables: int, rows: int, epochs: int) -> Iterator[Goal]:
    """Yield goals for changed tables, for idle ones, and for many of which a twentieth change."""
    single, several = (
        measure_one(
            folder / f"of-{count}", tables=count, changed_count=count, rows=rows, epochs=epochs
        )
        for count in (1, CHANGED)
    )
    yield Goal(f"{CHANGED} changed tables ÷ one", several.epoch_s / single.epoch_s, 1.5)
    few, many = (
        measure_one(
            folder / f"idle-{count}", tables=count, changed_count=1, rows=10, epochs=20, moves=False
        )
        for count in (1, TABLES)
    )
    yield Goal("an idle table, ms an epoch", _idle_ms(few, many), 0.01)
    changed_count = tables // 20
    largest = measure_one(
        folder / "most", tables=tables, changed_count=changed_count, rows=rows, epochs=epochs
    )
    name = f"{tables:,} tables, {changed_count:,} change"
    yield Goal(f"{name}: processor of the driver, s an epoch", largest.driver_s, 5)
    yield Goal(f"{name}: the plan, MB", largest.plan_size / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="what tables cost an epoch")
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--changed", dest="changed_count", type=int, default=CHANGED)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        for line in lines(Path(name), **vars(args)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
