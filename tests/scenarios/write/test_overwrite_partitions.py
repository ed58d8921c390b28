"""INSERT OVERWRITE from Python replaces partitions, or refuses the rows and says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.snapshot import CommitKind
from stream_app.planning.buckets.rescale_plan import planned_rescales
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.overwrite.rescale import rescale_partition
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.tables.small_table import small_table
from tests.support.tables.snapshot_chain import files_on_disk, files_that_snapshots_name
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")

COLUMNS = "dt STRING, k INT, v STRING"
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"bucket": 2},
    "input": {"bucket": 2, "changelog_producer": "input"},
    "lookup": {"bucket": 2, "changelog_producer": "lookup"},
    "vectors": {"bucket": 2, "deletion_vectors__enabled": "true"},
    "first row": {"bucket": 2, "merge_engine": "first-row", "ignore_delete": "true"},
    "dynamic": {"bucket": -1, "dynamic_bucket__target_row_num": 4},
    "postponed": {"bucket": -2, "postpone__batch_write_fixed_bucket": "false"},
    "postponed, by rows": {"bucket": -2, "postpone__target_row_num_per_bucket": 3},
    "keyless": {"bucket": -1},
    "bucketed": {"bucket": 2, "bucket_key": "k"},
    "checksum": {"bucket": 2, "changelog_producer": "input", "stream_app__row_checksum": "true"},
}


def a_table(
    folder: Path, kind: str = "fixed", columns: str = COLUMNS, **more: Any
) -> FileStoreTable:
    keys = () if kind in ("keyless", "bucketed") else ("dt", "k")
    options = {**KINDS[kind], **more}
    return small_table(folder / "db.db" / "t", columns, keys, ("dt",), **options).table


def day(name: str, mark: str, keys: int = 10) -> list[dict[str, Any]]:
    return [{"dt": name, "k": k, "v": mark} for k in range(keys)]


def overwritten(table: FileStoreTable, rows: list[dict[str, Any]], **options: Any) -> int | None:
    schema = pa.schema([("dt", pa.string()), ("k", pa.int32()), ("v", pa.string())])
    return PaimonTable(table).overwrite(pa.Table.from_pylist(rows, schema), **options)


def fill_table(table: FileStoreTable) -> TableWriter:
    writer = TableWriter(table)
    writer.write([("+I", row) for name in ("mon", "tue") for row in day(name, "old")])
    move_if_postponed(table)
    return writer


def move_if_postponed(table: FileStoreTable) -> None:
    if table.kind_traits.postpones:
        move_postponed(table)


def rows_of(table: FileStoreTable) -> list[Any]:
    return by_content(read_rows(table))


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_partitions_of_the_rows_are_replaced(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, kind)
    writer = fill_table(table)
    number = overwritten(table, day("mon", "new", 4))
    latest_snapshot = table.snapshots.latest()
    assert latest_snapshot is not None
    assert (latest_snapshot.snapshot_id, latest_snapshot.commit_kind) == (
        number,
        CommitKind.OVERWRITE,
    )
    move_if_postponed(table)
    assert rows_of(table) == by_content([*day("mon", "new", 4), *day("tue", "old")])
    writer.restart()
    writer.write([("+I", row) for row in day("mon", "newer", 2)])
    writer.commit.compact_fully()
    move_if_postponed(table)
    of_monday = [row for row in read_rows(table) if row["dt"] == "mon"]
    expected = [*day("mon", "newer", 2), *day("mon", "new", 4)[2:]]
    if kind in ("keyless", "bucketed"):
        expected = [*day("mon", "newer", 2), *day("mon", "new", 4)]
    elif kind == "first row":
        expected = day("mon", "new", 4)
    assert by_content(of_monday) == by_content(expected)
    assert findings_of(table) == []
    assert files_on_disk(table, "data-") <= files_that_snapshots_name(table)


def test_a_named_partition_goes_even_for_no_rows(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    fill_table(table)
    assert overwritten(table, [], partition={"dt": "mon"}) == 2
    assert rows_of(table) == by_content(day("tue", "old"))
    assert overwritten(table, [], partition={"dt": "wed"}) is None
    assert overwritten(table, []) is None


def test_a_named_partition_gives_its_columns(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    fill_table(table)
    rows = pa.table({"k": [1, 2]})
    PaimonTable(table).overwrite(rows, partition={"dt": "wed"})
    expected = [{"dt": "wed", "k": k, "v": None} for k in (1, 2)]
    assert rows_of(table) == by_content([*day("mon", "old"), *day("tue", "old"), *expected])


def test_the_whole_table_goes_without_dynamic_partitions(tmp_path: Path) -> None:
    table = a_table(tmp_path, dynamic_partition_overwrite="false")
    fill_table(table)
    overwritten(table, day("wed", "new"))
    assert rows_of(table) == by_content(day("wed", "new"))


def test_a_rescaled_partition_gets_the_number_of_the_option(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    fill_table(table)
    for rescale_plan in planned_rescales(FileStoreScan(table).live(table.snapshots.latest()), 3):
        rescale_partition(table, rescale_plan)
    overwritten(table, day("mon", "new"))
    live = FileStoreScan(table).live(table.snapshots.latest())
    totals = {(table.paths.partition_path(entry.partition), entry.total_buckets) for entry in live}
    assert totals == {("dt=mon", 2), ("dt=tue", 3)}
    assert findings_of(table) == []


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"postpone__target_row_num_per_bucket": 3}, {"dt=mon": 4, "dt=tue": 1}),
        (
            {
                "postpone__target_row_num_per_bucket": 3,
                "postpone__batch_write_fixed_bucket__max_parallelism": 3,
            },
            {"dt=mon": 3, "dt=tue": 1},
        ),
        ({"postpone__default_bucket_num": 3}, {"dt=mon": 3, "dt=tue": 3}),
        ({}, {"dt=mon": 1, "dt=tue": 1}),
        ({"postpone__batch_write_fixed_bucket": "false"}, {"dt=mon": -2, "dt=tue": -2}),
    ],
)
def test_a_postponed_partition_gets_its_number_from_the_rows(
    tmp_path: Path, options: dict[str, Any], counts: dict[str, int]
) -> None:
    """Readers see the rows at once; later rows go to the same buckets, and count more."""
    columns, keys = COLUMNS, ("dt", "k")
    table = small_table(
        tmp_path / "db.db" / "t", columns, keys, ("dt",), **{"bucket": -2, **options}
    ).table
    writer = fill_table(table)
    writer.write([("+I", row) for row in day("mon", "waits")])
    overwritten(table, [*day("mon", "new"), *day("tue", "new", 3)])
    live = FileStoreScan(table).live(table.snapshots.latest())
    totals = {(table.paths.partition_path(entry.partition), entry.total_buckets) for entry in live}
    assert totals == set(counts.items())
    waits = -2 in counts.values()
    new = by_content([*day("mon", "new"), *day("tue", "new", 3)])
    assert rows_of(table) == ([] if waits else new)
    writer.restart()
    writer.write([("+I", row) for row in day("mon", "newer", 2)])
    move_postponed(table)
    newer = [*day("mon", "newer", 2), *day("mon", "new")[2:], *day("tue", "new", 3)]
    assert rows_of(table) == by_content(newer)
    assert findings_of(table) == []


@pytest.mark.parametrize(("upgrade", "level"), [("true", 5), ("false", 0)])
def test_new_files_lie_on_the_highest_level(tmp_path: Path, upgrade: str, level: int) -> None:
    table = a_table(tmp_path, overwrite_upgrade=upgrade)
    overwritten(table, day("mon", "new"))
    live = FileStoreScan(table).live(table.snapshots.latest())
    assert {entry.file.level for entry in live} == {level}


@pytest.mark.parametrize(
    ("rows", "partition", "problem"),
    [
        (day("mon", "x"), {"dt": "tue"}, "dt=mon do not belong to the partition"),
        (day("mon", "x"), {"day": "mon"}, "'day' is not a partition column"),
        ([{"dt": "mon", "k": None, "v": "x"}], None, "'k' of type INT NOT NULL: 1 values are"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(
    tmp_path: Path, rows: list[dict[str, Any]], partition: dict[str, str] | None, problem: str
) -> None:
    table = a_table(tmp_path)
    fill_table(table)
    files = files_on_disk(table, "data-")
    with pytest.raises(UsageError) as raised:
        overwritten(table, rows, partition=partition)
    assert problem in str(raised.value)
    assert raised.value.fix
    assert table.snapshots.latest_id() == 1
    assert files_on_disk(table, "data-") == files


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"dt": ["mon"], "k": [1], "w": [1]}, "column 'w'"),
        ({"dt": ["mon"], "k": [1 << 40], "v": ["x"]}, "column 'k' of type INT NOT NULL"),
        ({"dt": ["mon"], "k": [1], "v": ["longer"]}, "a value has a length of 6"),
    ],
)
def test_values_that_cannot_be_stored_exactly_are_refused(
    tmp_path: Path, rows: dict[str, list[Any]], problem: str
) -> None:
    table = a_table(tmp_path, columns="dt STRING, k INT, v VARCHAR(4)")
    with pytest.raises(UsageError) as raised:
        PaimonTable(table).overwrite(pa.table(rows))
    assert problem in str(raised.value)


def test_a_key_without_its_partition_is_refused(tmp_path: Path) -> None:
    table = small_table(tmp_path / "db.db" / "t", COLUMNS, ("k",), ("dt",), bucket=-1).table
    with pytest.raises(UnsupportedTableError):
        overwritten(table, day("mon", "new"))
