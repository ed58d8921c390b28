"""A lookup of some keys in a real table returns the rows that a whole read returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.errors import UnsupportedTableError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.lookup.lookup_reader import bucket_lookup
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.jobs.table_writer import CompactLater, TableWriter, read_rows
from tests.support.tables.small_table import small_table

COLUMNS = "k INT NOT NULL, name STRING NOT NULL, v STRING, n BIGINT"
KEYS = 60


def look_rows_up(
    table: FileStoreTable, keys: list[tuple[int, str]], columns: tuple[str, ...]
) -> dict[tuple[int, str], dict[str, Any]]:
    """Return the rows of keys in the latest snapshot of a table with one bucket."""
    key_schema = arrow_schema(table.schema.fields.project(("k", "name")))
    batch = pa.RecordBatch.from_pylist([{"k": k, "name": n} for k, n in keys], key_schema)
    files: dict[bytes, list[DataFileMeta]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        files.setdefault(entry.partition, []).append(entry.file)
    ((partition, bucket_files),) = files.items()
    matches = bucket_lookup(table, partition, 0, columns).rows(batch, bucket_files)
    rows = matches.rows.select(["k", "name", *columns]).to_pylist()
    for key_index, row in zip(matches.key_indices.tolist(), rows, strict=True):
        assert keys[key_index] == (row["k"], row["name"])
    return {(row["k"], row["name"]): row for row in rows}


@pytest.mark.parametrize("sequence", ["", "n"], ids=["by-arrival", "by-a-column"])
@pytest.mark.parametrize("seed", range(4))
def test_any_keys_have_the_rows_that_the_table_has(
    tmp_path: Path, seed: int, sequence: str
) -> None:
    options = {"sequence__field": sequence} if sequence else {}
    table = small_table(
        tmp_path / "t", COLUMNS, ("k", "name"), bucket=1, num_sorted_run__compaction_trigger=3,
        **options,
    ).table  # fmt: skip
    writer = TableWriter(table, CompactLater)
    random = np.random.default_rng(seed)
    for epoch in range(12):
        changes = []
        for number in range(int(random.integers(1, 40))):
            k = int(random.integers(KEYS))
            kind = "-D" if random.random() < 0.2 else "+U"
            row = {"k": k, "name": f"n{k % 7}", "v": f"{epoch}-{number}"}
            changes.append((kind, {**row, "n": int(random.integers(100))}))
        writer.write(changes)
        if random.random() < 0.5:
            assert isinstance(writer.executor, CompactLater)
            writer.executor.run()
        all_rows = {(row["k"], row["name"]): row for row in read_rows(table)}
        keys = [(int(k), f"n{k % 7}") for k in random.permutation(2 * KEYS)[:KEYS]]
        columns = ("v",) if epoch % 2 else ("v", "n")
        expected = {
            key: {name: all_rows[key][name] for name in ("k", "name", *columns)}
            for key in keys
            if key in all_rows
        }
        assert look_rows_up(table, keys, columns) == expected


def test_files_and_row_groups_without_the_keys_are_not_read(tmp_path: Path) -> None:
    """Of two files of half a megabyte the lookup of one key reads one row group of one file."""
    small = small_table(
        tmp_path / "t", COLUMNS, ("k", "name"), bucket=1, write_buffer_size="512 kb",
        file__compression="none", num_sorted_run__compaction_trigger=9,
    )  # fmt: skip
    random = np.random.default_rng(0)
    for first in (0, 4000):
        small.commit(
            *(
                ("+I", {"k": k, "name": "", "v": random.bytes(50).hex(), "n": k})
                for k in range(first, first + 4000)
            )
        )
    counting = CountingFileIO()
    table = FileStoreTable(small.path, small.table.schema, counting, small.table.clock)
    rows = look_rows_up(table, [(5000, "")], ("v",))
    assert rows.keys() == {(5000, "")}
    ((name, count),) = [file for file in counting.read.items() if file[0].endswith(".parquet")]
    (path,) = Path(small.path).glob(f"bucket-0/{name}")
    assert count < path.stat().st_size / 3  # the footer is some of it


def test_the_lookup_refuses_tables_that_it_cannot_read(tmp_path: Path) -> None:
    without_key = small_table(tmp_path / "a", "k INT, name STRING", ()).table
    with pytest.raises(UnsupportedTableError, match="has no primary key"):
        bucket_lookup(without_key, b"", 0, ())
    options = {"merge_engine": "partial-update"}
    foreign = small_table(tmp_path / "b", COLUMNS, ("k", "name"), **options).table
    with pytest.raises(UnsupportedTableError, match="rows of merge-engine = partial-update"):
        bucket_lookup(foreign, b"", 0, ())
