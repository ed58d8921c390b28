"""Measures the index that finds a key's row in any partition: its build and its update.

    python -m bench.write.key_index [--keys N]

The table has N keys in 40 partitions. An epoch has N / 20 changes, of which every fifth moves its
row. The bench prints processor seconds, memory and disk. The same changes are written to a table
whose key includes the partition, to show what the index adds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.opening import create_or_open

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
    indexed_table = _table(folder / "indexed", ("id",), {"bucket": "-1"})
    plain_table = _table(folder / "plain", ("id", "p"), {"bucket": "4"})
    numbers = np.random.default_rng(1).permutation(keys)
    for keys_of_epoch in np.array_split(numbers, EPOCHS):
        for table in (indexed_table, plain_table):
            _commit(table, _rows(table, keys_of_epoch, keys_of_epoch % PARTITIONS))
    rule = index_rule(indexed_table.schema)
    assert rule is not None
    indexes = KeyIndexes.of_table(indexed_table, rule)
    newest = indexed_table.snapshots.latest_id() or 0
    _delete_index(indexes.folder)
    start_mb = _memory_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    build_s = _seconds(lambda: indexes.index_at(0, newest))
    peak_mb = _memory_mb("VmHWM") - start_mb
    disk_size = sum(file.stat().st_size for file in indexes.folder.rglob("*.arrow"))
    print(f"made: {build_s:.1f} s for {keys:,} keys, all {rule.share_count} shares")
    print(f"      {disk_size / keys:.1f} bytes a key on disk, {peak_mb:,.0f} MB of memory")
    changed_keys = np.random.default_rng(2).choice(keys, keys // 20, replace=False)
    new_partitions = (
        np.where(np.arange(len(changed_keys)) % 5 == 0, changed_keys + 1, changed_keys) % PARTITIONS
    )
    plain_s = _seconds(
        lambda: _commit(plain_table, _rows(plain_table, changed_keys, new_partitions))
    )
    epoch_s = _seconds(
        lambda: _commit(indexed_table, _rows(indexed_table, changed_keys, new_partitions))
    )
    print(
        f"an epoch of {len(changed_keys):,}: {epoch_s:.2f} s, "
        f"{epoch_s / plain_s:.2f} × one without index"
    )
    newest = indexed_table.snapshots.latest_id() or 0
    update_s = _seconds(
        lambda: [indexes.index_at(share, newest) for share in range(rule.share_count)]
    )
    print(
        f"brought forward by that epoch: {update_s:.2f} s, "
        f"{update_s / plain_s:.2f} × of its writing"
    )


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
    schema = schema_of_changes(arrow_schema(table.schema.fields))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _commit(table: FileStoreTable, rows: pa.RecordBatch) -> None:
    append = SingleAppend.begin(table, "bench")
    changes: list[BucketChange] = [*append.write(rows)]
    append.commit(changes, {})


def _delete_index(folder: Path) -> None:
    for file in folder.rglob("*.arrow"):
        file.unlink()


def _seconds(work: Callable[[], object]) -> float:
    start_s = time.process_time()
    work()
    return time.process_time() - start_s


def _memory_mb(name: str) -> float:
    [line] = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)
    ]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
