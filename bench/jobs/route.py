"""Measures the first stage of an epoch, Kafka → decoded → routed, piece by piece on real Spark.

    python -m bench.jobs.route [--messages N] [--epoch N] [--runs N] [--only A,B] [--set KEY=VALUE]

Each line adds one thing to the line above it: Spark reads the topic; the bytes reach Python;
pyarrow.json parses them (the limit of decoding); they are decoded; they are routed and shuffled.
`from_json` is Spark alone. A line also has the processor seconds for a million messages, of Spark
and its Python workers, but not of the broker. Other work on the machine hardly changes these.

`--set spark.…=…` and `--set kafka.…=…` try another setting.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql import DataFrame

from bench.jobs.spark_baseline import (
    Epoch,
    bench_session,
    drain,
    from_json_epoch,
    source_of,
    to_noop,
)
from bench.process_time import ProcessorMeter
from bench.shop.shop_changes import fresh_folder, shop_format, shop_schema
from bench.shop.shop_topic import TOPIC, fill_topic, write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings, TablePlan
from stream_app.spark.jobs.dataframe_epochs import route_blocks
from stream_app.table.opening import create_or_open

CORES = 2
_COUNT = "n LONG"
_ROW = pa.struct(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.string()),
        ("status", pa.string()),
        ("updated_at", pa.int64()),
        ("dt", pa.string()),
    ]
)
_MESSAGE = pa.schema([("before", _ROW), ("after", _ROW), ("op", pa.string())])


def _count(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], ["n"])


def _bytes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _count(sum(batch.num_rows for batch in batches))


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = 0
    options = pj.ParseOptions(_MESSAGE, unexpected_field_behavior="ignore")
    for batch in batches:
        data = pc.binary_join_element_wise(batch.column("value"), b"\n", b"").buffers()[2]
        read = pj.ReadOptions(use_threads=False, block_size=data.size + 1)
        count += pj.read_json(pa.BufferReader(data), read, options).num_rows
    yield _count(count)


def pieces(plan: EpochPlan) -> dict[str, Epoch]:
    decode_format = plan.table_plans[0].pipeline

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _count(sum(decode_format.decode(batch).changes.rows.num_rows for batch in batches))

    def routed(messages: DataFrame, _: int) -> None:
        to_noop(route_blocks(messages, plan))

    return {
        "from_json": from_json_epoch,
        "read": lambda messages, _: to_noop(messages),
        "bytes": lambda messages, _: to_noop(messages.mapInArrow(_bytes, _COUNT)),
        "parse": lambda messages, _: to_noop(messages.mapInArrow(_parse, _COUNT)),
        "decode": lambda messages, _: to_noop(messages.mapInArrow(decode, _COUNT)),
        "route": routed,
    }


@dataclass(frozen=True)
class Piece:
    """The medians of the runs: seconds of the clock, and of the processor."""

    name: str
    messages: int
    size: int
    clock_s: float
    processor_s: float

    def line(self) -> str:
        return (
            f"{self.name:10} {self.messages / self.clock_s / 1e3:6.0f} k/s "
            f"{self.size / self.clock_s / 1e6:5.0f} MB/s   processor "
            f"{self.processor_s / self.messages * 1e6:5.2f} s per million"
        )


def measure(
    messages: int, epoch: int, runs: int, names: list[str], settings: dict[str, str]
) -> Iterator[Piece]:
    kafka_options = {
        key.removeprefix("kafka."): value
        for key, value in settings.items()
        if key.startswith("kafka.")
    }
    spark_settings = {key: value for key, value in settings.items() if key.startswith("spark.")}
    buckets = settings.get("buckets", "2")
    schema = shop_schema(bucket=buckets)
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        table = create_or_open(fresh_folder(Path(folder), "table"), schema)
        table_plan = TablePlan(table=table, pipeline=shop_format(schema))
        plan = EpochPlan(table_plans={0: table_plan}, settings=EpochSettings(task_count=CORES))
        chosen_pieces = {
            name: piece for name, piece in pieces(plan).items() if not names or name in names
        }
        file = Path(folder) / "messages.parquet"
        size = write_messages(file, messages)
        with (
            EmbeddedBroker(Path(folder) / "kafka") as broker,
            ProcessorMeter(os.getpid(), without=broker.pid) as meter,
        ):
            spark = bench_session(CORES, **spark_settings)
            fill_topic(spark, broker, file)
            times_of: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen_pieces}
            for run in range(runs + 1):
                for name, piece in chosen_pieces.items():
                    source = source_of(broker.bootstrap, TOPIC, epoch, **kafka_options)
                    start_s = meter.seconds()
                    timing = drain(source.read_stream(spark), piece)
                    processor_s = meter.seconds() - start_s
                    if run:  # the first run warms up
                        times_of[name].append((timing.seconds, processor_s))
            spark.stop()
    for name, times in times_of.items():
        clock_s, processor_s = (statistics.median(column) for column in zip(*times, strict=True))
        yield Piece(name, messages, size, clock_s, processor_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.route")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--epoch", type=int, default=250_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in args.set)
    names = args.only.split(",") if args.only else []
    pieces_by_name = {}
    for piece in measure(args.messages, args.epoch, args.runs, names, settings):
        pieces_by_name[piece.name] = piece
        print(piece.line(), flush=True)
    if {"decode", "route", "from_json", "parse", "bytes"} <= pieces_by_name.keys():
        seconds_of = {name: piece.processor_s for name, piece in pieces_by_name.items()}
        print(
            f"route ÷ decode {seconds_of['route'] / seconds_of['decode']:.2f} "
            "of the processor's time"
        )
        rate_ratio = pieces_by_name["from_json"].clock_s / pieces_by_name["route"].clock_s
        print(f"route ÷ from_json {rate_ratio:.2f} of the rate")
        parse_s = seconds_of["parse"] - seconds_of["bytes"]
        print(f"all but parsing: {1 - parse_s / seconds_of['route']:.0%} of the stage")


if __name__ == "__main__":
    main()
