"""Measures the index that finds a key's row in any partition: building, updating, looking up.

    python -m bench.write.key_index [--keys N]

A table of N keys in 40 partitions, and an epoch of N / 20 changes of which each fifth moves its
row. Prints seconds of processor time, memory and disk; the same changes written to a table whose
key holds the partition show what the index adds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import change_schema
from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.opening import create_or_open
from stream_app.table.stream_commit.single_append import SingleAppend

COLUMNS = "id BIGINT NOT NULL, p STRING NOT NULL, a BIGINT, b DOUBLE, c STRING, d STRING"
PARTITIONS = 40
EPOCHS = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000_000)
    keys = parser.parse_args().keys
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        tempfile.tempdir = folder
        _measure(Path(folder), keys)


def _measure(folder: Path, keys: int) -> None:
    with_index = _table(folder / "indexed", ("id",), {"bucket": "-1"})
    without = _table(folder / "plain", ("id", "p"), {"bucket": "4"})
    numbers = np.random.default_rng(1).permutation(keys)
    for part in np.array_split(numbers, EPOCHS):
        for table in (with_index, without):
            _commit(table, _rows(table, part, part % PARTITIONS))
    rule = index_rule(with_index.schema)
    assert rule is not None
    indexes = KeyIndexes.of_table(with_index, rule)
    newest = with_index.snapshots.latest_id() or 0
    _forget(indexes.folder)
    before = _memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    built = _seconds(lambda: indexes.index_at(0, newest))
    peak = _memory_mb("VmHWM") - before
    disk = sum(file.stat().st_size for file in indexes.folder.rglob("*.arrow"))
    print(f"made: {built:.1f} s for {keys:,} keys, all {rule.shares} shares")
    print(f"      {disk / keys:.1f} bytes a key on disk, {peak:,.0f} MB of memory")
    changed = np.random.default_rng(2).choice(keys, keys // 20, replace=False)
    moved = np.where(np.arange(len(changed)) % 5 == 0, changed + 1, changed) % PARTITIONS
    plain = _seconds(lambda: _commit(without, _rows(without, changed, moved)))
    epoch_s = _seconds(lambda: _commit(with_index, _rows(with_index, changed, moved)))
    print(
        f"an epoch of {len(changed):,}: {epoch_s:.2f} s, {epoch_s / plain:.2f} × one without index"
    )
    newest = with_index.snapshots.latest_id() or 0
    forward = _seconds(lambda: [indexes.index_at(share, newest) for share in range(rule.shares)])
    print(f"brought forward by that epoch: {forward:.2f} s, {forward / plain:.2f} × of its writing")


def _table(path: Path, keys: tuple[str, ...], options: dict[str, str]) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=keys,
        partition_keys=("p",),
        options=options,
        time_ms=1,
    )
    return create_or_open(str(path), schema, SystemClock())


def _rows(table: FileStoreTable, keys: np.ndarray, partitions: np.ndarray) -> pa.RecordBatch:
    names = pa.array([f"2026-01-{number:02}" for number in range(PARTITIONS)])
    texts = pa.array(keys).cast(pa.string())
    columns = [
        pa.array(np.zeros(len(keys), np.int8)),
        pa.array(keys),
        names.take(pa.array(partitions)),
        pa.array(keys * 7),
        pa.array(keys / 3),
        texts,
        texts,
    ]
    schema = change_schema(arrow_schema(table.schema.fields))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _commit(table: FileStoreTable, rows: pa.RecordBatch) -> None:
    append = SingleAppend.begin(table, "bench")
    changes: list[BucketChange] = [*append.write(rows)]
    append.commit(changes, {})


def _forget(folder: Path) -> None:
    for file in folder.rglob("*.arrow"):
        file.unlink()


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _memory_mb(name: str) -> float:
    [line] = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)
    ]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
