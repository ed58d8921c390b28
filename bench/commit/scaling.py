"""Measures the driver's work for a table of ten thousand buckets: memory, commits, requests.

    python -m bench.commit.scaling [--buckets N] [--files N] [--epochs N]

Snapshots and manifests are real, data files are made up. The job's own `StreamTableCommit` opens
the table and commits epochs that touch each bucket; compactions are decided by the job and end at
once. A second part simulates one bucket of 10 GB for its write amplification.
docs/reference/scaling.md has the figures, and what follows from them.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import pickle
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.commit.commits import COLUMNS, made_file
from bench.compact.compaction_simulation import FRESHNESS, simulated_bucket
from bench.compact.loads import MB, Load
from bench.goal import Goal
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup
from stream_app.clock import SystemClock
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings, TablePlan
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_row
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.spark.driver.session import start_session
from stream_app.spark.jobs.spark_compactions import SparkCompactionQueue
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.buckets.bucket_coordinator import read_live_buckets
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import EpochOutcome, StreamTableCommit
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.small_table import small_table

BUCKETS = 10_000
FILES = 20
"""The number of files of each bucket when the job opens the table."""
EPOCHS = 12
KEYS = 10**12
TOP_LEVEL = 5
PARTITION = serialize_row(["day 00000"], COLUMNS.types[:1])
FLUSH_SIZE = 400_000
_BUCKET_SIZE = 10_000 * MB
_WEEK_OF_MINUTES = 10_080
_COMPACTIONS = 300


@dataclass
class MadeFiles:
    """A source of metadata of files that do not exist."""

    rng: random.Random
    number: int = 0

    def flushed(self) -> DataFileMeta:
        """Return a file of level 0 that covers all keys."""
        return replace(self._file(0, (0, KEYS)), file_size=FLUSH_SIZE)

    def bucket(self, files: int) -> tuple[DataFileMeta, ...]:
        """Return a sorted run of the highest level."""
        step = KEYS // files
        return tuple(
            self._file(TOP_LEVEL, (index * step, (index + 1) * step - 1)) for index in range(files)
        )

    def compacted(self, request: CompactRequest) -> DataFileMeta:
        """Return one file in place of a unit's input files."""
        size = sum(file.file_size for file in request.unit.files)
        output = self._file(request.unit.output_level, (0, KEYS))
        return replace(output, file_size=size)

    def _file(self, level: int, keys: tuple[int, int]) -> DataFileMeta:
        self.number += 1
        return made_file(self.number, level, keys, self.rng)


@dataclass
class EndsAtOnce:
    """A `CompactExecutor` whose compactions end at once."""

    files: MadeFiles
    request_bytes: list[int] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Return a future that has its change already, for the next epoch."""
        self.request_bytes.append(len(pickle.dumps(request)))
        future: Future[BucketChange] = Future()
        added_files = (self.files.compacted(request),)
        future.set_result(request.change(removed_files=request.unit.files, added_files=added_files))
        return future


def build(location: str, buckets: int, files: int) -> None:
    """Create a table whose buckets have one sorted run of the highest level each."""
    schema = new_table_schema(
        columns=COLUMNS,
        primary_keys=("dt", "k"),
        partition_keys=("dt",),
        options={"bucket": str(buckets), "changelog-producer": "input"},
        time_ms=1_767_225_600_000,
    )
    table = create_or_open(location, schema, SystemClock())
    made_files = MadeFiles(random.Random(1))
    commit = FileStoreCommit(table, CommitHistory(table, "filled", None))
    changes = [
        BucketChange(partition=PARTITION, bucket=number, added_files=made_files.bucket(files))
        for number in range(buckets)
    ]
    commit.commit_appends(ManifestCommittable(identifier=0, changes=tuple(changes)))


@dataclass(frozen=True, slots=True)
class EpochCost:
    """The driver's cost of one epoch, without Spark's part."""

    processor_s: float
    requests: Mapping[str, int]
    bytes_read: int
    compactions: int


def epochs(
    commit: StreamTableCommit,
    made_files: MadeFiles,
    touched_buckets: Sequence[Sequence[int]],
    first: int = 0,
) -> Iterator[EpochCost]:
    """Commit epochs that touch these buckets, and yield the cost of each."""
    io = commit.table.file_io
    assert isinstance(io, CountingFileIO)
    for epoch, buckets in enumerate(touched_buckets, first):
        changes = [
            BucketChange(
                partition=PARTITION,
                bucket=number,
                added_files=(made_files.flushed(),),
                changelog_files=(made_files.flushed(),),
            )
            for number in buckets
        ]
        io.operations.clear()
        io.read.clear()
        start_s = time.process_time()
        commit.follow_and_wait()
        outcome: EpochOutcome = commit.commit_epoch(epoch, changes)
        processor_s = time.process_time() - start_s
        requests = Counter(operation for operation, _ in io.operations)
        yield EpochCost(processor_s, requests, sum(io.read.values()), len(outcome.compactions))


def plan_size(table: FileStoreTable) -> int:
    """Return the size of an epoch's plan, which each of its tasks gets, in bytes."""
    setup = FormatSetup(
        columns=table.schema.fields,
        arrow_schema=arrow_schema(table.schema.fields),
        primary_keys=table.schema.primary_keys,
        options={},
        keeps_update_before=True,
    )
    table_plan = TablePlan(table=table, pipeline=format_pipeline("debezium-json", setup))
    return len(
        pickle.dumps(EpochPlan(table_plans={0: table_plan}, settings=EpochSettings(task_count=1)))
    )


def built(folder: Path, buckets: int, files: int) -> FileStoreTable:
    """Build a table, and return it with a file system that counts requests."""
    location = f"{folder}/bench.db/t"
    # Another process builds the table, so that this one has only the job's memory.
    builder = multiprocessing.get_context("spawn").Process(
        target=build, args=(location, buckets, files)
    )
    builder.start()
    builder.join()
    assert builder.exitcode == 0
    table = open_file_store_table(location)
    return FileStoreTable(table.location, table.schema, CountingFileIO(), table.clock)


def held_size(folder: Path, buckets: int, files: int) -> float:
    """Return the driver's memory for each file after an epoch of the table, in bytes."""
    table, made_files = built(folder, buckets, files), MadeFiles(random.Random(2), number=10**7)
    memory = _resident()
    commit = StreamTableCommit(table, "bench", EndsAtOnce(made_files))
    list(epochs(commit, made_files, [range(buckets // 100)]))
    gc.collect()
    return (_resident() - memory) / (buckets * files)


def driver_lines(folder: Path, buckets: int, files: int, count: int) -> Iterator[str]:
    """Yield lines about the driver's memory and time."""
    table = built(folder, buckets, files)
    live = buckets * files
    latest = table.snapshots.latest()
    assert latest is not None
    manifests = FileStoreScan(table).manifests(latest)
    manifests_size = sum(manifest.file_size for manifest in manifests)
    yield f"table: {buckets:,} buckets, {live:,} files, {len(manifests)} manifests"
    yield f"manifests: {manifests_size / live:.0f} B a file"
    made_files = MadeFiles(random.Random(2), number=10 * live)
    executor = EndsAtOnce(made_files)
    memory, start_s = _resident(), time.process_time()
    commit = StreamTableCommit(table, "bench", executor)
    yield f"opening the table: {1e6 * (time.process_time() - start_s) / live:.1f} µs a file"
    rng = random.Random(3)
    touched_buckets = [sorted(rng.sample(range(buckets), buckets // 100)) for _ in range(count)]
    first, *later_epochs = epochs(commit, made_files, touched_buckets)
    gc.collect()
    held_b = _resident() - memory
    yield f"first epoch: {1e6 * first.processor_s / live:.1f} µs a file of the table"
    yield f"held then: {held_b / live:.0f} B a file, {held_b / 1000 / buckets:.1f} kB a bucket"
    yield f"epoch of a hundredth of the buckets: {_median(later_epochs):.3f} s of the processor"
    costs = list(epochs(commit, made_files, [range(buckets)] * count, count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield f"most memory of the process: {peak / 1e6:.0f} MB"
    yield from _epoch_lines(costs, buckets)
    change = BucketChange(
        partition=PARTITION,
        bucket=1,
        added_files=(made_files.flushed(),),
        changelog_files=(made_files.flushed(),),
    )
    yield f"result of a bucket: {len(pickle.dumps(change))} B"
    yield f"request of a compaction: {statistics.median(executor.request_bytes):.0f} B"
    yield f"plan of an epoch: {plan_size(table)} B"


def _median(costs: Sequence[EpochCost]) -> float:
    return statistics.median(cost.processor_s for cost in costs)


def _epoch_lines(costs: Sequence[EpochCost], buckets: int) -> Iterator[str]:
    seconds = [cost.processor_s for cost in costs]
    yield (
        f"epoch of all buckets: {_median(costs):.2f} s of the processor, "
        f"longest {max(seconds):.2f} s; {1e6 * statistics.mean(seconds) / buckets:.0f} µs a bucket"
    )
    request_counts = [sum(cost.requests.values()) for cost in costs]
    yield (
        f"requests of an epoch: {statistics.mean(request_counts):.1f}, most {max(request_counts)} "
        f"({', '.join(f'{key} {number}' for key, number in sorted(costs[-1].requests.items()))})"
    )
    compactions = statistics.mean(cost.compactions for cost in costs)
    yield f"compactions of an epoch: {compactions:,.0f}, {compactions / buckets:.3f} a bucket"
    yield f"read of the table: {statistics.mean(cost.bytes_read for cost in costs) / 1e6:.2f} MB"


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize()


def amplification(
    options: Mapping[str, object], flushes: int, freshness: int | None = None
) -> tuple[float, float]:
    """Return the bytes written for each flushed byte, and the compactions for each flush.

    The simulated bucket has 10 GB.
    """
    load = Load("updates", FLUSH_SIZE, keys_size=_BUCKET_SIZE, interval_s=60.0)
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        bucket = simulated_bucket(Path(folder), load, options)
        if freshness is not None:
            bucket.coordinator.adapt(PolicyBounds(freshness))
        bucket.model.load = replace(load, flush_size=10 * _BUCKET_SIZE)
        bucket.flush()  # the content of the bucket before the simulation
        bucket.model.load = load
        earlier_flushed, earlier_written = bucket.flushed, bucket.executor.bytes_written
        earlier_count = bucket.executor.reasons.total()
        for _ in range(flushes):
            bucket.flush()
        flushed_bytes = bucket.flushed - earlier_flushed
        rewritten_bytes = bucket.executor.bytes_written - earlier_written
        compactions = bucket.executor.reasons.total() - earlier_count
    return 1 + rewritten_bytes / flushed_bytes, compactions / flushes


def compaction_line(folder: Path) -> str:
    """Return a line about the cost of one small compaction."""
    own_ms, shared_ms = compaction_ms(folder)
    return (
        f"a small compaction: {own_ms:.1f} ms of the driver's and the executor's JVM as a Spark "
        f"job of its own, {shared_ms:.2f} ms in a shared one"
    )


def goals(folder: Path, buckets: int, files: int) -> Iterator[Goal]:
    """Yield the goals for a small compaction in a shared job, and for the driver's memory."""
    yield Goal("a small compaction in a shared Spark job, ms", compaction_ms(folder)[1], 1)
    yield Goal("held by the driver, kB a file", held_size(folder, buckets, files) / 1000, 0.3)


def compaction_ms(folder: Path) -> tuple[float, float]:
    """Return the time of a small compaction as a separate Spark job, and in a shared job."""
    spark = start_session("scaling", {"spark.master": "local[1]"})
    gateway: Any = spark.sparkContext
    jvm_process = gateway._gateway.proc.pid
    small = small_table(folder / "small", "k BIGINT, v STRING", ("k",), bucket=str(_COMPACTIONS))
    for text in ("old", "new"):
        rows = ({"k": key, "v": text} for key in range(20 * _COMPACTIONS))
        small.commit(*(("+I", row) for row in rows))
    requests = [
        CompactRequest(
            partition=partition,
            bucket=bucket,
            unit=CompactUnit(5, live.files, "bench"),
            drops_deletes=True,
            max_level=5,
        )
        for (partition, bucket), live in read_live_buckets(
            small.table, small.table.snapshots.latest(), None
        ).items()
    ]
    compactions = SparkCompactionQueue(spark, 1)

    def compact_alone() -> None:
        for request in requests:
            compactions.submit(small.table, request).result()

    def compact_together() -> None:
        for future in [compactions.submit(small.table, request) for request in requests]:
            future.result()

    def cost_ms(work: Callable[[], None]) -> float:
        start_s = _processor_s(jvm_process) + time.process_time()
        work()
        return 1000 * (_processor_s(jvm_process) + time.process_time() - start_s) / len(requests)

    compact_alone()
    costs = [(cost_ms(compact_alone), cost_ms(compact_together)) for _ in range(3)]
    compactions.close()
    spark.stop()
    own_ms, shared_ms = (statistics.median(times) for times in zip(*costs, strict=True))
    return own_ms, shared_ms


def _processor_s(process: int) -> float:
    """Return a process's processor time, without that of its children."""
    words = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def lines(folder: Path, buckets: int, files: int, count: int) -> Iterator[str]:
    """Yield all measured figures of docs/reference/scaling.md."""
    yield from driver_lines(folder, buckets, files, count)
    yield compaction_line(folder)
    for trigger in (5, 10, 20):
        options = {"num-sorted-run.compaction-trigger": trigger}
        factor, compactions = amplification(options, _WEEK_OF_MINUTES)
        yield (
            f"a bucket of 10 GB, a week, trigger {trigger}: "
            f"writes × {factor:.1f}, {compactions:.2f} compactions a flush"
        )
    for levels in (6, 21):
        options = {"num-levels": levels}
        factor, compactions = amplification(options, _WEEK_OF_MINUTES, FRESHNESS)
        yield (
            f"a bucket of 10 GB, a week, compaction-policy = auto, {levels} levels: "
            f"writes × {factor:.1f}, {compactions:.2f} compactions a flush"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commit.scaling")
    parser.add_argument("--buckets", type=int, default=BUCKETS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.buckets, args.files, args.epochs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
