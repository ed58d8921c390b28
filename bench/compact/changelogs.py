"""Measures what a changelog and deletion vectors cost: small epochs on top of a large table.

    python -m bench.compact.changelogs [--rows N] [--epochs N] [--changes N] [--near N] [--java]

A line for each kind of table has the processor time of an epoch, writing and compacting, and its
ratio to a table without a changelog. All tables get the same changes: updates of keys drawn evenly,
or with --near among N neighbours. With --java, Paimon's own writer writes the same changes, as in a
task of Paimon's sink for Spark or Flink: compiled code, and one writer that stays open.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files
from tests.support.judges.paimon_jvm import class_path_of_paimon, java_tool

JAVA = Path(__file__).parent / "ChangelogBench.java"
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
    """A `CompactExecutor` that compacts in the caller."""

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
    parser.add_argument("--near", type=int, default=0)
    parser.add_argument("--java", action="store_true")
    arguments = parser.parse_args()
    plain_seconds = 0.0
    keys = _keys(
        arguments.rows, arguments.epochs, arguments.changes, arguments.near or arguments.rows
    )
    for kind, options in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
            run_s = _measure(_table(options, f"{folder}/t"), keys)
            # In Paimon the sink of Flink begins full compactions.
            has_java = arguments.java and kind != "full-compaction"
            java_s = _measure_java(options, keys, Path(folder)) if has_java else 0.0
        plain_seconds = plain_seconds or run_s
        print(
            f"{kind:24} {run_s / arguments.epochs:6.3f} s an epoch, "
            f"{arguments.epochs * arguments.changes / run_s:10,.0f} changes/s, "
            f"{run_s / plain_seconds:5.2f} x none"
            + (
                f"; Java {java_s / arguments.epochs:6.3f} s, {java_s / run_s:5.2f} x ours"
                if java_s
                else ""
            )
        )


def _keys(rows: int, epochs: int, changes: int, near: int) -> list[np.ndarray]:
    """Return the keys of each epoch. The first epoch has all keys."""
    random = np.random.default_rng(0)
    starts = [random.integers(0, rows - near + 1) for _ in range(epochs)]
    return [np.arange(rows), *(start + random.integers(0, near, changes) for start in starts)]


def _table(options: Mapping[str, str], path: str) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns("k BIGINT NOT NULL, v STRING, w STRING, n BIGINT"),
        primary_keys=("k",), partition_keys=(), options={"bucket": "1", **options}, time_ms=0,
    )  # fmt: skip
    return create_or_open(path, schema, SystemClock())


def _measure(table: FileStoreTable, keys: Sequence[np.ndarray]) -> float:
    """Return the processor seconds of all epochs but the first."""
    commit = StreamTableCommit(table, "bench", CompactHere(table))
    _epoch(table, commit, 0, keys[0])
    commit.compact_fully()
    start_s = time.process_time()
    for epoch, changed_keys in enumerate(keys[1:], 1):
        _epoch(table, commit, epoch, changed_keys)
    commit.compact_due()
    return time.process_time() - start_s


def _measure_java(options: Mapping[str, str], keys: Sequence[np.ndarray], folder: Path) -> float:
    """Return the processor seconds of Paimon's writer, without its start and compilation."""
    table = _table(options, f"{folder}/db.db/java")
    files = [folder / f"keys-{epoch}" for epoch in range(len(keys))]
    for path, numbers in zip(files, keys, strict=True):
        path.write_bytes(numbers.astype(">i8").tobytes())
    process = subprocess.run(
        [
            java_tool("java"), "-Xmx2g", "-XX:+UseSerialGC", "-cp", class_path_of_paimon(),
            str(JAVA), table.location, str(folder), *map(str, files),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return sum(map(int, process.stdout.split()[1:])) / 1e9


def _epoch(table: FileStoreTable, commit: StreamTableCommit, epoch: int, keys: np.ndarray) -> None:
    kind = RowKind.UPDATE_AFTER if epoch else RowKind.INSERT
    texts = pa.array((keys + epoch).astype(str)).cast(pa.string())
    names = [VALUE_KIND, *arrow_schema(table.schema.fields).names]
    kinds = pa.array(np.full(len(keys), int(kind), np.int8))
    columns = [kinds, pa.array(keys), texts, texts, pa.array(keys)]
    writer = bucket_writer(table, PARTITION, 0, next_sequence_number=commit.follow_and_wait())
    writer.write(pa.RecordBatch.from_arrays(columns, names))
    commit.commit_epoch(epoch, [flushed_files(writer, PARTITION, 0)])


if __name__ == "__main__":
    main()
