"""Measures the read of one key of a compacted table, which has a row or none.

    python -m bench.read.one_key [--rows N]

The bench prints for each case the shortest seconds of the processor and of the clock, of five reads
in one process after a first read. The table has seven columns, four buckets and one sorted run in
each.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import pyarrow as pa

import stream_app
from bench.compact.compaction import BUCKET
from bench.read.reading_table import CompactionHere
from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.bucket_hash import bucket_of
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files

BUCKETS = 4
BATCH_ROWS = 500_000
READS = 5
COLUMNS = "k BIGINT, a DOUBLE, b STRING, c INT, d TIMESTAMP(6), e BIGINT, f STRING"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        path = f"{folder}/one-key"
        _write(path, rows)
        for name, key in (("there", rows), ("not there", rows + 1)):
            processor_s, clock_s = _shortest_seconds(path, key)
            print(
                f"one key of {rows:,} rows, {name}: {processor_s:.3f} s, "
                f"by the clock {clock_s:.3f} s"
            )


def _shortest_seconds(path: str, key: int) -> tuple[float, float]:
    seconds = [_seconds(path, key) for _ in range(1 + READS)][1:]
    return min(processor_s for processor_s, _ in seconds), min(clock_s for _, clock_s in seconds)


def _seconds(path: str, key: int) -> tuple[float, float]:
    processor_start_s, start_s = time.process_time(), time.perf_counter()
    batches = list(stream_app.open_table(path).read(where=f"k = {key}", threads=1))
    seconds = time.process_time() - processor_start_s, time.perf_counter() - start_s
    assert sum(batch.num_rows for batch in batches) == 1 - key % 2  # keys are even
    return seconds


def _write(path: str, rows: int) -> None:
    schema = new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": str(BUCKETS), "write-buffer-size": "1 gb"},
        time_ms=0,
    )
    table = create_or_open(path, schema, SystemClock())
    partition, key_types = BUCKET[0], table.schema.fields.project(("k",)).types
    writers = [
        bucket_writer(table, partition, bucket, next_sequence_number=0) for bucket in range(BUCKETS)
    ]
    rng = np.random.default_rng(0)
    for first in range(0, rows, BATCH_ROWS):
        batch = _batch(table, rng, np.arange(first, min(first + BATCH_ROWS, rows)) * 2)
        buckets = bucket_of([batch.column("k")], key_types, BUCKETS)
        for bucket, writer in enumerate(writers):
            writer.write(batch.take(pa.array(np.flatnonzero(buckets == bucket))))
    changes = [flushed_files(writer, partition, number) for number, writer in enumerate(writers)]
    StreamTableCommit(table, "bench", CompactionHere(table)).commit_epoch(0, changes)


def _batch(table: FileStoreTable, rng: np.random.Generator, keys: np.ndarray) -> pa.RecordBatch:
    count = len(keys)
    columns = [
        pa.array(np.zeros(count, np.int8)),
        pa.array(keys),
        pa.array(rng.random(count)),
        pa.array(rng.integers(0, 10**7, count).astype(str)).cast(pa.string()),
        pa.array(rng.integers(0, 1000, count).astype(np.int32)),
        pa.array(rng.integers(17 * 10**14, 176 * 10**13, count), pa.timestamp("us")),
        pa.array(rng.integers(0, 1 << 40, count)),
        pa.array(rng.choice(np.array(["new", "paid", "sent"]), count)).cast(pa.string()),
    ]
    return pa.RecordBatch.from_arrays(
        columns, [VALUE_KIND, *arrow_schema(table.schema.fields).names]
    )


if __name__ == "__main__":
    main()
