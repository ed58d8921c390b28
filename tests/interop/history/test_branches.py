"""Paimon reads and writes our branches, and we Paimon's; a branch can become the main one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.filestore.versions.announcement_files import ExpiryAnnouncement
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import create_or_open, open_file_store_table, require_writable
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.branches import fast_forward, plan_fast_forward
from stream_app.table.upkeep.orphan_files import plan_orphans
from tests.support.interop.compacted_tables import compact_fully
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

FAR_FUTURE_MS = 10**15
KINDS = {
    "keyed": ("k",),
    "append": (),
}


def schema_of(kind: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("k INT, v STRING"),
        primary_keys=KINDS[kind],
        partition_keys=(),
        options={"bucket": "1" if kind == "keyed" else "-1", "snapshot.num-retained.min": "1"},
        time_ms=TIME_MS,
    )


def rows(epoch: int, keys: Sequence[int]) -> list[Change]:
    return [("+I", {"k": k, "v": f"{k} of {epoch}"}) for k in keys]


def branch_of(path: Path, name: str) -> str:
    return f"{path}$branch_{name}"


def read(path: Path | str) -> list[str]:
    return by_content(normal_rows(stream_app.open_table(str(path)).read().read_all()))


def java_rows(paimon_java: PaimonJava, path: Path | str) -> list[str]:
    java: list[Row] = paimon_java.read(path)
    return by_content(java)


def writer_of(path: Path | str, user: str) -> TableWriter:
    return TableWriter(
        require_writable(open_file_store_table(str(path))), CompactInCaller, user=user
    )


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two epochs and the tag ``begin``."""
    path = tmp_path / "db.db" / "t"
    create_or_open(str(path), schema_of(request.param), SteppingClock())
    writer = writer_of(path, "main")
    for epoch in range(2):
        writer.write(rows(epoch, range(epoch, 8)))
    writer.commit.compact_due()
    assert main(["create-tag", str(path), "begin"]) == 0
    assert main(["branch", "create", str(path), "side", "--tag", "begin"]) == 0
    return path


def test_both_write_and_compact_a_branch(paimon_java: PaimonJava, table: Path) -> None:
    side, before = branch_of(table, "side"), read(table)
    assert read(side) == java_rows(paimon_java, side) == before
    writer = writer_of(side, "side")
    for epoch in range(10, 16):
        if epoch % 3:
            writer.write(rows(epoch, range(epoch, epoch + 4)))
        else:
            paimon_java.write(side, rows(epoch, range(epoch, epoch + 4)), identifier=epoch)
        assert read(side) == java_rows(paimon_java, side)
    writer.commit.compact_due()
    compact_fully(open_file_store_table(side))
    assert read(side) == java_rows(paimon_java, side) != before
    paimon_java.compact(side)
    assert read(side) == java_rows(paimon_java, side)
    assert read(table) == java_rows(paimon_java, table) == before
    assert sound_report(open_file_store_table(str(table))).branch_count == 1


def test_the_main_branch_follows_a_branch(
    paimon_java: PaimonJava, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side = branch_of(table, "side")
    writer_of(table, "later").write(rows(5, [77]))
    alter_table(
        open_file_store_table(side),
        [AddColumn(name="w", data_type=parse_columns("w INT").types[0])],
    )
    writer_of(side, "side").write([("+I", {"k": 9, "v": "of side", "w": 1})])
    assert main(["create-tag", str(table), "doomed"]) == 0
    expected = read(side)
    capsys.readouterr()
    command = ["branch", "fast-forward", str(table), "side"]
    assert main([*command, "--dry-run"]) == 0
    assert "of the main branch are deleted" in capsys.readouterr().out
    assert read(table) != expected
    assert main(command) == 0
    assert main(command) == 0, "it may be repeated"
    assert read(table) == java_rows(paimon_java, table) == expected
    assert set(open_file_store_table(str(table)).tags.names()) == {"begin"}
    writer_of(table, "again").write([("+I", {"k": 10, "v": "of main", "w": 2})])
    paimon_java.write(table, [("+I", {"k": 11, "v": "of Java", "w": 3})], identifier=99)
    assert len(read(table)) == len(expected) + 2
    assert read(side) == expected
    sound_report(open_file_store_table(str(table)))
    assert plan_orphans(open_file_store_table(str(table)), FAR_FUTURE_MS).files == ()


def test_upkeep_of_the_main_branch_keeps_a_branch_until_it_is_deleted(
    paimon_java: PaimonJava, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side, expected = branch_of(table, "side"), read(branch_of(table, "side"))
    writer = writer_of(table, "later")
    for epoch in range(3, 7):
        writer.write(rows(epoch, range(8)))
    writer.commit.compact_due()
    compact_fully(open_file_store_table(str(table)))
    assert main(["delete-tag", str(table), "begin"]) == 0
    expire = ["expire-snapshots", str(table), "--retain-max", "1", "--retain-min", "1"]
    assert main(expire) == 0
    assert read(side) == java_rows(paimon_java, side) == expected
    capsys.readouterr()
    assert main(["branch", "list", str(table)]) == 0
    assert capsys.readouterr().out.startswith("side: snapshots ")
    assert main(["branch", "delete", str(table), "side"]) == 0
    assert not Path(table, "branch", "branch-side").exists()
    with pytest.raises(TableNotFoundError, match="no branch 'side'"):
        open_file_store_table(side)
    orphans = plan_orphans(open_file_store_table(str(table)), FAR_FUTURE_MS).files
    assert orphans
    assert java_rows(paimon_java, table) == read(table)


def test_a_branch_without_a_tag_begins_without_rows(paimon_java: PaimonJava, table: Path) -> None:
    assert main(["branch", "create", str(table), "empty"]) == 0
    empty = branch_of(table, "empty")
    assert read(empty) == []
    writer_of(empty, "empty").write(rows(1, [1]))
    assert read(empty) == java_rows(paimon_java, empty)
    with pytest.raises(UsageError, match="does not begin at a snapshot"):
        plan_fast_forward(open_file_store_table(str(table)), "empty")


def test_upkeep_of_a_branch_keeps_the_main_branch(paimon_java: PaimonJava, table: Path) -> None:
    side, of_main = branch_of(table, "side"), read(table)
    writer = writer_of(side, "side")
    for epoch in range(20):
        writer.write(rows(epoch, [epoch % 5]))
    writer.commit.compact_due()
    assert main(["create-tag", side, "kept"]) == 0
    before = read(side)
    writer.write(rows(99, range(5)))
    writer.commit.compact_due()
    compact_fully(open_file_store_table(side))
    assert main(["delete-tag", side, "begin"]) == 0
    assert main(["create-tag", side, "later"]) == 0
    assert main(["expire-snapshots", side, "--retain-max", "1", "--retain-min", "1"]) == 0
    assert len(open_file_store_table(side).snapshots.ids()) == 1
    assert read(table) == java_rows(paimon_java, table) == of_main
    assert read(side) == java_rows(paimon_java, side)
    assert main(["rollback-to", side, "--tag", "kept"]) == 0
    assert read(side) == java_rows(paimon_java, side) == before
    assert set(open_file_store_table(side).tags.names()) == {"kept"}
    paimon_java.write(side, rows(100, [100]), identifier=1000)
    assert read(side) == java_rows(paimon_java, side) != before
    assert main(["delete-tag", side, "kept"]) == 0
    sound_report(open_file_store_table(str(table)))
    assert main(["remove-orphan-files", side, "--dry-run"]) == 2
    assert plan_orphans(open_file_store_table(str(table)), FAR_FUTURE_MS).files == ()


def test_the_main_branch_follows_one_whose_first_snapshots_have_expired(
    paimon_java: PaimonJava, table: Path
) -> None:
    side = branch_of(table, "side")
    writer = writer_of(side, "side")
    for epoch in range(4):
        writer.write(rows(epoch, [epoch]))
    writer.commit.compact_due()
    assert main(["expire-snapshots", side, "--retain-max", "1", "--retain-min", "1"]) == 0
    expected = read(side)
    assert read(table) != expected
    assert main(["branch", "fast-forward", str(table), "side"]) == 0
    assert read(table) == java_rows(paimon_java, table) == expected
    writer_of(table, "again").write(rows(7, [7]))
    paimon_java.write(table, rows(8, [8]), identifier=99)
    assert read(table) == java_rows(paimon_java, table) != expected
    assert main(["expire-snapshots", str(table), "--retain-max", "1", "--retain-min", "1"]) == 0
    assert read(side) == java_rows(paimon_java, side) == expected
    sound_report(open_file_store_table(str(table)))


def test_a_branch_is_not_followed_while_its_snapshots_expire(table: Path) -> None:
    side = open_file_store_table(branch_of(table, "side"))
    first = side.snapshots.snapshot(side.snapshots.ids()[0])
    announcement = ExpiryAnnouncement(
        start=1, end=first.snapshot_id, end_list=first.delta_manifest_list
    )
    announced_path = side.expiry_announcements.announce(announcement)
    plan = plan_fast_forward(open_file_store_table(str(table)), "side")
    with pytest.raises(UsageError, match="an expiry is deleting snapshots of the branch"):
        fast_forward(open_file_store_table(str(table)), plan)
    side.expiry_announcements.withdraw(announced_path)
    assert side.rollback_announcements.announcements() == {}
    fast_forward(open_file_store_table(str(table)), plan)


def test_a_job_keeps_a_branch_small(table: Path) -> None:
    side = branch_of(table, "side")
    options = {"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"}
    of_side = require_writable(open_file_store_table(side).with_options(options))
    upkeep = TableMaintenance(of_side)
    writer = TableWriter(of_side, CompactInCaller, user="side")
    for epoch in range(9):
        writer.write(rows(epoch, [epoch]))
        upkeep.after_commit()
    upkeep.close()
    assert len(of_side.snapshots.ids()) == 2
    assert upkeep.metrics().failures == 0
    sound_report(open_file_store_table(str(table)))
