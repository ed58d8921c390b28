"""A running job notices when others roll back, recreate, overwrite or write its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CheckpointError, UnsupportedTableError
from stream_app.model.schema.data_type import DataField, RowType, parse_data_type
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.overtaken_file_io import OvertakenFileIO
from tests.support.jobs.table_writer import CompactLater, TableWriter, by_content, read_rows
from tests.support.tables.small_table import small_table, write_changes
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    path = folder / "db.db" / "t"
    return small_table(path, "k INT, v STRING", ("k",), changelog_producer="input", **options).table


def row(key: int, value: str) -> tuple[str, dict[str, Any]]:
    return "+I", {"k": key, "v": value}


def roll_back(table: FileStoreTable, snapshot_id: int) -> None:
    """Roll back as Paimon does: delete the later snapshots, and write the hint."""
    for number in table.snapshots.ids():
        if number > snapshot_id:
            Path(table.location, "snapshot", f"snapshot-{number}").unlink()
    Path(table.location, "snapshot", "LATEST").write_text(str(snapshot_id))


def test_a_table_that_was_rolled_back_stops_the_job(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path))
    for number in range(3):
        writer.write([row(number, "a")])
    roll_back(writer.table, 1)
    with pytest.raises(CheckpointError, match="gone back from snapshot 3 to 1"):
        writer.commit.follow_and_wait()
    roll_back(writer.table, 0)
    with pytest.raises(CheckpointError, match="gone back from snapshot 3 to 0"):
        writer.write([row(9, "a")])


@pytest.mark.parametrize("others", [2, 3], ids=["as many snapshots", "more snapshots"])
def test_a_table_that_was_rolled_back_and_written_again_stops_the_job(
    tmp_path: Path, others: int
) -> None:
    """The numbers are there again, and stand for other snapshots."""
    writer = TableWriter(a_table(tmp_path))
    for number in range(3):
        writer.write([row(number, "a")])
    roll_back(writer.table, 1)
    other_writer = TableWriter(writer.table, user="other")
    for number in range(others):
        other_writer.write([row(number, "b")])
    before = read_rows(writer.table)
    with pytest.raises(CheckpointError, match="snapshot 3 of user writer was replaced by one of"):
        writer.write([row(9, "a")])
    with pytest.raises(CheckpointError, match="replaced"):
        writer.commit.commit_epoch(3, [])
    assert read_rows(writer.table) == before


@pytest.mark.parametrize("asks", ["begins the next", "asks for the last"])
def test_an_epoch_on_top_of_others_that_was_rolled_back_stops_the_job(
    tmp_path: Path, asks: str
) -> None:
    """The job has not yet looked at the commits of others that precede its epoch."""
    writer = TableWriter(a_table(tmp_path))
    writer.write([row(0, "a")])
    changes = write_changes(writer.table, [row(1, "a")], 1)
    TableWriter(writer.table, user="other").write([row(2, "b")])
    writer.commit.commit_epoch(1, changes)
    assert writer.table.snapshots.latest_id() == 3
    roll_back(writer.table, 2)
    ask: Callable[[], object] = {
        "begins the next": writer.commit.follow_and_wait,
        "asks for the last": lambda: writer.commit.state.is_committed(1),
    }[asks]
    with pytest.raises(CheckpointError, match="gone back from snapshot 3 to 2"):
        ask()


def test_the_numbers_of_files_count_each_writers_commit_once(tmp_path: Path) -> None:
    """Another writer may commit between the job's look at the table and the job's snapshot."""
    writer = TableWriter(a_table(tmp_path))
    other_writer = TableWriter(writer.table, user="other")
    overtakes = [
        lambda: other_writer.write([row(100, "b")]),
        lambda: other_writer.write([row(101, "b")]),
    ]
    writer.restart(OvertakenFileIO(before=[*overtakes]))
    writer.write([row(1, "a")])
    writer.write([row(2, "a")])
    writer.commit.follow_and_wait()
    latest = writer.table.snapshots.latest()
    sizes = [entry.file.file_size for entry in FileStoreScan(writer.table).live(latest)]
    metrics = writer.commit.compaction_metrics()
    assert (metrics.file_count, metrics.byte_count) == (len(sizes), sum(sizes)), (
        "of the latest snapshot"
    )


def test_a_snapshot_that_is_overwritten_as_we_publish_it_is_published_again(tmp_path: Path) -> None:
    """Paimon's Java looks, sees no snapshot, and renames over ours."""
    writer = TableWriter(a_table(tmp_path))
    writer.write([row(0, "a")])
    other_writer = TableWriter(writer.table, user="other")

    def overwrites() -> None:
        Path(writer.table.location, "snapshot", "snapshot-2").unlink()
        other_writer.write([row(7, "other")])

    writer.restart(OvertakenFileIO(afterwards=[overwrites]))
    writer.write([row(1, "a")])
    assert [row["k"] for row in read_rows(writer.table)] == [0, 1, 7]
    users = [snapshot.commit_user for snapshot in check_chain(writer.table)]
    assert users == ["writer", "other", "writer"]


def test_a_snapshot_that_is_overwritten_later_is_missed(tmp_path: Path) -> None:
    """The job also misses one behind another writer's snapshot, which it has not yet read."""
    writer = TableWriter(a_table(tmp_path))
    writer.write([row(0, "a")])
    other_writer = TableWriter(writer.table, user="other")
    writer.restart(OvertakenFileIO(before=[lambda: other_writer.write([row(7, "other")])]))
    writer.write([row(1, "a")])
    Path(writer.table.location, "snapshot", "snapshot-3").unlink()
    other_writer.restart()
    other_writer.write([row(8, "other")])
    with pytest.raises(CheckpointError, match="snapshot 3 of user writer was replaced"):
        writer.write([row(2, "a")])
    writer.replay()
    assert [row["k"] for row in read_rows(writer.table)] == [0, 1, 2, 7, 8]


def test_rows_that_others_wrote_are_compacted_with_ours(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=3), CompactLater)
    other_writer = TableWriter(writer.table, CompactLater, user="other")
    writer.write([row(0, "a")])
    for number in range(2):
        other_writer.write([row(number, "b")])
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {1}
    assert writer.commit.follow_and_wait() == 3
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {3}
    # Rows that come later are newer, whichever process wrote the others.
    writer.write([row(1, "c")])
    assert isinstance(writer.executor, CompactLater)
    writer.executor.run()
    writer.commit.compact_due()
    assert read_rows(writer.table) == [{"k": 0, "v": "b"}, {"k": 1, "v": "c"}]


def test_only_the_changes_of_expired_snapshots_are_gone(tmp_path: Path) -> None:
    """Another writer's snapshots have expired, so the job reads all known buckets again."""
    writer = TableWriter(a_table(tmp_path))
    writer.write([row(0, "a")])
    other_writer = TableWriter(writer.table, user="other")
    for number in range(3):
        other_writer.write([row(number, "b")])
    for number in (1, 2, 3):
        Path(writer.table.location, "snapshot", f"snapshot-{number}").unlink()
    assert writer.commit.follow_and_wait() == 4
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {4}
    writer.write([row(0, "c")])
    assert [row["v"] for row in read_rows(writer.table)] == ["c", "b", "b"]


def test_a_job_that_has_not_committed_yet_finds_others_rows(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    writer = TableWriter(table)
    other_writer = TableWriter(table, user="other")
    other_writer.write([row(1, "old")])
    writer.write([row(1, "new")])
    assert read_rows(table) == [{"k": 1, "v": "new"}]


def test_a_column_that_others_add_is_not_compacted_away(tmp_path: Path) -> None:
    """Options may change under a running job, columns may not."""
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table)
    writer.write([row(0, "a")])
    options = {**table.schema.options, "snapshot.num-retained.max": "99"}
    assert table.schemas.create(replace(table.schema, schema_id=1, options=options))
    TableWriter(open_file_store_table(table.location), user="other").write([row(0, "b")])
    writer.write([row(0, "c")])
    added_field = DataField(field_id=9, name="c", data_type=parse_data_type("STRING"))
    fields = RowType((*table.schema.fields, added_field))
    assert table.schemas.create(replace(table.schema, schema_id=2, fields=fields))
    wider = TableWriter(open_file_store_table(table.location), user="third")
    wider.write([("+U", {"k": 0, "v": "d", "c": "new"})])
    with pytest.raises(UnsupportedTableError, match="changed the columns") as raised:
        writer.write([row(1, "e")])
    assert "start the job again" in raised.value.fix
    assert read_rows(wider.table) == [{"k": 0, "v": "d", "c": "new"}]


def test_a_partition_with_another_number_of_buckets_is_written_by_it(tmp_path: Path) -> None:
    """An ALTER changed the option; the rows lie where the old number put them."""
    path = tmp_path / "db.db" / "t"
    columns = "dt STRING, k INT, v STRING"
    table = small_table(path, columns, ("dt", "k"), ("dt",), bucket=2).table
    old, new = {"dt": "old", "k": 1, "v": "a"}, {"dt": "new", "k": 1, "v": "b"}
    TableWriter(table).write([("+I", old)])
    altered_schema = replace(table.schema, schema_id=1, options={"bucket": "3"})
    assert table.schemas.create(altered_schema)
    writer = TableWriter(open_file_store_table(str(path)), user="later")
    writer.write([("+U", {**old, "v": "c"}), ("+I", new)])
    assert by_content(read_rows(writer.table)) == by_content([{**old, "v": "c"}, new])
    totals = {
        (table.paths.partition_path(entry.partition), entry.total_buckets)
        for entry in FileStoreScan(table).live(table.snapshots.latest())
    }
    assert totals == {("dt=old", 2), ("dt=new", 3)}


def test_a_partition_that_others_rescale_is_written_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    table = small_table(path, "k INT, v STRING", ("k",), bucket=2).table
    writer = TableWriter(table)
    writer.write([])
    schema = replace(table.schema, options={**table.schema.options, "bucket": "4"})
    TableWriter(replace(table, schema=schema), user="other").write([row(1, "a")])
    writer.write([row(1, "b")])
    assert read_rows(table) == [{"k": 1, "v": "b"}]


def test_a_partition_whose_keys_lie_anywhere_keeps_the_tables_number(tmp_path: Path) -> None:
    """With 'partition-lookup' a table has as many key shares as buckets."""
    path = tmp_path / "db.db" / "t"
    columns = "dt STRING, k INT, v STRING"
    options = {"bucket": 2, "partition_lookup": "true"}
    table = small_table(path, columns, ("dt", "k"), ("dt",), **options).table
    commit = TableWriter(table).commit
    schema = replace(table.schema, options={**table.schema.options, "bucket": "4"})
    wider = replace(table, schema=schema)
    first = commit.follow_and_wait()
    changes: list[tuple[str, dict[str, Any]]] = [("+I", {"dt": "a", "k": 1, "v": "a"})]
    other_commit = TableWriter(wider, user="other").commit
    other_commit.commit_epoch(0, write_changes(wider, changes, first))
    with pytest.raises(UnsupportedTableError, match="the partition has 4 buckets"):
        commit.commit_epoch(0, write_changes(table, changes, first))


def test_manifests_that_expire_while_they_are_read(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path))
    writer.write([row(0, "a")])
    TableWriter(writer.table, user="other").write([row(0, "b")])
    middle = writer.table.snapshots.snapshot(2)
    TableWriter(writer.table, user="third").write([row(0, "c")])
    writer.table.file_io.delete(writer.table.paths.manifest(middle.delta_manifest_list))
    assert writer.commit.follow_and_wait() == 3
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {3}
