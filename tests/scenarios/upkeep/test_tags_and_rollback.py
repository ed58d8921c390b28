"""Tags and rollbacks keep the other versions readable, and leave no file behind.

Histories and what must lie on disk are those of the tests of expiry.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.errors import CheckpointError, UsageError
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from tests.support.files.faulty_file_io import Fault, InjectedError, Mode
from tests.support.histories.tagged_history import (
    add_tag,
    drop_tags,
    roll_back_to,
    tag_or_not,
    with_tags,
)
from tests.support.histories.version_history import TABLES, History, a_history, in_folder
from tests.support.suite.strides import Strides
from tests.support.tables.expire_now import expire
from tests.support.tables.expiring_table import (
    files_on_disk,
    files_that_are_named,
    rows_of,
    versions,
)
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")


def roll(history: History) -> None:
    """Roll back to a random remaining version; its number and later ones may be used again."""
    name, target = history.rng.choice(sorted(versions(history.table).items()))
    version = {"snapshot": int(name)} if name.isdigit() else {"tag": name}
    # An expired version's changelog is gone, unless it was kept beyond it.
    was_there = history.table.snapshots.exists(target.snapshot_id)
    roll_back_to(history.table, **version)
    for version_name in list(history.rows):
        if version_name.isdigit() and int(version_name) > target.snapshot_id:
            del history.rows[version_name]
    history.rows[str(target.snapshot_id)] = history.rows[name]
    last = target.snapshot_id if was_there else target.snapshot_id - 1
    history.changes_seen = {n: texts for n, texts in history.changes_seen.items() if n <= last}
    history.remember()
    history.writer.restart()
    assert history.table.snapshots.latest_id() == target.snapshot_id
    assert all(tag.snapshot.snapshot_id <= target.snapshot_id for tag in history.table.tags.tags())


@pytest.mark.parametrize("kind", TABLES)
def test_random_histories_leave_what_is_named_and_no_more(
    tmp_path: Path, seed: int, kind: str
) -> None:
    history = a_history(tmp_path, kind, seed)
    for number in range(9):
        history.step()
        tag_or_not(history)
        history.settle()
        if number % 3 == 2:
            expire(history.table, **history.config())
        if number % 4 == 3:
            roll(history)
        history.check()
    if history.table.tags.names():
        drop_tags(history.table, *history.table.tags.names())
    history.check()
    assert findings_of(history.table, quick=True) == []


def check_crashes(
    folder: Path,
    mode: Mode,
    work: Callable[[FileStoreTable], None],
    strides: Strides,
    *,
    again: bool,
) -> None:
    """Check that a crash at any operation leaves a right table, and that a repeat completes it."""
    history = with_tags(folder / "whole")
    table = history.table
    count = Fault()
    shutil.copytree(folder / "whole", folder / "counted")
    work(in_folder(table, folder / "counted", count))
    expected = set(versions(in_folder(table, folder / "counted")))
    assert len(count.done) > 4
    for place in filter(strides.has, range(len(count.done))):
        fault = Fault(number=place, mode=mode, stays_dead=True)
        copied_folder = folder / str(place)
        shutil.copytree(folder / "whole", copied_folder)
        with contextlib.suppress(InjectedError):
            work(in_folder(table, copied_folder, fault))
        assert fault.has_struck
        interrupted_table = in_folder(table, copied_folder)
        for name, snapshot in versions(interrupted_table).items():
            version_name = name if name in history.rows else f"t{name}"  # restored from its tag
            assert rows_of(interrupted_table, snapshot) == history.rows[version_name], (place, name)
        assert files_that_are_named(interrupted_table) <= files_on_disk(interrupted_table)
        # Otherwise a writer would take the next numbers until it met the old snapshots.
        assert interrupted_table.snapshots.latest_id() == interrupted_table.snapshots.ids()[-1], (
            place
        )
        with contextlib.suppress(UsageError) if again else contextlib.nullcontext():
            work(interrupted_table)
        assert set(versions(interrupted_table)) == expected
        assert findings_of(interrupted_table, quick=True) == []
        shutil.rmtree(copied_folder)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_crash_while_a_tag_is_deleted_leaves_no_broken_version(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    check_crashes(tmp_path, mode, lambda table: drop_tags(table, "t4"), strides, again=True)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_crash_while_a_table_goes_back_to_an_expired_tag_leaves_a_right_table(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    check_crashes(tmp_path, mode, lambda table: roll_back_to(table, tag="t4"), strides, again=False)


def test_deleting_a_tag_deletes_what_it_alone_held(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    before = files_on_disk(history.table)
    plan = plan_tag_deletion(history.table, ["t4"])
    assert plan.files.count > 0
    assert files_on_disk(history.table) == before
    delete_tags(history.table, plan)
    assert before - files_on_disk(history.table)
    history.check()


def test_a_tag_whose_snapshot_is_there_holds_nothing_alone(tmp_path: Path) -> None:
    table = with_tags(tmp_path).table
    name = f"t{table.snapshots.ids()[0]}"
    assert plan_tag_deletion(table, [name]).files.count == 0


def test_a_second_tag_of_the_same_snapshot_keeps_its_files(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    add_tag(history.table, "again", 4)
    history.rows["again"] = history.rows["t4"]
    drop_tags(history.table, "t4")
    history.check()


def test_impossible_tags_are_refused(tmp_path: Path) -> None:
    table = with_tags(tmp_path).table
    with pytest.raises(UsageError, match="exists already"):
        add_tag(table, "t4")
    with pytest.raises(UsageError, match="snapshot 3 has expired"):
        add_tag(table, "x", 3)
    for name in ("", " ", "a/b"):
        with pytest.raises(UsageError, match="cannot be named"):
            add_tag(table, name)
    with pytest.raises(UsageError, match="did you mean 't4'"):
        drop_tags(table, "t44")


def test_a_tag_shows_until_when_it_is_kept(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "k INT", ("k",), tag__default_time_retained="2 d")
    table.commit(("+I", {"k": 1}))
    add_tag(table.table, "by-option")
    assert create_tag(table.table, new_tag(table.table, "given", retained_ms=1500))
    for_ever = replace(table.table, schema=replace(table.table.schema, options={"bucket": "1"}))
    add_tag(for_ever, "for-ever")
    times = {tag.name: tag.time_retained_ms for tag in table.table.tags.tags()}
    assert times == {"by-option": 172_800_000, "given": 1500, "for-ever": None}
    snapshot = Path(table.path, "snapshot", "snapshot-1").read_bytes()
    assert Path(table.path, "tag", "tag-for-ever").read_bytes() == snapshot


def test_a_snapshot_that_expires_while_it_is_tagged_gets_no_tag(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    table = history.table
    tag = new_tag(table, "late", table.snapshots.ids()[0])
    drop_tags(table, f"t{tag.snapshot.snapshot_id}")
    expire(table, num_max=1, num_min=1)
    with pytest.raises(UsageError, match="has expired while"):
        create_tag(table, tag)
    assert "late" not in table.tags.names()


def test_a_running_writer_finds_that_the_table_went_back(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    roll_back_to(history.table, tag="t4")
    with pytest.raises(CheckpointError, match="gone back"):
        history.step()
    history.writer.restart()
    history.step()


def test_a_number_may_be_that_of_a_tag(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    roll_back_to(history.table, snapshot=4)
    assert history.table.snapshots.ids() == [4]
    with pytest.raises(UsageError, match="snapshot 3 has expired"):
        roll_back_to(history.table, snapshot=3)


@pytest.mark.parametrize("how", ["by number", "by tag"])
def test_a_table_goes_back_from_a_damaged_latest_snapshot(tmp_path: Path, how: str) -> None:
    history = with_tags(tmp_path)
    table = history.table
    damaged_id = table.snapshots.ids()[-1]
    target = versions(table)[str(damaged_id - 1)]
    rows = rows_of(table, target)
    add_tag(table, "good", damaged_id - 1)
    Path(table.location, "snapshot", f"snapshot-{damaged_id}").write_bytes(b"\xff{")
    roll_back_to(table, **({"snapshot": damaged_id - 1} if how == "by number" else {"tag": "good"}))
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.snapshot_id == damaged_id - 1
    assert rows_of(table, latest) == rows


def test_consumers_that_are_ahead_are_not_cut_without_being_asked(tmp_path: Path) -> None:
    table = with_tags(tmp_path).table
    table.consumers.reset("ahead", 9)
    table.consumers.reset("behind", 3)
    before = versions(table)
    with pytest.raises(UsageError, match="after 4: ahead"):
        roll_back_to(table, tag="t4")
    assert versions(table) == before
    roll_back_to(table, tag="t4", force=True)
    assert table.consumers.next_snapshot_id("ahead") == 5
    assert table.consumers.next_snapshot_id("behind") == 3


def test_going_back_by_time(tmp_path: Path, seed: int) -> None:
    history = a_history(tmp_path, "keyed", seed)
    for _ in range(4):
        history.step()
    number = random.Random(seed).choice(history.table.snapshots.ids())
    millis = history.table.snapshots.snapshot(number).time_ms
    roll_back_to(history.table, timestamp=millis)
    assert history.table.snapshots.latest_id() == number


def test_a_tag_that_is_given_after_an_expiry_was_planned_stops_it(tmp_path: Path) -> None:
    history = a_history(tmp_path, "keyed", 5)
    for _ in range(4):
        history.step()
    history.settle()
    table = history.table
    config, snapshots = expire_config(table.options, num_max=1, num_min=1), ExpireSnapshots(table)
    plan = snapshots.plan(config)
    add_tag(table, "late", 2)
    add_tag(table, "newest")
    with pytest.raises(UsageError, match="snapshot 2 was about to expire and has just got"):
        snapshots.execute(plan)
    history.remember()
    history.check()
    expire(table, num_max=1, num_min=1)
    history.check()
    assert table.snapshots.ids() == [table.snapshots.latest_id()]


def test_a_version_that_gets_another_name_while_its_tag_is_deleted_stays(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    table = history.table
    plan = plan_tag_deletion(table, ["t2", "t4"])
    assert plan.files.data_files
    add_tag(table, "again", 2)
    delete_tags(table, plan)
    history.rows["again"] = history.rows["2"]
    assert rows_of(table, versions(table)["again"]) == history.rows["again"]
    drop_tags(table, "again")
    with pytest.raises(UsageError, match="snapshot 2 has expired while it got the tag"):
        create_tag(table, replace(plan.tags[0], name="late"))
    assert "late" not in table.tags.names()
