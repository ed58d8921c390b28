"""The expiry of random histories keeps the other versions readable, and leaves no file behind.

`tests.support.tables.expiring_table` derives what must lie on disk from the files that are named.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.planning.upkeep.expire_range import Retention, expire_config
from stream_app.table.upkeep.branches import (
    create_branch,
    plan_branch,
    plan_fast_forward,
)
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.tags import delete_tags, plan_tag_deletion
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.files.faulty_file_io import Fault, InjectedError, Mode
from tests.support.histories.version_history import (
    TABLES,
    History,
    a_history,
    assert_files_are_those_that_are_named,
    in_folder,
)
from tests.support.jobs.table_writer import by_content
from tests.support.tables.expire_now import expire
from tests.support.tables.expiring_table import (
    changes_of_all,
    files_on_disk,
    give_tag,
    make_branch,
    rows_of,
    versions,
)
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.mark.parametrize("kind", TABLES)
def test_what_stays_reads_as_ever_and_nothing_is_left_over(
    tmp_path: Path, seed: int, kind: str
) -> None:
    history = a_history(tmp_path, kind, seed)
    expired_count = 0
    for _ in range(9):
        history.step()
        history.protect()
        if history.rng.random() < 0.6:
            history.settle()
            expired_count += expire(history.table, **history.config())
            history.check()
    assert findings_of(history.table) == []
    history.table.consumers.delete("c")
    history.settle()
    expired_count += expire(history.table, num_max=1, num_min=1)
    assert expired_count > 5
    history.check()
    assert len(history.table.snapshots.ids()) == 1
    assert len(history.table.changelogs.ids()) == (3 if "kept" in kind else 0)


def with_a_tag(folder: Path, kind: str = "changelog files kept") -> History:
    """Versions with a tag on one of them, all settled."""
    history = a_history(folder, kind, 5)
    for _ in range(5):
        history.step()
    history.settle()
    give_tag(history.table, "t", 3)
    history.remember()
    return history


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("changelog files kept", "after"), ("changes kept", "before"), ("partitions", "before")],
)
def test_after_a_crash_what_stays_is_right_and_the_next_expiry_finishes(
    tmp_path: Path, kind: str, mode: Mode
) -> None:
    history = with_a_tag(tmp_path / "whole", kind)
    table, retention = history.table, {"num_max": 2, "num_min": 2}
    count = Fault()
    copied_folder = copytree(tmp_path / "whole", tmp_path / "counted")
    expire(in_folder(table, copied_folder, count), **retention)
    assert len(count.done) > 10
    for place in range(len(count.done)):
        fault = Fault(number=place, mode=mode, stays_dead=True)
        folder = copytree(tmp_path / "whole", tmp_path / str(place))
        with contextlib.suppress(InjectedError):  # a hint that cannot be written is not a failure
            expire(in_folder(table, folder, fault), **retention)
        assert fault.has_struck
        interrupted_table = in_folder(table, folder)
        latest = table.snapshots.latest_id()
        assert latest is not None
        for name, snapshot in versions(interrupted_table).items():
            if name == "t" or int(name) > latest - 2:
                assert rows_of(interrupted_table, snapshot) == history.rows[name]
        expire(interrupted_table, **retention)
        assert set(versions(interrupted_table)) == {"t", str(latest - 1), str(latest)}
        assert_files_are_those_that_are_named(interrupted_table)
        shutil.rmtree(folder)


def copytree(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_a_commit_goes_on_after_an_expiry(tmp_path: Path) -> None:
    """The expiry may have deleted the snapshots that the job remembers."""
    history = with_a_tag(tmp_path)
    for _ in range(3):
        expire(history.table, num_max=1, num_min=1)
        history.step()
    history.settle()
    history.check()
    assert rows_of(history.table, history.table.snapshots.snapshot(
        history.table.snapshots.latest_id() or 0
    )) == by_content(history.writer.model.rows())  # fmt: skip


def test_each_manifest_is_read_once(tmp_path: Path) -> None:
    history = with_a_tag(tmp_path, "changelog files")
    sizes = {path.name: path.stat().st_size for path in Path(tmp_path).rglob("*manifest-*")}
    file_io = CountingFileIO()
    expire(replace(history.table, file_io=file_io), num_max=1, num_min=1)
    read = {name: count for name, count in file_io.read.items() if name in sizes}
    assert len(read) > 10
    assert read == {name: sizes[name] for name in read}


def test_a_damaged_tag_keeps_all_files(tmp_path: Path) -> None:
    """The expiry cannot know which files the tag needs."""
    history = with_a_tag(tmp_path)
    table = history.table
    manifest = next(tag.snapshot.base_manifest_list for tag in table.tags.tags())
    Path(table.paths.manifest(manifest)).unlink()
    before = files_on_disk(table)
    with pytest.raises(CorruptFileError, match="manifest that a snapshot names is missing"):
        expire(table, num_max=1, num_min=1)
    assert files_on_disk(table) == before


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "k INT", ("k",)).table
    with pytest.raises(UsageError, match="snapshots to keep, 2, is below the minimum, 3"):
        expire(table, num_max=2, num_min=3)


def test_what_a_branch_got_before_the_table_was_fast_forwarded_to_it_stays(tmp_path: Path) -> None:
    """The table has its snapshots then, and lets them go; the branch is there as before."""
    history = a_history(tmp_path, "keyed", 5)
    table = history.table
    for _ in range(4):
        history.step()
    history.settle()
    shared_ids = table.snapshots.ids()
    for number in shared_ids[1:]:  # files and lists are the same, as after `fast_forward`
        make_branch(table, "b", number)
    for _ in range(4):
        history.step()
    history.settle()
    assert expire(table, num_max=1, num_min=1) > len(shared_ids)
    branch = SnapshotManager(table.file_io, f"{table.location}/branch/branch-b")
    for number in branch.ids():
        assert rows_of(table, branch.snapshot(number)) == history.rows[str(number)], number
    assert_files_are_those_that_are_named(table)


@pytest.mark.parametrize("kind", ["keyed", "changelog files kept", "changes kept", "deleted rows"])
def test_branches_expire_side_by_side_and_share_files(tmp_path: Path, seed: int, kind: str) -> None:
    history = a_history(tmp_path, kind, seed)
    for _ in range(3):
        history.step()
    history.settle()
    make_branch(history.table, "b", history.table.snapshots.ids()[-1])
    branch = history.of_branch("b")
    expired_counts = dict.fromkeys(("", "b"), 0)
    for _ in range(14):
        side = history.rng.choice((history, branch))
        side.step()
        if side.rng.random() < 0.5:
            number = side.rng.choice(side.table.snapshots.ids())
            give_tag(side.table, f"t{number}", number)
            side.remember()
        side.settle()
        if side.rng.random() < 0.6:
            expired_counts[side.table.branch] += expire(side.table, **side.config())
        if side.rng.random() < 0.2 and (names := side.table.tags.names()):
            delete_tags(side.table, plan_tag_deletion(side.table, names[:1]))
        history.check()
        branch.check()
    assert all(expired_counts.values())
    for side in (branch, history):
        expire(side.table, num_max=1, num_min=1)
    history.check()
    branch.check()
    assert findings_of(history.table) == []


def test_a_tag_keeps_its_metadata_when_changelogs_of_an_older_producer_expire(
    tmp_path: Path,
) -> None:
    """Flushed files were the changelog, so lists were kept; those of later changelogs are gone."""
    history = a_history(tmp_path, "changes kept", 5, manifest__merge_min_count=8)
    for _ in range(4):
        history.step()
    history.settle()
    table = history.table
    last = table.snapshots.latest_id() or 0
    expire(table, num_max=1, num_min=1)
    for _ in range(6):
        history.step()
    history.settle()
    latest = table.snapshots.latest_id() or 0
    options = {**table.schema.options, "changelog-producer": "input"}
    later = replace(table, schema=replace(table.schema, options=options))
    give_tag(later, "t", last + 2)
    history.remember()
    config = expire_config(later.options, num_max=1, num_min=1)
    ExpireSnapshots(later).execute(plan := ExpireSnapshots(later).plan(config))
    assert len(plan.versions) == latest - last
    retention = Retention(num_max=latest - last, num_min=latest - last, retained_ms=0)
    changelogs = ExpireChangelogs(later)
    changelogs.execute(changelogs.plan(replace(config, changelog_retention=retention)))
    assert later.changelogs.ids()[0] == last + 1
    assert rows_of(later, versions(later)["t"]) == history.rows["t"]


def a_branch_of_an_expired_snapshot(folder: Path, kind: str) -> tuple[History, History]:
    """The main branch with one snapshot, and a branch of a tag of an earlier one."""
    history = a_history(folder, kind, 3)
    for _ in range(3):
        history.writer.write(history.changes.epoch(6))
    give_tag(history.table, "t", 2)
    history.remember()
    expire(history.table, num_max=1, num_min=1)
    create_branch(history.table, "b", plan_branch(history.table, "b", "t"))
    return history, history.of_branch("b")


def test_a_branch_of_an_expired_snapshot_has_no_changelog_of_it(tmp_path: Path) -> None:
    history, branch = a_branch_of_an_expired_snapshot(tmp_path, "changelog files")
    assert changes_of_all(branch.table) == {}
    for side in (branch, history):
        side.step()
        side.settle()
    branch.check()
    history.check()


def test_a_changelog_goes_though_a_tag_of_another_branch_names_it(tmp_path: Path) -> None:
    history = a_history(tmp_path, "changelog files", 3)
    history.writer.write(history.changes.epoch(6))
    give_tag(history.table, "t", 1)
    create_branch(history.table, "b", plan_branch(history.table, "b", "t"))
    branch = history.of_branch("b")
    for side in (history, branch):
        side.writer.write(side.changes.epoch(6))
        side.remember()
        side.settle()
    for side in (branch, history):
        assert expire(side.table, num_max=1, num_min=1) == 1
    history.check()


def test_changelogs_of_another_history_are_not_mixed_with_a_branch(tmp_path: Path) -> None:
    """The branch has lost its beginning, and the main branch its snapshot of that number."""
    history, branch = a_branch_of_an_expired_snapshot(tmp_path, "changes kept")
    for _ in range(3):
        branch.writer.write(branch.changes.epoch(6))
    expire(branch.table, num_max=3, num_min=3)
    plan = plan_fast_forward(history.table, "b")  # by the tag at which the branch began
    delete_tags(branch.table, plan_tag_deletion(branch.table, ["t"]))
    history.writer.write(history.changes.epoch(6))
    expire(history.table, num_max=1, num_min=1)
    with pytest.raises(UsageError, match="does not begin at a snapshot"):
        plan_fast_forward(history.table, "b")
    assert plan.rollback is not None
