"""Measures ingest, Kafka → table, beside Spark alone that reads and parses the same topic.

    python -m bench.jobs.ingest [--messages N] [--epoch N] [--runs N]

Both run in their own processes, `--runs` times in turns, with equal cores, poll sizes and epochs.
Both times include Spark's warm-up, but not its start. Spark alone: Kafka → from_json → noop sink.
Ingest: changelog input, compaction on. Goal: ingest ≥ 1.7 × the rate of Spark alone.

The processor seconds are those of the process and all below it. The cost of one more million
messages is the slope between half of the messages and all, without start and warm-up. Goal: 3.5 µs
a message.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.goal import Goal
from bench.process_time import run_metered
from bench.shop.shop_orders import COLUMNS
from bench.shop.shop_topic import PARTITIONS, TOPIC, fill_topic, write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.launch.jars import installed_spark_version, spark_kafka_jars
from stream_app.spark.driver.session import launch_settings, start_session
from stream_app.spark.stream.kafka_source import KafkaSource

GOAL = 1.7
SLOPE_GOAL = 3.5
"""Processor microseconds for one more message."""
PROCESSOR_GOAL = 1.0
LOOKUP_GOAL = 0.8
CORES = 2
ARMS: Mapping[str, tuple[str, dict[str, str]]] = {
    "Spark alone": ("alone", {}),
    "ingest": ("ours", {}),
}
WITH_LOOKUP = {**ARMS, "lookup": ("ours", {"changelog": "lookup"})}
PARTS = ("wait_s", "read_s", "decode_s", "route_s", "write_s")
_PARSED = (
    "before struct<id:bigint,customer:string,amount:string,status:string,updated_at:bigint,"
    "dt:string>, after struct<id:bigint,customer:string,amount:string,status:string,"
    "updated_at:bigint,dt:string>, op string, ts_ms bigint"
)


@dataclass(frozen=True)
class IngestNumbers:
    """The seconds of each arm.

    Attributes:
        rates: messages a second, one for each run.
        processor_s: the processor seconds for half of the messages and for all, a pair for each
            run.
    """

    messages: int
    message_size: float
    rates: Mapping[str, list[float]]
    processor_s: Mapping[str, list[tuple[float, float]]]
    last_run: dict[str, Any]

    def ratio(self, arm: str, base: str) -> float:
        """Return the ratio of two arms' median rates."""
        return statistics.median(self.rates[arm]) / statistics.median(self.rates[base])

    def slope(self, arm: str) -> float:
        """Return the processor seconds for one more million messages, the median of the runs."""
        more_millions = (self.messages - self.messages // 2) / 1e6
        return statistics.median(
            (all_s - half_s) / more_millions for half_s, all_s in self.processor_s[arm]
        )

    @property
    def processor_ratio(self) -> float:
        return self.slope("ingest") / self.slope("Spark alone")

    def lines(self) -> list[str]:
        lines = [f"messages of {self.message_size:.0f} bytes, {CORES} cores"]
        for name, rates in self.rates.items():
            rate_texts = ", ".join(
                f"{rate:,.0f}/s ({rate * self.message_size / 1e6:.0f} MB/s)" for rate in rates
            )
            lines.append(f"  {name:12} {rate_texts}")
            pairs = ", ".join(
                f"{half_s:.1f} s → {all_s:.1f} s" for half_s, all_s in self.processor_s[name]
            )
            lines.append(
                f"  {'':12} processor, half of the messages → all: {pairs}; "
                f"{self.slope(name):.2f} s for one more million"
            )
        lines.append(
            f"  ingest ÷ Spark alone: {self.ratio('ingest', 'Spark alone'):.2f} (goal ≥ {GOAL})"
        )
        lines.append(
            f"  processor for one more million, ingest ÷ Spark alone: {self.processor_ratio:.2f}"
        )
        lines.append(f"  last run: {self.last_run}")
        return lines


def measure(
    messages: int,
    epoch: int,
    runs: int,
    folder: Path,
    arms: Mapping[str, tuple[str, dict[str, str]]] = ARMS,
) -> IngestNumbers:
    """Fill two topics, one with half of the messages, and let each arm read both."""
    file, half_file = folder / "messages.parquet", folder / "half.parquet"
    size = write_messages(file, messages)
    write_messages(half_file, messages // 2)
    rates: dict[str, list[float]] = {name: [] for name in arms}
    processor_s: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    result: dict[str, Any] = {}
    with (
        EmbeddedBroker(folder / "kafka") as broker,
        EmbeddedBroker(folder / "kafka-of-half") as broker_of_half,
    ):
        run_apart("fill", broker, folder, "fill", epoch, {"messages": str(file)})
        run_apart("fill", broker_of_half, folder, "fill-half", epoch, {"messages": str(half_file)})
        for run in range(runs):
            for name, (mode, options) in arms.items():
                run_name = f"{name.replace(' ', '-')}-{run}"
                half_result = run_apart(
                    mode, broker_of_half, folder, f"half-{run_name}", epoch, options
                )
                result = run_apart(mode, broker, folder, run_name, epoch, options)
                rates[name].append(messages / result["s"])
                processor_s[name].append((half_result["processor_s"], result["processor_s"]))
    return IngestNumbers(messages, size / messages, rates, processor_s, result)


def goals(messages: int, epoch: int, runs: int, folder: Path) -> Iterator[Goal]:
    """Yield goals for the rates, beside Spark alone and with lookups, and for the slope."""
    numbers = measure(messages, epoch, runs, folder, WITH_LOOKUP)
    ratio = numbers.ratio("ingest", "Spark alone")
    yield Goal("ingest ÷ Spark alone, by the clock", ratio, GOAL, at_least=True)
    name = "processor of one more million messages, ingest ÷ Spark alone"
    yield Goal(name, numbers.processor_ratio, PROCESSOR_GOAL)
    yield Goal("processor of one more message, µs", numbers.slope("ingest"), SLOPE_GOAL)
    lookup_ratio = numbers.ratio("lookup", "ingest")
    yield Goal("lookup ÷ input, by the clock", lookup_ratio, LOOKUP_GOAL, at_least=True)


def run_apart(
    mode: str,
    broker: EmbeddedBroker,
    folder: Path,
    name: str,
    epoch: int,
    extra: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run once in another process: `fill` the topic, Spark `alone`, or `ours`.

    `processor_s` of the result are the seconds of the whole process, from its start to its end.
    """
    job = {"mode": mode, "folder": str(folder / name), "epoch": epoch, **(extra or {})}
    job["bootstrap"] = broker.bootstrap
    output, timeline = run_metered(
        [sys.executable, "-m", "bench.jobs.ingest", "--worker", json.dumps(job)]
    )
    last_line = output.strip().splitlines()[-1:]
    return {**(json.loads(last_line[0]) if last_line else {}), "processor_s": timeline.total}


_BOTH_COMPILERS = "-XX:TieredStopAtLevel=4"
"""Java's default. Spark alone parses in the JVM, and the second compiler makes faster code."""


def _session(java: str = "") -> Any:
    settings = {"spark.master": f"local[{CORES}]", "spark.driver.memory": "2g"}
    jars = spark_kafka_jars(installed_spark_version())
    launch = launch_settings(settings, jars=jars)
    launch["spark.driver.extraJavaOptions"] += f" -Dlog4j2.level=ERROR {java}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        " ".join(f'--conf "{key}={value}"' for key, value in launch.items()) + " pyspark-shell"
    )
    return start_session("bench", settings)


def _source(job: dict[str, Any]) -> KafkaSource:
    return KafkaSource(
        bootstrap_servers=job["bootstrap"],
        topics=(TOPIC,),
        max_offsets_per_trigger=job["epoch"],
        min_partitions=PARTITIONS,
    )


def run_worker(job: dict[str, Any]) -> dict[str, Any]:
    """Run once in this process, which `run_apart` has started."""
    if job["mode"] == "ours":
        return _ingest(job)
    spark = _session(_BOTH_COMPILERS)
    if job["mode"] == "fill":
        broker = type("Broker", (), {"bootstrap": job["bootstrap"]})()
        fill_topic(spark, broker, Path(job["messages"]))
        return {}
    return _parse_alone(spark, job)


def _parse_alone(spark: Any, job: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql import functions as F

    def parse(batch: Any, _: int) -> None:
        text = F.col("value").cast("string")
        parsed_frame = batch.select("partition", "offset", F.from_json(text, _PARSED).alias("v"))
        parsed_frame.select("partition", "offset", "v.*").write.format("noop").mode(
            "overwrite"
        ).save()

    messages = _source(job).read_stream(spark)
    start_s = time.perf_counter()
    query = (
        messages.writeStream.foreachBatch(parse)
        .option("checkpointLocation", job["folder"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"s": time.perf_counter() - start_s}


def write_conf(job: dict[str, Any]) -> Path:
    """Write the job's configuration into its folder, and return the file."""
    folder = Path(job["folder"])
    conf = folder / "job.toml"
    conf.write_text(
        f"""\
[source]
bootstrap-servers = "{job["bootstrap"]}"
topics = ["{TOPIC}"]
max-offsets-per-trigger = {job["epoch"]}
min-partitions = {PARTITIONS}
reader = "{job.get("reader", "native")}"
[table]
warehouse = "{folder}/warehouse"
database = "shop"
name = "orders"
columns = "{COLUMNS}"
primary-keys = ["dt", "id"]
partition-keys = ["dt"]
[table.options]
{job.get("options", "bucket = 2")}
changelog-producer = "{job.get("changelog", "input")}"
[stream]
checkpoint = "{folder}/checkpoint"
{job.get("pace", 'trigger = "availableNow"')}
{job.get("stream", "")}
[spark]
"spark.master" = "local[{CORES}]"
"spark.driver.memory" = "2g"
"""
    )
    return conf


def _ingest(job: dict[str, Any]) -> dict[str, Any]:
    """Run the job, and return the seconds from its start to the last commit, and other figures."""
    from stream_app.app.config.app_config import load_config
    from stream_app.app.submit import ingest_main
    from stream_app.app.submit.job_settings import job_settings

    folder = Path(job["folder"])
    folder.mkdir(parents=True)
    conf = write_conf(job)
    _session()
    events = folder / "events.jsonl"
    from stream_app.clock import SystemClock

    ingest_main.run(job_settings(load_config(conf, [], {}), events), SystemClock())
    events_of_run = [json.loads(line) for line in events.read_text().splitlines()]
    start_ms = next(event["time_ms"] for event in events_of_run if event["event"] == "started")
    epochs = [event for event in events_of_run if event["event"] == "epoch"]
    compactions = [
        snapshot
        for event in events_of_run
        for snapshot in event.get("snapshots", ())
        if snapshot["kind"] == "COMPACT"
    ]
    return {
        "s": (epochs[-1]["time_ms"] - start_ms) / 1000,
        "drained_s": (events_of_run[-1]["time_ms"] - start_ms) / 1000,
        "epochs": [round(sum(event[part] for part in PARTS), 3) for event in epochs],
        "commit_s": [event["commit_s"] for event in epochs],
        "changes": sum(event["changes"] for event in epochs),
        "bytes": sum(event["bytes"] for event in epochs),
        "compact_snapshots": len(compactions),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.ingest")
    parser.add_argument("--messages", type=int, default=1_500_000)
    parser.add_argument("--epoch", type=int, default=250_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(run_worker(json.loads(args.worker))))
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        numbers = measure(args.messages, args.epoch, args.runs, Path(folder))
    for line in numbers.lines():
        print(line)


if __name__ == "__main__":
    main()
