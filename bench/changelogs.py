"""What a changelog and deletion vectors cost: small epochs on top of a large table.

    python -m bench.changelogs [--rows N] [--epochs N] [--changes N]

For each kind of table the processor's time of an epoch, writing and compacting, and its ratio to a
table without a changelog. All tables get the same changes: updates of keys drawn evenly.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.bucket_change import BucketChange
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.kinds.tasks import CompactRequest, bucket_writer, compact_bucket
from stream_app.table.opening import create_or_open
from stream_app.table.write.bucket_writer import finish

PARTITION = bytes(12)
KINDS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "none, force-up-level-0": {
        "compaction.force-up-level-0": "true",
        "commit.force-compact": "true",
    },
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "full-compaction": {
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "5",
    },
}


@dataclass
class CompactHere:
    """Compacts in the caller."""

    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        future: Future[BucketChange] = Future()
        future.set_result(compact_bucket(self.table, request))
        return future


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--changes", type=int, default=50_000)
    given = parser.parse_args()
    base = 0.0
    for kind, options in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
            seconds = _measure(options, given.rows, given.epochs, given.changes, folder)
        base = base or seconds
        print(
            f"{kind:24} {seconds / given.epochs:6.2f} s an epoch, "
            f"{given.epochs * given.changes / seconds:10,.0f} changes/s, "
            f"{seconds / base:5.2f} x none"
        )


def _measure(
    options: Mapping[str, str], rows: int, epochs: int, changes: int, folder: str
) -> float:
    schema = new_table_schema(
        columns=parse_columns("k BIGINT NOT NULL, v STRING, w STRING, n BIGINT"),
        primary_keys=("k",), partition_keys=(), options={"bucket": "1", **options}, time_millis=0,
    )  # fmt: skip
    table = create_or_open(f"{folder}/t", schema, SystemClock())
    commit = StreamTableCommit(table, "bench", CompactHere(table))
    _epoch(table, commit, 0, np.arange(rows))
    commit.compact_whole()
    random = np.random.default_rng(0)
    begun = time.process_time()
    for epoch in range(1, epochs + 1):
        _epoch(table, commit, epoch, random.integers(0, rows, changes))
    commit.drain()
    return time.process_time() - begun


def _epoch(table: FileStoreTable, commit: StreamTableCommit, epoch: int, keys: np.ndarray) -> None:
    kind = RowKind.UPDATE_AFTER if epoch else RowKind.INSERT
    texts = pa.array((keys + epoch).astype(str)).cast(pa.string())
    names = [VALUE_KIND, *arrow_schema(table.schema.fields).names]
    kinds = pa.array(np.full(len(keys), int(kind), np.int8))
    columns = [kinds, pa.array(keys), texts, texts, pa.array(keys)]
    writer = bucket_writer(table, PARTITION, 0, next_sequence_number=commit.begin_epoch())
    writer.write(pa.RecordBatch.from_arrays(columns, names))
    commit.commit_epoch(epoch, [finish(writer, PARTITION, 0)])


if __name__ == "__main__":
    main()
