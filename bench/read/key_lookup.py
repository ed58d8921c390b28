"""Measures lookups of rows by key, beside a merge read of the whole bucket.

    python -m bench.read.key_lookup [--rows N]

The bench prints, for each type and number of keys, the keys looked up in a processor second, and
the time of the lookup as a share of a whole merge read. The bucket has one large run and three
files of level 0.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.lookup.lookup_reader import bucket_lookup
from stream_app.table.opening import create_or_open
from stream_app.table.read.diff_read import merged_rows

PARTITION = bytes(12)
KEY_COUNTS = (10, 1_000, 100_000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    for kind in ("BIGINT", "STRING"):
        with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
            _measure(kind, rows, folder)


def _measure(kind: str, rows: int, folder: str) -> None:
    table, files = _bucket(kind, rows, folder)
    merge_read_s = _seconds(lambda: _read_all(table, files))
    for count in KEY_COUNTS:
        random = np.random.default_rng(count)
        numbers = random.choice(rows, min(count, rows), replace=False) * 2
        keys = pa.RecordBatch.from_arrays([_keys(kind, numbers)], ["k"])

        def look_up(keys: pa.RecordBatch = keys) -> None:
            rows = bucket_lookup(table, PARTITION, 0, ["v"]).rows(keys, files)
            assert len(rows.key_indices) == keys.num_rows

        lookup_s = _seconds(look_up)
        print(
            f"{kind:8} {len(numbers):8,} keys of {rows:,}: "
            f"{len(numbers) / lookup_s:12,.0f} keys/s, "
            f"{lookup_s / merge_read_s:6.1%} of a merge read"
        )


def _bucket(kind: str, rows: int, folder: str) -> tuple[FileStoreTable, list[DataFileMeta]]:
    schema = new_table_schema(
        columns=parse_columns(f"k {kind}, v STRING, w STRING, n BIGINT"),
        primary_keys=("k",), partition_keys=(), options={"bucket": "1"}, time_ms=0,
    )  # fmt: skip
    table = create_or_open(f"{folder}/t", schema, SystemClock())
    all_numbers = np.arange(rows) * 2
    files, next_sequence_number = [], 0
    random = np.random.default_rng(0)
    for level, numbers in (
        (5, all_numbers),
        *((0, random.choice(all_numbers, rows // 20)) for _ in range(3)),
    ):
        writer = bucket_writer(table, PARTITION, 0, next_sequence_number=next_sequence_number)
        next_sequence_number += len(numbers)
        texts = pa.array(numbers.astype(str)).cast(pa.string())
        columns = [_keys(kind, numbers), texts, texts, pa.array(numbers)]
        kinds = pa.array(np.zeros(len(numbers), np.int8))
        names = [VALUE_KIND, *arrow_schema(schema.fields).names]
        writer.write(pa.RecordBatch.from_arrays([kinds, *columns], names))
        files += [file.at_level(level) for file in writer.prepare_commit().added_files]
    return table, files


def _keys(kind: str, numbers: np.ndarray) -> pa.Array:
    if kind == "BIGINT":
        return pa.array(numbers)
    return pa.array(np.char.zfill(numbers.astype(str), 12)).cast(pa.string())


def _read_all(table: FileStoreTable, files: list[DataFileMeta]) -> None:
    for _ in merged_rows(table, table.bucket_files(PARTITION, 0), files):
        pass


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest processor time of three runs."""
    seconds = []
    for _ in range(3):
        start_s = time.process_time()
        work()
        seconds.append(time.process_time() - start_s)
    return min(seconds)


if __name__ == "__main__":
    main()
