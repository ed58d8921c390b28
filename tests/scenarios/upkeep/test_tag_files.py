"""Upkeep handles success files beside those of tags, and tags whose own file is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.errors import UsageError
from stream_app.filestore.versions.branch_folders import branch_names
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.tags import new_tag, plan_tag_deletion
from tests.support.histories.tagged_history import (
    add_tag,
    drop_tags,
    remove_orphans,
    roll_back_to,
    with_tags,
)
from tests.support.tables.expiring_table import (
    files_on_disk,
    files_that_are_named,
    rows_of,
    versions,
)
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, commits: int = 5, **options: Any) -> FileStoreTable:
    small = small_table(folder / "t", "k INT, v STRING", ("k",), **options)
    for number in range(commits):
        small.commit(("+I", {"k": 1, "v": str(number)}))
    return small.table


def expire(table: FileStoreTable) -> None:
    """All but the latest snapshot."""
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=1)))


def success_files(table: FileStoreTable) -> dict[str, dict[str, int]]:
    folder = Path(table.location, "tag", "tag-success-file")
    return {file.name: json.loads(file.read_bytes()) for file in folder.iterdir()}


def test_the_folder_of_success_files_is_not_a_tag(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    folder = Path(table.location, "tag", "tag-success-file")
    folder.mkdir(parents=True)
    (folder / "2026-01-01_SUCCESS").write_text("{}")
    assert table.tags.names() == []
    add_tag(table, "mine", 1)
    expire(table)
    TableMaintenance(table).after_commit()
    assert table.snapshots.ids() == [5]
    assert [tag.name for tag in table.tags.tags()] == ["mine"]
    remove_orphans(table)
    assert [file.name for file in folder.iterdir()] == ["2026-01-01_SUCCESS"]
    with pytest.raises(UsageError, match="cannot be named 'success-file'"):
        new_tag(table, "success-file")


def test_a_file_is_not_a_branch(tmp_path: Path) -> None:
    table = a_table(tmp_path, 1)
    Path(table.location, "branch", "branch-a").mkdir(parents=True)
    Path(table.location, "branch", "branch-notes").write_text("x")
    assert branch_names(table.file_io, table.location) == ["a"]


def test_a_success_file_comes_and_goes_with_its_tag(tmp_path: Path) -> None:
    table = a_table(tmp_path, tag__create_success_file=True)
    add_tag(table, "a", 2)
    add_tag(table, "b", 4)
    files = success_files(table)
    assert files.keys() == {"a_SUCCESS", "b_SUCCESS"}
    assert files["a_SUCCESS"]["creationTime"] == files["a_SUCCESS"]["modificationTime"]
    drop_tags(table, "a")
    assert success_files(table).keys() == {"b_SUCCESS"}
    roll_back_to(table, snapshot=3)
    assert success_files(table) == {}


def test_a_success_file_that_is_there_keeps_the_time_of_its_creation(tmp_path: Path) -> None:
    table = a_table(tmp_path, tag__create_success_file=True)
    folder = Path(table.location, "tag", "tag-success-file")
    folder.mkdir(parents=True)
    (folder / "a_SUCCESS").write_text('{"creationTime": 7, "modificationTime": 8}')
    add_tag(table, "a")
    success = success_files(table)["a_SUCCESS"]
    assert success["creationTime"] == 7
    assert success["modificationTime"] > 8


def test_without_the_option_there_are_no_success_files(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    add_tag(table, "a")
    assert not Path(table.location, "tag", "tag-success-file").exists()


def cut_tag_file(table: FileStoreTable, name: str) -> None:
    file = Path(table.location, "tag", f"tag-{name}")
    file.write_bytes(file.read_bytes()[:50])


def test_a_damaged_tag_can_be_deleted_and_leaves_orphans(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    table = history.table
    cut_tag_file(table, "t4")
    before = files_on_disk(table)
    plan = plan_tag_deletion(table, ["t4"])
    assert (plan.tags, plan.unreadable_names, plan.files.count) == ((), ("t4",), 0)
    drop_tags(table, "t4")
    del history.rows["t4"]
    assert files_on_disk(table) == before
    orphans = set(remove_orphans(table))
    assert orphans
    assert orphans <= before - files_that_are_named(table)
    for name, snapshot in versions(table).items():
        assert rows_of(table, snapshot) == history.rows[name]


def test_a_damaged_tag_goes_together_with_others(tmp_path: Path) -> None:
    history = with_tags(tmp_path)
    expire(history.table)
    cut_tag_file(history.table, "t2")
    plan = plan_tag_deletion(history.table, ["t2", "t4"])
    assert [tag.name for tag in plan.tags] == ["t4"]
    drop_tags(history.table, "t2", "t4")
    table = history.table
    assert table.tags.names() == ["t12"]
    for name, snapshot in versions(table).items():
        assert rows_of(table, snapshot) == history.rows[name]


def test_beside_a_damaged_tag_no_other_loses_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path)
    add_tag(table, "old", 1)
    add_tag(table, "cut", 2)
    add_tag(table, "new", 5)
    expire(table)
    cut_tag_file(table, "cut")
    before = files_on_disk(table)
    assert main(["delete-tag", table.location, "old"]) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith("no tag is deleted, because another version cannot be read")
    assert f"delete-tag {table.location} cut" in stderr
    assert files_on_disk(table) == before
    assert table.tags.names() == ["cut", "new", "old"]
