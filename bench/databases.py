"""A job of 1,000 tables of which 50 change in an epoch: what a changed and an idle table cost.

    python -m bench.databases [--tables N] [--changed N] [--rows N] [--epochs N]

The job's own driver, splitter, tasks and commits run in this process, without Spark and without a
broker; plans are pickled for each task as Spark does it. Each line is a job: the same rows in one
table, in as many tables as change, and in those among many idle ones. Times are seconds of the
processor in an epoch. `look` is a look for finished compactions and upkeep between two epochs.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.config.tables_of_job import WholeDatabase
from stream_app.app.tables.database_tables import DatabaseTables
from stream_app.app.tables.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.clock import SystemClock
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.spark.epoch.epoch_plan import EpochPlan, EpochShape
from stream_app.spark.epoch.epoch_runner import Routed
from stream_app.spark.ingest.epoch_committer import EpochCommitter
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.epoch_writer import EpochWriter
from stream_app.spark.ingest.job_state import JobStateFile
from stream_app.spark.ingest.job_tables import HoldingTables
from stream_app.spark.ingest.quarantine_writer import QuarantineWriter
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport, TableJob
from tests.support.database_topic import creates
from tests.support.epoch_here import EpochHere, Parts
from tests.support.small_table import CompactHere

TABLES, CHANGED, ROWS, EPOCHS = 1000, 50, 20_000, 7
_TASKS = 2
"""That read, and as many that write: each gets the plan."""


class Silent:
    """Implements `TableListener`."""

    def opened(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Nobody listens."""

    def epoch(self, report: EpochReport) -> None:
        """Nobody listens."""

    def idle_commit(self, report: IdleReport) -> None:
        """Nobody listens."""


@dataclass
class Shipped(EpochHere):
    """Tasks in this process that get their plan as Spark's do.

    Attributes:
        plan_bytes: of the last plan.
        plan_s: seconds of the processor for pickling it and for unpickling it in each task.
    """

    plan_bytes: int = 0
    plan_s: list[float] = field(default_factory=list)

    def route(self, epoch: int, messages: Parts, plan: EpochPlan) -> Routed:
        routed = super().route(epoch, messages, self._shipped(plan))
        return Routed(routed.messages, lambda ready: routed.write(self._shipped(ready)))

    def _shipped(self, plan: EpochPlan) -> EpochPlan:
        began = time.process_time()
        data = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        for _ in range(_TASKS):
            shipped: EpochPlan = cloudpickle.loads(data)
        self.plan_bytes = len(data)
        self.plan_s.append(time.process_time() - began)
        return shipped


@dataclass
class DatabaseJob:
    """A job of a database with tables that change and tables that are idle."""

    folder: Path
    tables: int
    changed: int
    rows: int
    runner: Shipped = field(default_factory=Shipped)
    batch: EpochCommitter[Parts] = field(init=False)
    _sent: int = 0

    def __post_init__(self) -> None:
        self._spark("metadata", '{"id": "bench"}')
        sync = SyncConfig(warehouse=str(self.folder / "warehouse"), options={"bucket": "1"})
        database = WholeDatabase(source=SourceConfig(), sync=sync)
        checkpoint = Folder(str(self.folder / "checkpoint"), LocalFileIO())
        state = JobStateFile(checkpoint)

        def feed_of(name: str, table: FileStoreTable) -> TableFeed:
            return TableFeed(
                name=name,
                job=TableJob(table, CompactHere),
                format_of=lambda seen: job_pipeline(database, seen),
                quarantine=QuarantineWriter(None, 0),
                listener=Silent(),
            )

        made = DatabaseTables(
            tables=database, state=state, clock=SystemClock(),
            feed_of=feed_of, quarantine=lambda *_: None,
        )  # fmt: skip
        feeds = list(made.feeds(self._messages(range(self.tables), 1)).feeds)
        tables = HoldingTables(
            feeds,
            epoch_log=EpochLog(checkpoint, goes_back=False),
            state_file=state,
            now_ms=SystemClock().now_ms,
        )
        self.batch = EpochCommitter(
            EpochWriter(
                tables=tables,
                shape=EpochShape(tasks=_TASKS, splitter=made.splitter(feeds), isolates=True),
                runner=self.runner,
                clock=SystemClock(),
                newcomers=made,
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
        """Seconds of the processor; each epoch changes other tables."""
        first = number * self.changed
        changed = [(first + each) % self.tables for each in range(self.changed)]
        parts = self._messages(changed, self.rows // self.changed).combine_chunks().to_batches()
        end = json.dumps({"shop": {"0": number}})
        self._spark(f"offsets/{number}", f"v1\n{{}}\n{end}")
        began = time.process_time()
        self.batch(parts, number)
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


def measured(
    folder: Path, *, tables: int, changed: int, rows: int, epochs: int
) -> tuple[float, str]:
    """A job's seconds of an epoch (the median), and its line."""
    job = DatabaseJob(folder, tables, changed, rows)
    seconds = [job.epoch(number) for number in range(epochs)][2:]
    looks = [job.look() for _ in range(5)]
    epoch = statistics.median(seconds)
    plan = 2 * statistics.median(job.runner.plan_s[4:])
    return epoch, (
        f"{tables:>6} tables, {changed:>4} change: {epoch:7.3f} s an epoch, of which the plan "
        f"{plan:6.3f} s ({job.runner.plan_bytes / 1e6:.2f} MB), look {statistics.median(looks):.4f}"
        f" s, memory so far {memory_mb():.0f} MB"
    )


def lines(folder: Path, *, tables: int, changed: int, rows: int, epochs: int) -> Iterator[str]:
    """One job after the other, and what follows from them."""
    one, line = measured(folder / "one", tables=1, changed=1, rows=rows, epochs=epochs)
    yield line
    some, line = measured(
        folder / "some", tables=changed, changed=changed, rows=rows, epochs=epochs
    )
    yield line
    many, line = measured(folder / "many", tables=tables, changed=changed, rows=rows, epochs=epochs)
    yield line
    yield (
        f"{rows} rows in {changed} tables cost {some / one:.2f} × those in one; among {tables} "
        f"tables {many / one:.2f} ×. A changed table costs "
        f"{1000 * (some - one) / max(1, changed - 1):.1f} ms an epoch, an idle one "
        f"{1000 * (many - some) / max(1, tables - changed):.2f} ms"
    )


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
