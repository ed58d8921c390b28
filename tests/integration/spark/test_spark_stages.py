"""The sources and the first stage of an epoch run on real Spark and a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch, schema_of_changes
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import Pipeline
from stream_app.epochs.stages.blocks import BlockKind, bad_records_of, task_addresses
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.task_errors import readable_error
from stream_app.errors import SourceError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.spark.jobs.dataframe_epochs import route_blocks
from stream_app.spark.stream.json_lines_source import JsonLinesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.engines.routed_messages import a_plan
from tests.support.jobs.ingest_process import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def run_epochs(messages: DataFrame, folder: Path, act: Callable[[DataFrame, int], None]) -> None:
    """A stream until it is drained."""
    writer = messages.writeStream.foreachBatch(act).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


class Collected:
    """Blocks of all epochs in the order in which the writing tasks got them."""

    def __init__(self, plan: EpochPlan) -> None:
        self.plan = plan
        self.changes: list[dict[str, Any]] = []
        self.bad_records: list[dict[str, Any]] = []
        self.counts = DecodeCounts()
        self.epochs = 0
        self.read_tasks: list[int] = []

    def __call__(self, messages: DataFrame, _: int) -> None:
        self.epochs += 1
        self.read_tasks.append(messages.rdd.getNumPartitions())
        schema = schema_of_changes(arrow_schema(self.plan.table_plans[0].table.schema.fields))
        tasks: dict[tuple[bytes, int], set[int]] = defaultdict(set)
        for row in route_blocks(messages, self.plan).mapInArrow(_numbered, _NUMBERED).collect():
            block = pa.py_buffer(bytes(row.block))
            if row.kind == BlockKind.BAD_RECORDS:
                self.bad_records += bad_records_of(bytes(row.block)).to_pylist()
            elif row.kind == BlockKind.COUNTS:
                self.counts = self.counts.plus(counts_of(bytes(row.block)))
            else:
                rows = pa.ipc.read_record_batch(block, schema)
                tasks[bytes(row.partition), row.bucket].add(row.spark_task)
                self.changes += rows.to_pylist()
        assert all(len(numbers) == 1 for numbers in tasks.values()), "a bucket has one task"

    def values(self, key: int) -> list[Any]:
        return [row["offset_"] for row in self.changes if row["k"] == key]


_NAMES = ["kind", "partition", "bucket", "block", "spark_task"]
_NUMBERED = "kind INT, partition BINARY, bucket INT, block BINARY, spark_task INT"


def _numbered(batches: Any) -> Any:
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        columns = [batch.column(name) for name in ("kind", "partition", "bucket", "block")]
        task = pa.array([context.partitionId()] * batch.num_rows, pa.int32())
        yield pa.RecordBatch.from_arrays([*columns, task], _NAMES)


def a_value(key: int, number: int) -> bytes:
    row = {"k": key, "p": f"day {key % 2}", "offset_": number}
    return json.dumps({"before": None, "after": row, "op": "c"}).encode()


@pytest.mark.parametrize("tasks", [1, 2, 7, 100])
def test_sparks_hash_partitioning_sends_an_address_to_its_task(
    spark: SparkSession, tasks: int
) -> None:
    addresses = task_addresses(tasks)
    rows = spark.createDataFrame([(a,) for a in addresses], "task INT").repartition(tasks, "task")
    where = {
        row.task: row.at for row in rows.selectExpr("task", "spark_partition_id() at").collect()
    }
    assert where == {address: task for task, address in enumerate(addresses)}


@pytest.mark.variant
@pytest.mark.kafka
@pytest.mark.usefixtures("spark_kafka_source")
def test_order_by_key_over_ranges_of_kafka_partitions_and_many_epochs(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path, seed: int
) -> None:
    """Several tasks read one partition, and a task reads it in several Arrow batches."""
    random = Random(seed)
    topic = new_topic(kafka_broker, partitions=2)
    want: dict[int, list[int]] = defaultdict(list)
    for partition in range(2):
        sent = []
        for number in range(700):
            key = random.randrange(10) * 2 + partition
            want[key].append(number)
            sent.append((None, a_value(key, number)))
        produce(kafka_broker, topic, sent, partition=partition)
    source = KafkaSource(
        bootstrap_servers=kafka_broker.bootstrap,
        topics=(topic,),
        max_offsets_per_trigger=400,
        min_partitions=7,
    )
    collected_rows = Collected(a_plan(block_bytes_max=2_000))
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "11")
    run_epochs(source.read_stream(session), tmp_path, collected_rows)
    assert collected_rows.epochs == 4
    assert max(collected_rows.read_tasks) >= 7
    assert {key: collected_rows.values(key) for key in want} == want
    assert collected_rows.counts.message_count == collected_rows.counts.change_count == 1400
    assert collected_rows.counts.last_offsets() == {topic: {"0": 699, "1": 699}}


@pytest.mark.kafka
@pytest.mark.usefixtures("spark_kafka_source")
def test_kafka_messages_have_all_columns(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = new_topic(kafka_broker)
    produce(kafka_broker, topic, [(b"k", b"v"), (b"n", None), (b"\xff", b"")])
    # The pattern must match the whole name, which is so for no other topic.
    produce(kafka_broker, new_topic(kafka_broker, name=f"{topic}.more"), [(b"other", b"v")])
    source = KafkaSource(bootstrap_servers=kafka_broker.bootstrap, topic_pattern=topic[:-1] + ".")
    got: list[pa.Table] = []
    messages = source.read_stream(spark)
    assert messages.columns == MESSAGE_SCHEMA.names
    run_epochs(messages, tmp_path, lambda batch, _: got.append(batch.toArrow()))
    table = pa.concat_tables(got).sort_by("offset")
    assert table.schema.types == MESSAGE_SCHEMA.types
    rows = table.drop_columns(["timestamp"]).to_pylist()
    assert rows == [
        {"topic": topic, "partition": 0, "offset": 0, "key": b"k", "value": b"v"},
        {"topic": topic, "partition": 0, "offset": 1, "key": b"n", "value": None},
        {"topic": topic, "partition": 0, "offset": 2, "key": b"\xff", "value": b""},
    ]


class FailsOnce:
    """A format whose first attempt at each task fails behind its first batch."""

    def __init__(self, inner: MessageFormat) -> None:
        self.inner = inner
        self.batches = 0

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        context = TaskContext.get()
        assert context is not None
        self.batches += 1
        if self.batches > 1 and context.attemptNumber() == 0:
            raise SourceError("the first attempt fails")
        return self.inner.decode(messages)


@pytest.mark.kafka
@pytest.mark.usefixtures("spark_kafka_source")
def test_a_task_that_is_done_again_gives_the_same_once(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = new_topic(kafka_broker)
    messages = [(b"k", a_value(number % 3, number)) for number in range(300)]
    produce(kafka_broker, topic, [*messages, (b"k", b"{"), (b"k", None)])
    source = KafkaSource(
        bootstrap_servers=kafka_broker.bootstrap, topics=(topic,), min_partitions=2
    )
    plan = a_plan(block_bytes_max=1)
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "40")
    part = plan.table_plans[0]
    failing = replace(part, pipeline=Pipeline(FailsOnce(part.pipeline)))
    collected_rows = Collected(replace(plan, table_plans={0: failing}))
    run_epochs(source.read_stream(session), tmp_path, collected_rows)
    assert [collected_rows.values(key) for key in range(3)] == [
        list(range(key, 300, 3)) for key in range(3)
    ]
    counts = collected_rows.counts
    assert (
        counts.message_count,
        counts.change_count,
        counts.bad_record_count,
        counts.skipped_count,
    ) == (302, 300, 1, 1)
    assert [
        (bad_record["offset"], bad_record["value"]) for bad_record in collected_rows.bad_records
    ] == [(300, b"{")]


def a_line(offset: int, *, key: int = 1, partition: int = 0) -> str:
    value = a_value(key, offset).decode()
    message = {"topic": "t", "partition": partition, "offset": offset, "key": "k", "value": value}
    return json.dumps(message) + "\n"


def test_files_are_read_by_offset_whatever_their_order(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Offsets of two partitions dealt to four files, and shuffled in each of them."""
    random = Random(seed)
    folder = tmp_path / "messages"
    folder.mkdir()
    files: list[list[str]] = [[] for _ in range(4)]
    for offset in range(400):
        for partition in range(2):
            random.choice(files).append(a_line(offset, key=partition, partition=partition))
    for number, lines in enumerate(files):
        random.shuffle(lines)
        (folder / f"{number}.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "other.txt").write_text("not read")
    plan = a_plan(tasks=3, sorts_messages=True)
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "37")
    collected_rows = Collected(plan)
    run_epochs(JsonLinesSource(path=str(folder)).read_stream(session), tmp_path, collected_rows)
    assert collected_rows.epochs == 1
    assert collected_rows.values(0) == collected_rows.values(1) == list(range(400))


@pytest.mark.variant
def test_files_of_any_age_come_a_few_at_a_time_and_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "with space é"
    folder.mkdir()
    for number in range(5):
        file = folder / f"{number}.jsonl"
        file.write_text(a_line(number))
        # A file a week older than the newest is left out by Spark's own default.
        os.utime(file, (1_700_000_000 + number * 864_000,) * 2)
    source = JsonLinesSource(path=str(folder), max_files_per_trigger=2)
    collected_rows = Collected(a_plan())
    run_epochs(source.read_stream(spark), tmp_path, collected_rows)
    assert collected_rows.epochs == 3
    assert collected_rows.values(1) == [0, 1, 2, 3, 4]
    (folder / "old.jsonl").write_text(a_line(9))
    os.utime(folder / "old.jsonl", (1_600_000_000,) * 2)
    run_epochs(source.read_stream(spark), tmp_path, collected_rows)
    assert collected_rows.values(1) == [0, 1, 2, 3, 4, 9]


def test_a_line_that_is_not_a_message_stops_the_stream_and_says_where(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "messages"
    folder.mkdir()
    (folder / "1.jsonl").write_text(a_line(0) + '{"topic": "t"}\n' + a_line(1))
    with pytest.raises(StreamingQueryException) as caught:
        run_epochs(
            JsonLinesSource(path=str(folder)).read_stream(spark), tmp_path, Collected(a_plan())
        )
    error = readable_error(caught.value)
    assert isinstance(error, SourceError)
    assert error.problem.endswith('{"topic": "t"}')
    assert error.where == f"{folder}/1.jsonl"


def test_epochs_run_in_the_pool_that_they_choose(spark: SparkSession, tmp_path: Path) -> None:
    """The local property is set in foreachBatch; the pools are those of fairscheduler.xml."""
    context = spark.sparkContext
    pools: list[str] = []

    def collect_batch(batch: DataFrame, epoch: int) -> None:
        context.setLocalProperty("spark.scheduler.pool", "ingest")
        context.setJobGroup(f"pool-test-{epoch}", "a job")
        batch.collect()
        pools.extend(pools_of(spark, f"pool-test-{epoch}"))

    rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    query = (
        rates.writeStream.foreachBatch(collect_batch)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    while not pools and query.isActive:
        query.awaitTermination(0.1)  # type: ignore[arg-type]
    query.stop()
    assert set(pools) == {"ingest"}
    assert context.getLocalProperty("spark.scheduler.pool") != "ingest", "of that thread only"
    weights = {
        name: context._jsc.sc().getPoolForName(name).get().weight()
        for name in ("ingest", "compaction")
    }
    assert weights == {"ingest": 2, "compaction": 1}


_STOPPED = """
import sys, tempfile, threading
from pyspark.sql import SparkSession
from stream_app.spark.driver.session import start_session
spark = start_session("stopped", {"spark.master": "local[1]"})
rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
running = threading.Event()
def block_batch(batch, epoch):
    running.set()
    wait = spark.sparkContext._jvm.java.util.concurrent.CountDownLatch(1)
    getattr(wait, "await")()
writer = rates.writeStream.foreachBatch(block_batch)
query = writer.option("checkpointLocation", tempfile.mkdtemp()).start()
running.wait()
query.stop()
print("stopped:", query.exception())
def fail_batch(batch, epoch):
    raise ValueError("long\\n" * 100_000)
query = rates.writeStream.foreachBatch(fail_batch).option("checkpointLocation", tempfile.mkdtemp())
try:
    query.start().awaitTermination()
except Exception as error:
    print("failed:", type(error).__name__)
"""


@pytest.mark.variant
def test_a_stop_and_a_long_error_do_not_overflow_the_stack(tmp_path: Path) -> None:
    """Without -Xss a stop overflows the stack of the stream's thread, in java.util.regex."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    environ.pop("PYSPARK_PYTHON", None)
    result = subprocess.run(
        [sys.executable, "-P", "-c", _STOPPED],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environ,
        timeout=300,
    )
    assert result.stdout.splitlines() == ["stopped: None", "failed: StreamingQueryException"]
    assert "StackOverflowError" not in result.stderr


def pools_of(spark: SparkSession, group: str) -> Sequence[str]:
    tracker, store = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc().statusStore()
    return [
        store.lastStageAttempt(stage).schedulingPool()
        for job in tracker.getJobIdsForGroup(group)
        if (job_info := tracker.getJobInfo(job)) is not None
        for stage in job_info.stageIds
    ]
