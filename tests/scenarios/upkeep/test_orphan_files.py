"""The removal of orphans deletes the files of crashes, and keeps files that are named or young."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_branch
from stream_app.table.upkeep.orphan_files import orphan_cutoff_ms
from tests.support.files.faulty_file_io import Fault, InjectedError
from tests.support.histories.tagged_history import (
    remove_orphans,
    roll_back_to,
    tag_or_not,
    with_tags,
)
from tests.support.histories.version_history import TABLES, a_history, in_folder
from tests.support.tables.expire_now import expire
from tests.support.tables.expiring_table import (
    changes_of_all,
    files_on_disk,
    files_that_are_named,
    files_that_later_changelogs_drop,
    give_tag,
    make_branch,
    rows_of,
    versions,
)
from tests.support.tables.small_table import SteppingClock, small_table
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")


@dataclass(frozen=True)
class MeanwhileIO(LocalFileIO):
    """Something happens before the folders and files of versions are looked at for the n-th time.

    Attributes:
        looks_left: how many looks are left until then.
    """

    happens: Callable[[], None]
    looks_left: list[int]

    def list_names(self, folder: str) -> list[str]:
        self._look()
        return LocalFileIO.list_names(self, folder)

    def read_bytes(self, path: str) -> bytes:
        if Path(path).parent.name in ("snapshot", "tag", "changelog"):
            self._look()
        return LocalFileIO.read_bytes(self, path)

    def _look(self) -> None:
        self.looks_left[0] -= 1
        if self.looks_left[0] == -1:
            self.happens()


def litter(table: FileStoreTable) -> set[str]:
    """Files that died writers leave behind."""
    paths = (
        "bucket-0/data-x.parquet", "manifest/manifest-x", "manifest/manifest-list-x",
        "index/index-x", "statistics/stat-x", "snapshot/.snapshot-9.x.tmp", ".probe-x",
    )  # fmt: skip
    for path in paths:
        file = Path(table.location, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return {Path(path).name for path in paths}


@pytest.mark.parametrize("kind", TABLES)
def test_the_removal_keeps_files_that_versions_name(tmp_path: Path, seed: int, kind: str) -> None:
    history = a_history(tmp_path, kind, seed)
    table = history.table
    for _ in range(5):
        history.step()
        history.settle()
        tag_or_not(history)
    make_branch(table, "b", table.snapshots.ids()[-1])
    history.branches.append(table.snapshots.snapshot(table.snapshots.ids()[-1]))
    history.rows["branch"] = history.rows[str(table.snapshots.ids()[-1])]
    expire(table, num_max=2, num_min=2)
    roll_back_to(table, snapshot=table.snapshots.ids()[0])
    if table.schema.partition_keys:
        Path(table.location, "p=7", "bucket-0").mkdir(parents=True)
    orphan_names = litter(table) if not table.schema.partition_keys else set()
    deleted_names = set(remove_orphans(table))
    assert orphan_names <= deleted_names
    history.check()
    assert files_on_disk(table) - files_that_are_named(table) <= files_that_later_changelogs_drop(
        table
    )
    assert not Path(table.location, "p=7").exists()
    assert remove_orphans(table) == []


def test_young_files_stay(tmp_path: Path) -> None:
    table = with_tags(tmp_path).table
    names = litter(table)
    old = Path(table.location, "manifest", "manifest-x")
    os.utime(old, (1000, 1000))
    assert remove_orphans(table, 2_000_000) == ["manifest-x"]
    assert names - {"manifest-x"} <= {path.name for path in Path(table.location).rglob("*x*")}


def test_foreign_files_and_folders_stay(tmp_path: Path) -> None:
    table = with_tags(tmp_path).table
    for path in ("README", "notes/a.txt", "metadata/v1.json", "bucket-x/sub/file"):
        Path(table.location, path).parent.mkdir(parents=True, exist_ok=True)
        Path(table.location, path).write_bytes(b"x")
    assert remove_orphans(table) == []
    assert Path(table.location, "bucket-x/sub/file").exists()


@pytest.mark.parametrize("ahead_s", [2 * 86_400, 30, -2 * 86_400])
def test_a_clock_that_is_ahead_ages_no_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead_s: int
) -> None:
    """A job has written and not committed; the cleaner's clock differs from the files'."""
    table = with_tags(tmp_path).table
    names = litter(table)
    old = Path(table.location, "manifest", "manifest-x")
    os.utime(old, (1000, 1000))
    skewed_table = replace(table, clock=SteppingClock(time.time_ns() // 1_000_000 + ahead_s * 1000))
    assert remove_orphans(skewed_table, orphan_cutoff_ms(skewed_table, 86_400_000)) == [
        "manifest-x"
    ]
    assert names - {"manifest-x"} <= {path.name for path in Path(table.location).rglob("*x*")}
    assert [path.name for path in Path(table.location).glob(".*")] == [".probe-x"]
    warnings = [message for message in caplog.messages if "the clock of this machine" in message]
    assert len(warnings) == (abs(ahead_s) > 60)
    assert all(("ahead of" if ahead_s > 0 else "behind") in message for message in warnings)


@pytest.mark.parametrize("version_kind", ["snapshot", "tag"])
def test_nothing_goes_while_a_version_cannot_be_read(tmp_path: Path, version_kind: str) -> None:
    table = with_tags(tmp_path).table
    litter(table)
    latest = table.snapshots.latest()
    version = latest if version_kind == "snapshot" else table.tags.tags()[0].snapshot
    assert version is not None
    name = table.manifests.read_list(version.delta_manifest_list)[0].file_name
    Path(table.paths.manifest(name)).unlink()
    before = files_on_disk(table)
    with pytest.raises(CorruptFileError, match="nothing is deleted"):
        remove_orphans(table)
    assert files_on_disk(table) == before


@pytest.mark.parametrize("in_part", [False, True])
def test_a_branch_need_not_have_its_changelog(tmp_path: Path, in_part: bool) -> None:
    """Paimon's expiry deletes the changelogs of the main table, and does not look at branches."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), changelog_producer="input")
    for number in range(3):
        small.commit(("+I", {"k": number, "v": "a"}))
    table = small.table
    give_tag(table, "b", 2)
    make_branch(table, "b", 2)
    for number in (1, 2):
        snapshot = table.snapshots.snapshot(number)
        assert snapshot.changelog_manifest_list is not None
        for meta in table.manifests.read_list(snapshot.changelog_manifest_list):
            for entry in table.manifests.read_manifest(meta.file_name):
                Path(table.paths.data_file(entry.partition, entry.bucket, entry.file)).unlink()
            Path(table.paths.manifest(meta.file_name)).unlink()
        if not in_part:
            Path(table.paths.manifest(snapshot.changelog_manifest_list)).unlink()
        table.snapshots.delete(number)
    table.snapshots.write_earliest_hint(3)
    litter(table)
    rows = rows_of(table, table.tags.tags()[0].snapshot)
    assert "manifest-x" in remove_orphans(table)
    branch = open_branch(table, "b")
    assert branch is not None
    assert rows_of(branch, branch.snapshots.snapshot(2)) == rows
    assert in_part or findings_of(table) == []
    Path(table.paths.manifest(branch.snapshots.snapshot(2).delta_manifest_list)).unlink()
    table.tags.delete("b")
    with pytest.raises(CorruptFileError, match="nothing is deleted"):
        remove_orphans(table)


@pytest.mark.parametrize("kind", ["changelog files kept", "changes kept"])
def test_what_gets_another_name_while_names_are_read_stays(tmp_path: Path, kind: str) -> None:
    """A snapshot's data goes on as a tag's, its changes as a long-lived changelog's."""
    history = a_history(tmp_path / "whole", kind, 5)
    for _ in range(5):
        history.step()
    history.settle()
    first = history.table.snapshots.ids()[0]
    history.rows["late"] = history.rows[str(first)]
    place, has_happened = 0, True
    while has_happened:
        shutil.copytree(tmp_path / "whole", tmp_path / str(place))
        copied_table = in_folder(history.table, tmp_path / str(place))

        def meanwhile(table: FileStoreTable = copied_table) -> None:
            give_tag(table, "late", first)
            expire(table, num_max=1, num_min=1)

        file_io = MeanwhileIO(meanwhile, [place])
        remove_orphans(replace(copied_table, file_io=file_io))
        has_happened = file_io.looks_left[0] < 0
        for name, snapshot in versions(copied_table).items():
            assert rows_of(copied_table, snapshot) == history.rows[name], (place, name)
        for number, texts in changes_of_all(copied_table).items():
            assert texts == history.changes_seen[number], (place, number)
        shutil.rmtree(tmp_path / str(place))
        place += 1
    assert place > 10


def test_a_crash_leaves_work_for_the_next_time(tmp_path: Path) -> None:
    history = with_tags(tmp_path / "whole")
    litter(history.table)
    count = Fault()
    shutil.copytree(tmp_path / "whole", tmp_path / "counted")
    remove_orphans(in_folder(history.table, tmp_path / "counted", count))
    assert len(count.done) >= 6
    for place in range(len(count.done)):
        folder = tmp_path / str(place)
        shutil.copytree(tmp_path / "whole", folder)
        fault = Fault(number=place, stays_dead=True)
        with contextlib.suppress(InjectedError):
            remove_orphans(in_folder(history.table, folder, fault))
        assert fault.has_struck
        interrupted_table = in_folder(history.table, folder)
        remove_orphans(interrupted_table)
        assert files_on_disk(interrupted_table) == files_that_are_named(interrupted_table)
        for name, snapshot in versions(interrupted_table).items():
            assert rows_of(interrupted_table, snapshot) == history.rows[name]
