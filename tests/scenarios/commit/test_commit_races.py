"""A commit that lost a race, or finds another table, retries, drops changes or refuses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CommitConflictError, CommitError, OutdatedRowsError
from stream_app.format.binary_row import serialize_row
from stream_app.model.schema.data_type import DataField, RowType, parse_data_type
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.planning.commit.retry_wait import retry_wait_s
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table
from tests.support.files.raced_file_io import RacedFileIO
from tests.support.jobs.table_writer import CompactLater, TableWriter, by_content, read_rows
from tests.support.tables.small_table import Change, SteppingClock, small_table, write_changes
from tests.support.tables.snapshot_chain import check_chain, files_on_disk

pytestmark = pytest.mark.usefixtures("unsynced")


@dataclass
class WaitingClock(SteppingClock):
    waits: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.millis

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        SteppingClock.sleep(self, seconds)


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    columns = "dt STRING, k INT, v STRING"
    return small_table(folder / "db.db" / "t", columns, ("dt", "k"), ("dt",), **options).table


def rows(*days: str, value: str = "a") -> list[Change]:
    return [("+I", {"dt": day, "k": k, "v": value}) for day in days for k in range(3)]


def raced_table(table: FileStoreTable, *rivals: Callable[[], object]) -> FileStoreTable:
    return replace(table, file_io=RacedFileIO(list(rivals)), clock=WaitingClock())


def dropper(table: FileStoreTable, day: str) -> Callable[[], object]:
    partition = serialize_row([day], table.schema.partition_type.types)

    def drop() -> object:
        commit = FileStoreCommit(table, CommitHistory(table, "bob", table.snapshots.latest()))
        return commit.drop_partitions([partition], BATCH_COMMIT_IDENTIFIER)

    return drop


def waiting_compactions(table: FileStoreTable) -> tuple[StreamTableCommit, CompactLater]:
    """A job that has written mon and tue twice, and has compacted both without publishing it."""
    later = CompactLater(table)
    commit = StreamTableCommit(table, "us", later)
    for epoch, value in enumerate("ab"):
        first = commit.follow_and_wait()
        commit.commit_epoch(epoch, write_changes(table, rows("mon", "tue", value=value), first))
    assert len(later.waiting) == 2
    later.run()
    return commit, later


def test_an_append_goes_on_top_of_the_commit_that_was_first(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    rival = TableWriter(table, user="bob")
    others = [lambda value=value: rival.write(rows("tue", value=value)) for value in "xyz"]
    ours = raced_table(table, *others)
    commit = StreamTableCommit(ours, "us", CompactLater(ours))
    changes = write_changes(ours, rows("mon"), commit.follow_and_wait())
    commit.commit_epoch(0, changes)
    users = [snapshot.commit_user for snapshot in check_chain(table)]
    assert users == ["bob", "bob", "bob", "us"]
    assert by_content(read_rows(table)) == by_content(
        [dict(row) for _, row in (*rows("mon"), *rows("tue", value="z"))]
    )
    list_names = {
        name
        for snapshot in check_chain(table)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    }
    assert files_on_disk(table, "manifest-list-") == list_names, "lost attempts leave nothing"
    assert isinstance(ours.clock, WaitingClock)
    for wait, least in zip(ours.clock.waits, (0.01, 0.02, 0.04), strict=True):
        assert least <= wait <= least * 1.2


@pytest.mark.parametrize(
    ("options", "tries"),
    [
        pytest.param({"commit__max_retries": 0}, 1, id="no retry"),
        pytest.param({"commit__max_retries": 3}, 4, id="retries"),
        pytest.param(
            {"commit__timeout": "1 s", "commit__min_retry_wait": "400 ms"}, 3, id="time is over"
        ),
    ],
)
def test_a_commit_is_given_up(tmp_path: Path, options: dict[str, Any], tries: int) -> None:
    table = a_table(tmp_path, **options)
    rival = TableWriter(table, user="bob")
    ours = raced_table(table, *[lambda: rival.write([])] * 9)
    commit = StreamTableCommit(ours, "us", CompactLater(ours))
    changes = write_changes(ours, rows("mon"), commit.follow_and_wait())
    with pytest.raises(CommitError, match=f"commit 0 of user us lost the race .* {tries} times"):
        commit.commit_epoch(0, changes)
    assert {snapshot.commit_user for snapshot in check_chain(table)} == {"bob"}
    assert files_on_disk(table, "data-") == set(), "the epoch's files are gone"


def test_committers_that_lose_together_wait_differently() -> None:
    waits = {retry_wait_s(3, wait_min_ms=10, wait_max_ms=10_000, name=name) for name in "abcdefgh"}
    assert len(waits) == 8
    assert all(0.08 <= wait <= 0.096 for wait in waits)
    assert 10 <= retry_wait_s(1000, wait_min_ms=10, wait_max_ms=10_000, name="a") <= 12


def test_one_compaction_in_conflict_leaves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition is dropped in the middle of our commit: the other one's compaction goes in."""
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    ours = raced_table(table)
    commit, _ = waiting_compactions(ours)
    assert isinstance(ours.file_io, RacedFileIO)
    ours.file_io.rivals.append(dropper(table, "mon"))
    snapshot = commit.commit_idle()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert "dropped, or has expired, with snapshot 3 (OVERWRITE) of user bob" in caplog.text
    assert commit.coordinator.dropped_compactions.dropped_count == 1
    kinds = [snapshot.commit_kind.value for snapshot in check_chain(table)]
    assert kinds == ["APPEND", "APPEND", "OVERWRITE", "COMPACT"]
    assert by_content(read_rows(table)) == by_content(
        [dict(row) for _, row in rows("tue", value="b")]
    )


def test_rows_of_a_partition_that_is_dropped_as_they_come_are_its_first(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    TableWriter(table, user="first").write(rows("mon", value="old"))
    ours = raced_table(table, dropper(table, "mon"))
    commit = StreamTableCommit(ours, "us", CompactLater(ours))
    new: list[Change] = [("+I", {"dt": "mon", "k": 1, "v": "new"})]
    commit.commit_epoch(0, write_changes(ours, new, commit.follow_and_wait()))
    assert read_rows(table) == [{"dt": "mon", "k": 1, "v": "new"}]
    check_chain(table)


def test_a_partition_that_is_rescaled_as_rows_come_refuses_them(tmp_path: Path) -> None:
    table = a_table(tmp_path, bucket=2)
    TableWriter(table, user="first").write(rows("mon"))
    options = {**table.schema.options, "bucket": "4"}
    wider = replace(table, schema=replace(table.schema, options=options))

    def rescale() -> None:
        commit = FileStoreCommit(wider, CommitHistory(table, "bob", table.snapshots.latest()))
        partition = serialize_row(["mon"], table.schema.partition_type.types)
        commit.drop_partitions([partition], BATCH_COMMIT_IDENTIFIER)
        TableWriter(wider, user="bob2").write(rows("mon", value="b"))

    ours = raced_table(table, rescale)
    commit = StreamTableCommit(ours, "us", CompactLater(ours))
    changes = write_changes(ours, rows("mon", value="c"), commit.follow_and_wait())
    with pytest.raises(OutdatedRowsError, match="changed the partition to 4 buckets") as raised:
        commit.commit_epoch(0, changes)
    assert raised.value.where == f"{table.location}/dt=mon"
    assert by_content(read_rows(table)) == by_content(
        [dict(row) for _, row in rows("mon", value="b")]
    )


SCHEMA_TIME = "schema 1 was made at 2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"changelog-producer": "input"}, "option 'changelog-producer' was none and is input"),
        ({"row-tracking.enabled": "true"}, "cannot write this table: row-tracking.enabled"),
    ],
    ids=["fixed option", "not ours to write"],
)
def test_a_schema_that_changes_under_way_stops_the_job(
    tmp_path: Path, change: dict[str, str], complaint: str
) -> None:
    table = a_table(tmp_path)
    writer = TableWriter(table, CompactLater, user="us")
    writer.write(rows("mon"))
    options = {**table.schema.options, **change}
    assert table.schemas.create(replace(table.schema, schema_id=1, options=options))
    with pytest.raises(CommitConflictError, match="got schema 1 under a job that began with") as e:
        writer.write(rows("mon", value="b"))
    assert complaint in e.value.problem
    assert f"{SCHEMA_TIME}, and no writer has committed by it yet" in e.value.problem
    assert e.value.where == f"{table.location}/schema/schema-1"
    assert "take the change back" in (e.value.fix or "")
    assert [row["v"] for row in read_rows(table)] == ["a", "a", "a"]
    assert len(files_on_disk(table, "data-")) == 1


def test_the_error_about_a_later_schema_names_its_first_commit(tmp_path: Path) -> None:
    """The error names the first later schema that conflicts; a harmless one precedes it."""
    table = a_table(tmp_path)
    writer = TableWriter(table, CompactLater, user="us")
    writer.write(rows("mon"))
    options = {**table.schema.options, "snapshot.num-retained.max": "99"}
    later = [replace(table.schema, schema_id=1, options=options)]
    options = {**options, "changelog-producer": "input"}
    later += [replace(table.schema, schema_id=number, options=options) for number in (2, 3)]
    for number, schema in enumerate(later):
        assert table.schemas.create(schema)
        if number < 2:
            TableWriter(replace(table, schema=schema), CompactLater, user=f"bob{number}").write([])
    with pytest.raises(CommitConflictError, match="got schema 2 under a job that began with") as e:
        writer.write(rows("mon", value="b"))
    assert "the first to commit by it was user bob1, in snapshot 3 (APPEND)" in e.value.problem
    assert e.value.where.endswith("schema/schema-2")


def test_columns_and_harmless_options_may_change_under_way(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    writer = TableWriter(table, CompactLater, user="us")
    writer.write(rows("mon"))
    options = {**table.schema.options, "snapshot.num-retained.max": "99"}
    added_field = DataField(field_id=9, name="c", data_type=parse_data_type("STRING"))
    schema = replace(
        table.schema,
        schema_id=1,
        options=options,
        fields=RowType((*table.schema.fields, added_field)),
    )
    assert table.schemas.create(schema)
    writer.write(rows("mon", value="b"))
    assert [snapshot.schema_id for snapshot in check_chain(table)] == [0, 1]
    expected = [{**row, "c": None} for _, row in rows("mon", value="b")]
    assert by_content(read_rows(open_file_store_table(table.location))) == by_content(expected)


def test_a_schema_that_is_gone_stops_the_job(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    later = replace(table.schema, schema_id=1)
    assert table.schemas.create(later)
    writer = TableWriter(open_file_store_table(table.location), user="us")
    Path(table.location, "schema", "schema-1").unlink()
    with pytest.raises(CommitConflictError, match="schema 1, by which it writes, is gone"):
        writer.write([])
