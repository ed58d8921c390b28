"""Measures what hidden changes cost an epoch of a table that keeps every version of a row.

    python -m bench.write.history [--keys N] [--epochs N]

An epoch has N / 4 ordered changes, a tenth of them with equal values. Tables with and without
hidden changes take turns in one process. Figures are processor seconds of writing and committing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.clock import SystemClock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.options.merge_options import HISTORY_LATE_CHANGES, HISTORY_UNTRACKED_COLUMNS
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.opening import create_or_open

COLUMNS = (
    "id BIGINT NOT NULL, city STRING, seen BIGINT, valid_from TIMESTAMP(3) NOT NULL, "
    "valid_to TIMESTAMP(3), is_current BOOLEAN NOT NULL"
)
ARMS = {
    "none kept": {HISTORY_LATE_CHANGES.key: "0 s"},
    "kept": {},
    "kept, with an untracked column": {HISTORY_UNTRACKED_COLUMNS.key: "seen"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.write.history")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), arguments.keys, arguments.epochs):
            print(line, flush=True)


def lines(folder: Path, keys: int, epochs: int) -> Iterator[str]:
    """Yield the lines of a table."""
    tables = {name: _table(folder / str(index), ARMS[name]) for index, name in enumerate(ARMS)}
    seconds = dict.fromkeys(ARMS, 0.0)
    random = np.random.default_rng(1)
    cities = random.integers(0, 1000, keys)
    for epoch in range(epochs):
        changed_keys = random.permutation(keys)[: keys // 4]
        is_moved = random.random(len(changed_keys)) >= 0.1
        cities[changed_keys[is_moved]] += 1
        starts = np.sort(random.integers(0, 60_000, len(changed_keys))) + 60_000 * epoch
        for name, table in tables.items():
            start_s = time.process_time()
            _commit(table, _rows(table, changed_keys, cities[changed_keys], starts))
            seconds[name] += time.process_time() - start_s
    plain_s = seconds["none kept"]
    yield "| hidden changes | seconds of the processor an epoch | ratio |"
    yield "| --- | ---: | ---: |"
    for name in ARMS:
        yield f"| {name} | {seconds[name] / epochs:.3f} | {seconds[name] / plain_s:.2f} |"


def _table(path: Path, options: dict[str, str]) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("id", "valid_from"),
        partition_keys=(),
        time_ms=0,
        options={"bucket": "2", "bucket-key": "id", "history": "true", **options},
    )
    return create_or_open(str(path), schema, SystemClock())


def _rows(
    table: FileStoreTable, keys: np.ndarray, cities: np.ndarray, starts: np.ndarray
) -> pa.RecordBatch:
    schema = schema_of_changes(arrow_schema(table.schema.fields))
    count = len(keys)
    columns = [
        pa.repeat(pa.scalar(int(RowKind.UPDATE_AFTER), pa.int8()), count),
        pa.array(keys),
        pa.array(cities).cast(pa.string()),
        pa.array(starts if table.options[HISTORY_UNTRACKED_COLUMNS] else np.zeros(count, np.int64)),
        pa.array(starts).cast(schema.field("valid_from").type),
        pa.nulls(count, schema.field("valid_to").type),
        pa.array(np.zeros(count, np.bool_)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _commit(table: FileStoreTable, rows: pa.RecordBatch) -> None:
    append = SingleAppend.begin(table, "bench")
    append.commit(append.write(rows), {})


if __name__ == "__main__":
    main()
