"""Makes the table of `bench.read.reading`: 20 columns, four buckets, five overlapping runs in each.

A sorted run is an epoch of random keys. Four of ten keys are in another run too.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.compact.compaction import BUCKET, random_rows
from bench.shop.shop_changes import fresh_folder
from stream_app.format.bucket_hash import bucket_of
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files

BUCKETS = 4
RUNS = 5
KEY_SPACE = 2
"""The number of possible keys for each row of the table."""
_TYPES = ("BIGINT", "DOUBLE", "STRING", "INT", "TIMESTAMP(6)")
COLUMNS = ("k BIGINT", *(f"v{number} {_TYPES[number % len(_TYPES)]}" for number in range(19)))


@dataclass(frozen=True)
class CompactionHere:
    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        future: Future[BucketChange] = Future()
        future.set_result(compact_bucket(self.table, request))
        return future


def runs_table(folder: Path, rows: int) -> FileStoreTable:
    """Make a table with these rows, in `RUNS` runs that are not compacted."""
    schema = new_table_schema(
        columns=parse_columns(", ".join(COLUMNS)),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": str(BUCKETS), "num-sorted-run.compaction-trigger": "100"},
        time_ms=1,
    )
    table = create_or_open(fresh_folder(folder, "runs"), schema)
    commit = StreamTableCommit(table, "bench", CompactionHere(table))
    rng = np.random.default_rng(7)
    for epoch in range(RUNS):
        next_sequence_number = commit.follow_and_wait()
        commit.commit_epoch(epoch, list(_bucket_changes(table, rng, rows, next_sequence_number)))
    return table


def compact_all(table: FileStoreTable) -> None:
    """Compact every bucket into one run."""
    StreamTableCommit(table, "bench", CompactionHere(table)).compact_fully()


def _bucket_changes(
    table: FileStoreTable, rng: np.random.Generator, rows: int, next_sequence_number: int
) -> Iterator[BucketChange]:
    batch = random_rows(rng, table, rows // RUNS, rows * KEY_SPACE)
    buckets = bucket_of([batch.column("k")], table.schema.fields.project(("k",)).types, BUCKETS)
    for bucket in range(BUCKETS):
        bucket_id = BUCKET[0], bucket
        writer = bucket_writer(table, *bucket_id, next_sequence_number=next_sequence_number)
        writer.write(batch.take(pa.array(np.flatnonzero(buckets == bucket))))
        yield flushed_files(writer, *bucket_id)
