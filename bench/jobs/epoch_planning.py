"""Measures the cost of planning an epoch, in three ways to cut a topic into epochs.

    python -m bench.jobs.epoch_planning [--epochs N] [--idle-seconds N] [--runs N]

`spark` is Spark's Kafka source. `python` is a streaming data source of PySpark that plans by the
job's own requests to the brokers. `own` is the job's `topic_stream`. Each passes its epochs to a
sink that reads nothing. The figures are processor milliseconds of Spark and all Python processes,
without the broker: for an epoch of three messages, and for a check that finds no message. ADR 27
has results (docs/adr/0027-the-job-plans-its-epochs.md).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from bench.jobs.spark_baseline import bench_session
from bench.process_time import ProcessorMeter
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.opening.job_folder_access import spark_folder_settings
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import SystemClock
from stream_app.epochs.stream.epoch_pace import FixedPace
from stream_app.fileio.store_registry import file_io_of
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.next_offsets import next_end
from stream_app.kafka.offset_client import OffsetClient, OffsetEnd
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.model.job_epoch import Offsets
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.topic_stream import EpochRules, JobGroup, TopicStream
from tests.support.brokers.kafka_broker import new_topic, produce

PARTITIONS = 3
_WAIT_S = 600.0
_IDLE_TRIGGER_S = 0.1
Stop = Callable[[], object]


def offsets_of(bootstrap: str, topic: str) -> OffsetClient:
    options = client_options(bootstrap, {}, load_librdkafka().features).options
    return OffsetClient(options, topics=(topic,))


class PlannedTopic(DataSource):
    """A source that PySpark's planning process cuts into epochs; options: bootstrap, topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        return "planned_topic"

    def schema(self) -> str:
        return "value BINARY"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
        return PlannedTopicReader(self.options["bootstrap"], self.options["topic"])


class PlannedTopicReader(DataSourceStreamReader):
    """A reader that limits an epoch itself, because PySpark 4.0 and 4.1 have no limits."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._cluster = offsets_of(bootstrap, topic)
        self._end: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(self._cluster.offsets_at(OffsetEnd.OLDEST))

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override, unused-ignore]  # noqa: N802
        start = self._end or self._cluster.offsets_at(OffsetEnd.OLDEST)
        self._end = next_end(start, self._cluster.offsets_at(OffsetEnd.NEWEST), 1)
        return dict(self._end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition((start, end))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        raise AssertionError("nobody reads")


def spark_epochs(messages: DataFrame, folder: Path, seconds: float) -> EpochCounter:
    counter = EpochCounter()
    writer = messages.writeStream.foreachBatch(lambda _, epoch: counter(epoch))
    writer = writer.option("checkpointLocation", f"file://{folder}")
    query = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds").start()
    counter.stop = query.stop
    return counter


def job_epochs(
    spark: SparkSession, bootstrap: str, topic: str, folder: Path, seconds: float
) -> EpochCounter:
    counter = EpochCounter()
    checkpoint = JobFolder(*file_io_of(str(folder), {}))

    def process_epoch(_: Sequence[OffsetRange], epoch: int) -> int:
        counter(epoch)
        return 1

    stream = TopicStream(
        rules=EpochRules(messages_max=1, drains=False),
        offset_reader=offsets_of(bootstrap, topic),
        epoch_log=EpochLog(checkpoint, can_reread=True),
        writer=EpochLogWriter(checkpoint),
        process_epoch=process_epoch,
        read_failure=lambda: None,
        jobs=JobGroup(spark, "bench"),
        clock=SystemClock(),
        pace=FixedPace(seconds),
    )
    stream.start()
    counter.stop = stream.stop
    return counter


class EpochCounter:
    """A sink that counts epochs."""

    def __init__(self) -> None:
        self.stop: Stop = lambda: None
        self._epochs = 0
        self._changed = threading.Condition()

    def __call__(self, _: int) -> None:
        with self._changed:
            self._epochs += 1
            self._changed.notify_all()

    def wait_for(self, epochs: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._epochs >= epochs, _WAIT_S)


def measure(epochs: int, idle_s: float, runs: int, folder: Path) -> Iterator[str]:
    spark = bench_session(2, **spark_folder_settings(str(folder), {}, {}))
    spark.dataSource.register(PlannedTopic)
    times_of: dict[str, list[tuple[float, float]]] = {}
    with (
        EmbeddedBroker(folder / "kafka") as broker,
        ProcessorMeter(os.getpid(), without=broker.pid) as meter,
    ):
        topic = new_topic(broker, partitions=PARTITIONS)
        for partition in range(PARTITIONS):  # an epoch takes one message of each partition
            produce(broker, topic, [(None, b"v")] * (epochs + 1), partition=partition)
        source = KafkaSource(
            bootstrap_servers=broker.bootstrap, topics=(topic,), max_offsets_per_trigger=1
        )
        options = {"bootstrap": broker.bootstrap, "topic": topic}
        planned_stream = spark.readStream.format("planned_topic").options(**options).load()
        starts: dict[str, Callable[[Path, float], EpochCounter]] = {
            "spark": lambda run_folder, interval_s: spark_epochs(
                source.read_stream(spark), run_folder, interval_s
            ),
            "python": lambda run_folder, interval_s: spark_epochs(
                planned_stream, run_folder, interval_s
            ),
            "own": lambda run_folder, interval_s: job_epochs(
                spark, broker.bootstrap, topic, run_folder, interval_s
            ),
        }
        for run in range(runs + 1):
            for name, start in starts.items():
                run_folder = folder / f"{name}-{run}"
                epoch_s = _epoch_s(start(run_folder, 0.0), epochs, meter)
                idle_check_s = _check_s(start(run_folder, _IDLE_TRIGGER_S), idle_s, meter)
                if run:  # the first run warms up
                    times_of.setdefault(name, []).append((epoch_s, idle_check_s))
    spark.stop()
    yield "| plans epochs | ms of the processor for an epoch | for a look that finds nothing |"
    yield "| --- | --- | --- |"
    for name, times in times_of.items():
        epoch_s, idle_check_s = (
            statistics.median(column) * 1000 for column in zip(*times, strict=True)
        )
        yield f"| {name} | {epoch_s:.1f} | {idle_check_s:.1f} |"


def _epoch_s(counter: EpochCounter, epochs: int, meter: ProcessorMeter) -> float:
    counter.wait_for(2)
    start_s = meter.seconds()
    counter.wait_for(epochs)
    seconds = meter.seconds() - start_s
    counter.stop()
    return seconds / (epochs - 2)


def _check_s(counter: EpochCounter, seconds: float, meter: ProcessorMeter) -> float:
    time.sleep(2.0)  # without the cost of the start
    start_s = meter.seconds()
    time.sleep(seconds)
    processor_s = meter.seconds() - start_s
    counter.stop()
    return processor_s / (seconds / _IDLE_TRIGGER_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.epoch_planning")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--idle-seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in measure(args.epochs, args.idle_seconds, args.runs, Path(folder)):
            print(line)


if __name__ == "__main__":
    main()
