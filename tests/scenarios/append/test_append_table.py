"""Tables without a primary key store and return rows, and refuse what they cannot take."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.errors import UnsupportedTableError
from stream_app.format.binary_row import deserialize_row
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content, read_changes, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
COLUMNS = "k INT, s STRING, d DOUBLE"
BUCKETED: dict[str, Any] = {"bucket": 3, "bucket-key": "k"}


def a_table(folder: Path, columns: str = COLUMNS, *by: str, **options: Any) -> SmallTable:
    return small_table(folder / "db.db" / "t", columns, (), by, **options)


def inserts(*numbers: int) -> list[Change]:
    return [("+I", {"k": k, "s": f"row {k}", "d": k / 2}) for k in numbers]


def live_files(table: FileStoreTable) -> list[DataFileMeta]:
    return [entry.file for entry in FileStoreScan(table).live(table.snapshots.latest())]


def test_a_file_has_the_tables_columns_and_no_key(tmp_path: Path) -> None:
    small = a_table(tmp_path)
    small.commit(
        ("+I", {"k": 5, "s": "b" * 20, "d": 1.5}),
        ("+I", {"k": None, "s": None, "d": -2.0}),
        ("+I", {"k": 5, "s": "a", "d": None}),
    )
    [entry] = FileStoreScan(small.table).live(small.table.snapshots.latest())
    assert (entry.bucket, entry.total_buckets) == (0, -1)
    file = entry.file
    path = Path(small.path, "bucket-0", file.file_name)
    schema = pq.read_schema(path)
    assert schema.names == ["k", "s", "d"]
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"1", b"2", b"3"]
    assert file.file_size == path.stat().st_size
    assert (file.row_count, file.delete_row_count, file.level) == (3, 0, 0)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 2)
    assert (file.min_key, file.max_key, file.key_stats) == (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS)
    assert (file.file_source, file.value_stats_cols) == (FileSource.APPEND, None)
    types = small.table.schema.fields.types
    assert deserialize_row(file.value_stats.min_values, types) == (5, "a", -2.0)
    assert deserialize_row(file.value_stats.max_values, types) == (5, "b" * 15 + "c", 1.5)
    assert file.value_stats.null_counts == (1, 1, 1)


def test_a_column_with_nan_has_no_statistics_at_all(tmp_path: Path) -> None:
    """Spark answers MIN and MAX from whatever column is named there."""
    small = a_table(tmp_path)
    small.commit(("+I", {"k": 1, "d": 1.0}), ("+I", {"k": 2, "d": math.nan}))
    [file] = live_files(small.table)
    assert file.value_stats_cols == ("k", "s")
    assert file.value_stats.null_counts == (0, 2)


def test_sequence_numbers_count_through_the_files_of_a_writer(tmp_path: Path) -> None:
    """Without buckets the numbers begin at 0 in each epoch."""
    small = a_table(tmp_path, target_file_size="4 kb", bucket=-1)
    for epoch in range(2):
        small.commit(*inserts(*range(epoch * 2000, epoch * 2000 + 2000)))
    files = live_files(small.table)
    starts = [file for file in files if file.min_sequence_number == 0]
    assert len(starts) == 2
    assert len(files) > 4
    for file in files:
        assert file.max_sequence_number - file.min_sequence_number + 1 == file.row_count
    assert sum(file.row_count for file in files) == 4000
    ends = sorted(file.max_sequence_number for file in files)
    assert ends[-2:] == [1999, 1999]


def test_sequence_numbers_go_on_in_a_bucket(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, **BUCKETED).table)
    for epoch in range(3):
        writer.write(inserts(*range(epoch * 20, epoch * 20 + 20)))
        writer.restart()
    buckets: dict[int, list[DataFileMeta]] = {}
    for entry in FileStoreScan(writer.table).live(writer.table.snapshots.latest()):
        assert entry.total_buckets == 3
        buckets.setdefault(entry.bucket, []).append(entry.file)
    assert sorted(buckets) == [0, 1, 2]
    for files in buckets.values():
        ranges = sorted((file.min_sequence_number, file.max_sequence_number) for file in files)
        assert len(ranges) == 3
        assert all(left[1] < right[0] for left, right in itertools.pairwise(ranges))


@pytest.mark.parametrize("options", [{}, BUCKETED], ids=["unaware", "buckets"])
def test_rows_and_changes_are_what_was_appended(tmp_path: Path, options: dict[str, Any]) -> None:
    writer = TableWriter(a_table(tmp_path, "k INT, s STRING, dt STRING", "dt", **options).table)
    rows = [{"k": n % 7, "s": str(n), "dt": "ab"[n % 2] if n % 5 else None} for n in range(60)]
    for start in range(0, 60, 20):
        writer.write([("+I", row) for row in rows[start : start + 20]])
    writer.write([])
    assert by_content(read_rows(writer.table)) == by_content(rows)
    changes = read_changes(writer.table)
    assert sorted(changes) == [0, 1, 2]
    for epoch, epoch_changes in changes.items():
        assert {kind for kind, _ in epoch_changes} == {"+I"}
        expected = rows[epoch * 20 : epoch * 20 + 20]
        assert by_content([row for _, row in epoch_changes]) == by_content(expected)
    check_chain(writer.table)


def test_a_bucket_is_read_in_the_order_of_its_rows(tmp_path: Path) -> None:
    small = a_table(tmp_path, bucket=1, bucket_key="s")
    for start in range(0, 50, 10):
        small.commit(*inserts(*range(start, start + 10)))
    assert [row["k"] for row in read_rows(small.table)] == list(range(50))


def test_conditions_need_no_key(tmp_path: Path) -> None:
    table = a_table(tmp_path, **BUCKETED)
    table.commit(*inserts(*range(30)), ("+I", {"k": 7, "s": "again", "d": None}))
    condition = row_filter("k = 7", table.table.schema)
    assert condition.bucket_pruning is not None
    entries = FileStoreScan(table.table).live(table.table.snapshots.latest())
    assert sum(map(condition.bucket_pruning.may_hold, entries)) == 1
    read = MergeRead(table.table, ("s",), condition)
    rows = pa.Table.from_batches(read.read(table.table.snapshots.latest()), read.schema)
    assert normal_rows(rows) == [{"s": "row 7"}, {"s": "again"}]


def test_an_append_table_refuses_or_ignores_deletes(tmp_path: Path) -> None:
    small = a_table(tmp_path / "refused")
    with pytest.raises(UnsupportedTableError, match="cannot take a row back"):
        small.commit(*inserts(1), ("-D", {"k": 1}))
    assert [path.name for path in Path(small.path).rglob("*.parquet")] == []
    ignoring = a_table(tmp_path / "ignored", ignore_delete="true")
    ignoring.commit(*inserts(1), ("-D", {"k": 1}), ("-U", {"k": 1}), ("+U", {"k": 2}))
    assert [row["k"] for row in read_rows(ignoring.table)] == [1, 2]
