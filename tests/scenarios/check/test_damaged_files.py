"""`check` reports each damaged file, the versions that need it, and the next step."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.expiring_table import give_tag, make_branch
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")

LONG_AFTER_MS = 10**14


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Snapshots 1 to 7; 3 is a compaction of the files before it, as 6; 1 has a tag."""
    table = small_table(
        tmp_path_factory.mktemp("sound") / "a shop.db" / "t", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=2, changelog_producer="input",
    )  # fmt: skip
    for epoch in range(4):
        table.commit(*(("+I", {"k": key, "v": f"v{epoch}"}) for key in range(5)))
        if epoch:
            table.compact()
    give_tag(table.table, "first", 1)
    assert len(table.table.snapshots.ids()) == 7
    return Path(table.path)


@pytest.fixture
def table(sound: Path, tmp_path: Path) -> FileStoreTable:
    return open_file_store_table(str(shutil.copytree(sound, tmp_path / "a shop.db" / "t")))


def added_files(table: FileStoreTable, number: int) -> list[Path]:
    """The data files that a snapshot brings."""
    entries = FileStoreScan(table).delta(table.snapshots.snapshot(number))
    return [path_of(table, entry) for entry in entries if entry.kind is FileKind.ADD]


def path_of(table: FileStoreTable, entry: ManifestEntry) -> Path:
    return Path(table.paths.data_file(entry.partition, entry.bucket, entry.file))


def manifest(table: FileStoreTable, name: str | None) -> Path:
    assert name is not None
    return Path(table.paths.manifest(name))


def data_of_first(table: FileStoreTable) -> Path:
    return added_files(table, 1)[0]


def data_of_fourth(table: FileStoreTable) -> Path:
    return added_files(table, 4)[0]


def data_of_last(table: FileStoreTable) -> Path:
    return added_files(table, 7)[0]


def changelog_of_fourth(table: FileStoreTable) -> Path:
    entries = FileStoreScan(table).changelog(table.snapshots.snapshot(4))
    return path_of(table, entries[0])


def changelog_list_of_second(table: FileStoreTable) -> Path:
    return manifest(table, table.snapshots.snapshot(2).changelog_manifest_list)


def delta_list_of_second(table: FileStoreTable) -> Path:
    return manifest(table, table.snapshots.snapshot(2).delta_manifest_list)


def delta_manifest_of_last(table: FileStoreTable) -> Path:
    name = table.snapshots.snapshot(7).delta_manifest_list
    return manifest(table, table.manifests.read_list(name)[0].file_name)


def base_list_of_last(table: FileStoreTable) -> Path:
    return manifest(table, table.snapshots.snapshot(7).base_manifest_list)


def third_snapshot(table: FileStoreTable) -> Path:
    return Path(table.location, "snapshot", "snapshot-3")


def last_snapshot(table: FileStoreTable) -> Path:
    return Path(table.location, "snapshot", "snapshot-7")


def tag(table: FileStoreTable) -> Path:
    return Path(table.location, "tag", "tag-first")


NEEDED: dict[Callable[[FileStoreTable], Path], str] = {
    data_of_first: "snapshots 1 to 2, tag 'first'",
    data_of_fourth: "snapshot 4",
    data_of_last: "snapshot 7",
    changelog_of_fourth: "the changes of snapshot 4",
    changelog_list_of_second: "the changes of snapshot 2",
    delta_list_of_second: "snapshot 2",
    delta_manifest_of_last: "snapshot 7",
    base_list_of_last: "snapshot 7",
    third_snapshot: "snapshot 3",
    last_snapshot: "snapshot 7",
    tag: "tag 'first'",
}


@pytest.mark.parametrize("damage", NEEDED, ids=lambda damage: damage.__name__)
def test_check_names_the_versions_that_need_a_damaged_file(
    table: FileStoreTable, damage: Callable[[FileStoreTable], Path]
) -> None:
    path = damage(table)
    path.write_bytes(path.read_bytes()[:-9])
    finding = next(finding for finding in findings_of(table) if finding.where == str(path))
    assert finding.needed_by == NEEDED[damage]
    if finding.needed_by != "snapshot 7":
        assert finding.fix.endswith("stream-app expire-snapshots, delete-tag")
        return
    assert main(rollback_of(finding.fix)) == 0
    delete_orphans(table, plan_orphans(table, LONG_AFTER_MS))
    assert findings_of(table) == []


def rollback_of(fix: str) -> list[str]:
    """The words of the command at the end of an advice, without the program's name."""
    return shlex.split(fix.split(": stream-app ", 1)[1])


def test_the_latest_version_is_spoken_of(table: FileStoreTable) -> None:
    data_of_fourth(table).unlink()
    assert "the latest version does not need it" in findings_of(table)[0].fix
    changelog_of_fourth(table).unlink()
    assert any("no row depends on it" in finding.fix for finding in findings_of(table))
    data_of_last(table).unlink()
    assert any("the latest version needs it" in finding.fix for finding in findings_of(table))


def test_check_proposes_no_rollback_to_a_damaged_version(table: FileStoreTable) -> None:
    for number in (5, 6, 7):
        for path in added_files(table, number):
            path.unlink(missing_ok=True)
    fixes = {finding.where: finding.fix for finding in findings_of(table)}
    assert "rollback-to" in fixes[str(data_of_last(table))]
    assert "--snapshot 4" in fixes[str(data_of_last(table))]


def test_where_no_version_is_whole_a_backup_alone_helps(table: FileStoreTable) -> None:
    for number in table.snapshots.ids():
        for path in added_files(table, number):
            path.unlink(missing_ok=True)
    fix = next(
        finding.fix for finding in findings_of(table) if finding.where == str(data_of_last(table))
    )
    assert "no other version is whole" in fix
    assert "stream-app" not in fix


def test_a_branch_that_needs_a_file_is_named(table: FileStoreTable) -> None:
    make_branch(table, "dev", 2)
    path = data_of_first(table)
    path.unlink()
    finding = next(finding for finding in findings_of(table) if finding.where == str(path))
    assert finding.needed_by == "snapshots 1 to 2, tag 'first'; snapshot 2 of branch 'dev'"


def test_a_tag_of_a_snapshot_whose_file_is_damaged_is_none_to_go_back_to(
    table: FileStoreTable,
) -> None:
    give_tag(table, "last", 7)
    last_snapshot(table).write_bytes(b"")
    finding = next(
        finding for finding in findings_of(table) if finding.where == str(last_snapshot(table))
    )
    assert "rollback-to" in finding.fix
    assert finding.fix.endswith("--snapshot 6")


def test_a_summary_names_what_is_damaged_and_a_version_without_damage(
    table: FileStoreTable, capsys: pytest.CaptureFixture[str]
) -> None:
    data_of_first(table).unlink()
    data_of_last(table).unlink()
    assert main(["check", table.location, "--quick"]) == 1
    damage_line, fix = capsys.readouterr().out.splitlines()[-3:-1]
    assert damage_line == "damaged: snapshots 1 to 2, 7, tag 'first'"
    assert rollback_of(fix) == ["rollback-to", table.location, "--snapshot", "6"]
