"""Measures each step of ingest beside its limit, on one core.

    python -m bench.steps [--messages N] [--runs N] [--profile]

decode      Debezium JSON → columns           limit: pyarrow.json over the same bytes, nothing else
route       columns → a block for each bucket  limit: decode of the same messages (share of it)
write       blocks → data and changelog files  limit: pyarrow encodes the same files, nothing else
compaction  5 sorted runs → 1                  limit: pyarrow decodes and encodes the same, no merge

A step and its limit take turns in one process, and the ratio is that of their medians. `--profile`
prints the functions of `write` that take most of the processor's time, and then its ratio.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from bench.goal import Goal
from bench.processor_profile import print_profile
from bench.shop.shop_changes import (
    fresh_folder,
    message_batches,
    random_orders,
    shop_format,
    shop_schema,
)
from stream_app.format.arrow_schema import key_value_file_schema
from stream_app.format.binary_row import serialize_row
from stream_app.format.data_files.parquet_reader import numbered_batches
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer, table_write
from stream_app.table.opening import create_or_open
from stream_app.table.write.bucket_assigner import FixedBucketAssigner
from tests.support.files.flushed_files import flushed_files

RUNS_MERGED = 5
ROW_GROUP_ROWS = 250_000


@dataclass(frozen=True)
class Step:
    """One line of the table, with median times in seconds."""

    name: str
    rows: int
    size: int
    seconds: float
    limit_text: str
    limit_seconds: float
    goal: float
    cpu_ratio: float = math.nan
    """The ratio of processor seconds, which other work on the machine changes less."""

    @property
    def ratio(self) -> float:
        return self.seconds / self.limit_seconds

    def markdown(self) -> str:
        return (
            f"| {self.name} | {self.rows / self.seconds / 1e3:,.0f} "
            f"| {self.size / self.seconds / 1e6:,.0f} | {self.ratio:.2f} | {self.limit_text} "
            f"| ≤ {self.goal} |"
        )

    def line(self) -> str:
        return (
            f"{self.name:11} {self.rows / self.seconds / 1e3:9,.0f} k rows/s "
            f"{self.size / self.seconds / 1e6:7,.0f} MB/s   {self.ratio:5.2f} × {self.limit_text} "
            f"(goal ≤ {self.goal}; of the processor's time {self.cpu_ratio:.2f})"
        )


@dataclass(frozen=True)
class Times:
    """The median seconds of the clock, and of the processor in this process."""

    wall_s: float
    cpu_s: float


def in_turns(runs: int, *works: Callable[[], object]) -> list[Times]:
    """Return the times of some works that take turns, after one run that does not count."""
    times: list[list[tuple[float, float]]] = [[] for _ in works]
    for run in range(runs + 1):
        for index, work in enumerate(works):
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            work()
            if run:
                times[index].append((time.perf_counter() - wall_s, time.process_time() - cpu_s))
    return [Times(*map(statistics.median, zip(*runs, strict=True))) for runs in times]


def measure(messages: int, runs: int, folder: Path) -> list[Step]:
    pa.set_cpu_count(1)
    schema = shop_schema()
    batches = list(message_batches(messages))
    messages_size = sum(
        pc.sum(pc.binary_length(batch.column("value"))).as_py() for batch in batches
    )
    decode_format = shop_format(schema)
    json_lines = [_lines(batch) for batch in batches]
    read_options = pj.ReadOptions(use_threads=False, block_size=1 << 30)
    decoded_rows = [decode_format.decode(batch).changes.rows for batch in batches]
    parse_options = pj.ParseOptions(_message_schema(), unexpected_field_behavior="ignore")
    decode, parsing, routing = in_turns(
        runs,
        lambda: [decode_format.decode(batch) for batch in batches],
        lambda: [
            pj.read_json(pa.BufferReader(data), read_options, parse_options) for data in json_lines
        ],
        lambda: [
            part.serialize()
            for rows in decoded_rows
            for _, _, part in FixedBucketAssigner(schema).assign(rows)
        ],
    )
    changes = sum(rows.num_rows for rows in decoded_rows)
    changes_size = sum(rows.nbytes for rows in decoded_rows)
    steps = [
        Step(
            "decode",
            messages,
            messages_size,
            decode.wall_s,
            "parse only",
            parsing.wall_s,
            1.35,
            decode.cpu_s / parsing.cpu_s,
        ),
        Step(
            "route",
            changes,
            changes_size,
            routing.wall_s,
            "decode",
            decode.wall_s,
            0.15,
            routing.cpu_s / decode.cpu_s,
        ),
    ]
    return [
        *steps,
        _write_step(folder, decoded_rows, runs),
        _compact_step(folder, messages // 2, runs),
    ]


def measure_write(messages: int, runs: int, folder: Path, *, profile: bool = False) -> Step:
    """Measure the step `write` alone."""
    pa.set_cpu_count(1)
    decode_format = shop_format(shop_schema())
    decoded_rows = [decode_format.decode(batch).changes.rows for batch in message_batches(messages)]
    return _write_step(folder, decoded_rows, runs, profile=profile)


def goals(messages: int, runs: int, folder: Path) -> Iterator[Goal]:
    """Yield the goal for the step `write`, by the processor's time."""
    step = measure_write(messages, runs, folder)
    yield Goal("write ÷ encode", step.cpu_ratio, step.goal)


def _write_step(
    folder: Path, decoded_rows: list[pa.RecordBatch], runs: int, *, profile: bool = False
) -> Step:
    table = create_or_open(fresh_folder(folder, "write"), shop_schema())
    parts: dict[BucketId, list[pa.RecordBatch]] = {}
    for rows in decoded_rows:
        for partition, bucket, part in bucket_assigner(table).assign(rows):
            parts.setdefault(BucketId(partition, bucket), []).append(part)

    def write() -> list[BucketChange]:
        with table_write(table, next_sequence_number=0) as task:
            for bucket, blocks in parts.items():
                for block in blocks:
                    task.write(bucket, block)
            return task.prepare_commit()

    written_rows = [
        file_rows(table, message.bucket_id, file)
        for message in write()
        for file in message.written_files
    ]

    def encode_all() -> None:
        for rows in written_rows:
            encode(table, rows, folder)

    if profile:
        print_profile(write)
    writing, encoding = in_turns(runs, write, encode_all)
    changes = sum(rows.num_rows for rows in decoded_rows)
    size = sum(rows.nbytes for rows in decoded_rows)
    return Step(
        "write",
        changes,
        size,
        writing.wall_s,
        "encode only",
        encoding.wall_s,
        1.3,
        writing.cpu_s / encoding.cpu_s,
    )


def _compact_step(folder: Path, rows_of_run: int, runs: int) -> Step:
    """Measure a compaction of runs that overlap everywhere, with some keys in several runs."""
    table = create_or_open(fresh_folder(folder, "compact"), shop_schema())
    rng = np.random.default_rng(11)
    bucket = BucketId(serialize_row(("2026-01-01",), table.schema.partition_type.types), 0)
    files: list[DataFileMeta] = []
    for run in range(RUNS_MERGED):
        writer = bucket_writer(table, *bucket, next_sequence_number=run * 10_000_000)
        writer.write(random_orders(rng, rows_of_run, table.schema, ids=4 * rows_of_run))
        files += flushed_files(writer, *bucket).added_files
    request = CompactRequest(
        partition=bucket.partition,
        bucket=bucket.bucket,
        unit=CompactUnit(5, tuple(files), "bench"),
        drops_deletes=True,
        max_level=5,
    )
    result = compact_bucket(table, request)
    outputs = [file_rows(table, bucket, file) for file in result.added_files]

    def decode_and_encode() -> None:
        for file in files:
            file_rows(table, bucket, file)
        for rows in outputs:
            encode(table, rows, folder)

    merging, limits = in_turns(runs, lambda: compact_bucket(table, request), decode_and_encode)
    rows = sum(file.row_count for file in files)
    size = sum(file.file_size for file in files)
    return Step(
        "compaction",
        rows,
        size,
        merging.wall_s,
        "decode + encode",
        limits.wall_s,
        1.25,
        merging.cpu_s / limits.cpu_s,
    )


def file_rows(table: FileStoreTable, bucket: BucketId, file: DataFileMeta) -> pa.Table:
    """Decode a file, without a merge."""
    path = table.paths.data_file(*bucket, file)
    names = key_value_file_schema(table.schema, is_thin=False).names
    with pa.OSFile(path) as source:
        return pa.Table.from_batches(
            [batch for _, batch in numbered_batches(source, names, 65_536)]
        )


def encode(table: FileStoreTable, rows: pa.Table, folder: Path) -> None:
    """Encode a file's rows, without a sort."""
    schema = key_value_file_schema(table.schema, is_thin=False)
    rows = pa.Table.from_arrays(rows.columns, schema=schema)
    with pa.OSFile(str(folder / "encoded.parquet"), "wb") as sink:
        writer: pq.ParquetWriter = parquet_writer(sink, schema, table.options)
        for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
            writer.write_table(rows.slice(start, ROW_GROUP_ROWS))
        writer.close()


def _lines(batch: pa.RecordBatch) -> bytes:
    return b"\n".join(batch.column("value").to_pylist()) + b"\n"


def _message_schema() -> pa.Schema:
    image = pa.struct(
        [
            ("id", pa.int64()),
            ("customer", pa.string()),
            ("amount", pa.string()),
            ("status", pa.string()),
            ("updated_at", pa.int64()),
            ("dt", pa.string()),
        ]
    )
    return pa.schema([("before", image), ("after", image), ("op", pa.string())])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.steps")
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="of the step write alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        if args.profile:
            print(measure_write(args.messages, args.runs, Path(folder), profile=True).line())
            return
        for step in measure(args.messages, args.runs, Path(folder)):
            print(step.line())


if __name__ == "__main__":
    main()
