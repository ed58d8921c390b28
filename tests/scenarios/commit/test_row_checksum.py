"""The checksum in a snapshot equals the checksum of the rows that readers get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.inspect.overview import overview
from stream_app.errors import CommitConflictError
from stream_app.format.binary_row import serialize_row
from stream_app.model.checksum.sum_record import SUMS_OF_EMPTY_TABLE, SumRecord
from stream_app.model.options.write_options import ROW_CHECKSUM
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, ROW_SUM_PROPERTY, Snapshot
from stream_app.table.analyze.checksum_restoration import publish_row_checksum
from stream_app.table.check.table_check import TableCheck
from stream_app.table.commit.batch_commit import ANALYSIS, batch_commit
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.sum_record_of_rows import sum_record_of_rows
from stream_app.table.versions.base_sum_record import base_sum_record
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.small_table import Change, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
ON = {ROW_CHECKSUM.key: "true"}


def a_table(folder: Path, keys: tuple[str, ...] = ("dt", "k"), **options: Any) -> FileStoreTable:
    columns = "dt STRING NOT NULL, k INT NOT NULL, v STRING"
    texts = {name.replace("_", "-"): str(value) for name, value in options.items()}
    return small_table(
        folder / "db.db" / "t", columns, keys, ("dt",), **{"bucket": "1", **ON, **texts}
    ).table


def row(k: int, v: str | None, dt: str = "mon") -> dict[str, Any]:
    return {"dt": dt, "k": k, "v": v}


FIRST: list[Change] = [("+I", row(k, "a", dt)) for k in range(4) for dt in ("mon", "tue")]
SECOND: list[Change] = [
    ("-U", row(1, "a")), ("+U", row(1, None)), ("-D", row(2, "a")), ("+I", row(9, "é", "wed")),
]  # fmt: skip


def latest_snapshot(table: FileStoreTable) -> Snapshot:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def is_right(table: FileStoreTable, snapshot: Snapshot | None = None) -> bool:
    snapshot = snapshot or latest_snapshot(table)
    record, rows = base_sum_record(table, snapshot), sum_record_of_rows(table, snapshot, threads=1)
    return record.is_whole and record == rows


def findings(table: FileStoreTable) -> tuple[list[str], list[str]]:
    check = TableCheck(table, is_quick=False, progress=lambda *_: None)
    return [finding.kind.value for finding in check.findings()], check.report.unchecked_parts


def shown_checksum(table: FileStoreTable) -> str:
    """Return the checksum as the overview shows it."""
    return overview(table, table.snapshots.latest()).checksum or ""


def test_a_table_without_a_changelog_says_why_it_has_no_checksum(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    TableWriter(table).write(FIRST)
    assert (
        shown_checksum(table) == "none: without a changelog its writers do not read the older rows"
    )
    assert ROW_SUM_PROPERTY not in (latest_snapshot(table).properties or {})


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_every_epoch_carries_the_checksum_of_its_rows(tmp_path: Path, producer: str) -> None:
    table = a_table(tmp_path, changelog_producer=producer)
    writer = TableWriter(table)
    writer.write(FIRST)
    assert is_right(table)
    writer.write(SECOND)
    assert is_right(table)
    assert base_sum_record(table, latest_snapshot(table)).total.row_count == 8
    assert findings(table) == ([], [])


def test_rows_without_a_key_add_up_through_compactions(tmp_path: Path) -> None:
    table = a_table(tmp_path, keys=(), bucket=-1, **{"compaction.min.file-num": 2})
    writer = TableWriter(table)
    for _ in range(4):
        writer.write(FIRST)
    writer.commit.compact_fully()
    assert is_right(table)
    assert base_sum_record(table, latest_snapshot(table)).total.row_count == 32


def test_a_dropped_partition_takes_its_rows_along_and_a_truncate_all(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="input")
    TableWriter(table).write(FIRST)
    monday = serialize_row(["mon"], table.schema.partition_type.types)
    batch_commit(table).drop_partitions([monday], BATCH_COMMIT_IDENTIFIER)
    assert is_right(table)
    assert base_sum_record(table, latest_snapshot(table)).total.row_count == 4
    batch_commit(table).truncate(BATCH_COMMIT_IDENTIFIER)
    assert base_sum_record(table, latest_snapshot(table)) == SUMS_OF_EMPTY_TABLE


def test_updates_without_the_row_before_make_the_checksum_unknown(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="input")
    writer = TableWriter(table)
    writer.write(FIRST)
    writer.write([("+U", row(1, "b"))])
    assert not base_sum_record(table, latest_snapshot(table)).is_whole
    assert "stream-app analyze" in findings(table)[1][0]
    assert "unknown since snapshot 2" in shown_checksum(table)
    checksum_snapshot = publish_row_checksum(table, threads=1)
    assert checksum_snapshot is not None
    assert is_right(table)
    assert f"{base_sum_record(table, checksum_snapshot).total.digits}, of 8 rows" in shown_checksum(
        table
    )


def test_doubled_changes_are_found_until_the_checksum_is_computed_again(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="input")
    writer = TableWriter(table)
    writer.write(FIRST)
    writer.write(FIRST[:1])
    assert findings(table)[0] == ["checksum"]
    publish_row_checksum(table, threads=1)
    assert findings(table) == ([], [])


def without_checksum(table: FileStoreTable) -> FileStoreTable:
    """The table as another engine sees it, which carries no property."""
    options = {**table.schema.options, ROW_CHECKSUM.key: "false"}
    return replace(table, schema=replace(table.schema, options=options))


def test_a_checksum_is_computed_beside_a_running_job(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="lookup")
    TableWriter(without_checksum(table), user="other").write(FIRST)
    assert ROW_SUM_PROPERTY not in (latest_snapshot(table).properties or {})
    writer = TableWriter(table)
    snapshot = latest_snapshot(table)
    rows, record = sum_record_of_rows(table, snapshot, threads=1), base_sum_record(table, snapshot)
    writer.write(SECOND)
    assert not base_sum_record(table, latest_snapshot(table)).is_whole
    checksum_snapshot = publish_row_checksum(table, threads=1)
    assert checksum_snapshot is not None
    assert is_right(table)
    assert rows.total != base_sum_record(table, checksum_snapshot).total
    assert record.origin_id == snapshot.snapshot_id
    writer.write([("+I", row(77, "z"))])
    assert is_right(table)


def test_a_commit_without_a_checksum_conflicts_with_computing_one(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="input")
    TableWriter(table).write(FIRST)
    committer = FileStoreCommit(table, CommitHistory(table, "batch", latest_snapshot(table)))

    def refuses(below: SumRecord) -> SumRecord:
        raise CommitConflictError(f"origin {below.origin_id}", where="", fix="")

    with pytest.raises(CommitConflictError, match="origin 0"):
        committer.commit_analysis(ANALYSIS, next_sum_record=refuses)


def test_many_partitions_share_one_checksum(tmp_path: Path) -> None:
    table = a_table(tmp_path, changelog_producer="input")
    TableWriter(table).write([("+I", row(1, "a", f"day {day}")) for day in range(70)])
    record = base_sum_record(table, latest_snapshot(table))
    assert record.partitions is None
    assert record.total == sum_record_of_rows(table, latest_snapshot(table), threads=1).total
