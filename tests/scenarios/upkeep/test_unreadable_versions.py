"""Old versions whose own file is damaged: expiry goes on, and keeps all that others need."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.planning.upkeep.expire_config import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from stream_app.table.upkeep.readable_range import time_of
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.expiring_table import (
    files_on_disk,
    files_that_are_named,
    give_tag,
    rows_of,
    versions,
)
from tests.support.plain_object import plain_object
from tests.support.small_table import SmallTable, small_table
from tests.support.sound_table import found_in

pytestmark = pytest.mark.usefixtures("unsynced")

LONG_AFTER_MS = 10**14
KINDS: dict[str, dict[str, Any]] = {
    "changes of files": {},
    "changelog files": {"changelog_producer": "input"},
    "changelogs kept": {
        "changelog_producer": "input",
        "changelog__num_retained__min": 12,
        "changelog__num_retained__max": 12,
    },
}


def made(folder: Path, kind: str = "changes of files") -> SmallTable:
    """Eight epochs over the same keys, compacted on the way."""
    table = small_table(
        folder / "shop.db" / "t", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=2, snapshot__num_retained__min=2,
        snapshot__num_retained__max=2, **KINDS[kind],
    )  # fmt: skip
    for epoch in range(8):
        table.commit(*(("+I", {"k": key, "v": f"v{epoch}"}) for key in range(epoch, epoch + 5)))
        table.compact()
    return table


def damage(table: FileStoreTable, *numbers: int, folder: str = "snapshot") -> None:
    for number in numbers:
        Path(table.location, folder, f"{folder}-{number}").write_bytes(b"")


def as_of_others(table: FileStoreTable) -> FileStoreTable:
    """No snapshot tells of a job's epochs, as where other engines alone write."""
    for number in table.snapshots.ids():
        path = Path(table.location, "snapshot", f"snapshot-{number}")
        told = plain_object(path.read_bytes())
        path.write_text(str({**told, "properties": {}}).replace("'", '"'))
    return table


def expire(table: FileStoreTable, keep: int) -> None:
    config = expire_config(table.options, num_max=keep, num_min=keep)
    snapshots = ExpireSnapshots(table)
    snapshots.execute(snapshots.plan(config))


def rows_of_versions(table: FileStoreTable) -> dict[str, list[str]]:
    return {name: rows_of(table, snapshot) for name, snapshot in versions(table).items()}


def files_in_manifests(table: FileStoreTable) -> set[str]:
    """Also those that are deleted there; the cleaning of orphans leaves them alone."""
    return {
        entry.file.file_name
        for snapshot in versions(table).values()
        for meta in FileStoreScan(table).manifests(snapshot)
        for entry in table.manifests.read_manifest(meta.file_name)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", [(1,), (4,), (3, 4), (1, 2)])
def test_they_go_with_the_others_and_what_stays_is_whole(
    tmp_path: Path, numbers: tuple[int, ...], kind: str
) -> None:
    table = made(tmp_path, kind).table
    give_tag(table, "t", 5)
    latest, before = table.snapshots.latest_id() or 0, rows_of_versions(table)
    damage(table, *numbers)
    expire(table, latest - 5)
    assert table.snapshots.ids() == list(range(6, latest + 1))
    assert rows_of_versions(table) == {
        name: rows for name, rows in before.items() if name == "t" or int(name) > 5
    }
    assert files_that_are_named(table) < files_on_disk(table)
    delete_orphans(table, plan_orphans(table, LONG_AFTER_MS))
    left_over = files_on_disk(table) ^ files_that_are_named(table)
    assert left_over <= files_in_manifests(table)
    told = [finding.what for finding in found_in(table)]
    lost = kind == "changelogs kept" and 1 not in numbers
    assert ["are missing" in what or "is missing" in what for what in told] == [True] * lost


def test_one_that_is_the_first_to_stay_keeps_the_one_before_it(tmp_path: Path) -> None:
    """Nobody knows which metadata it shares with those before."""
    table = made(tmp_path).table
    latest, whole = table.snapshots.latest_id() or 0, rows_of_versions(table)
    file = Path(table.location, "snapshot", "snapshot-6")
    before = file.read_bytes()
    damage(table, 6)
    expire(table, latest - 5)
    assert table.snapshots.ids() == list(range(5, latest + 1))
    file.write_bytes(before)
    assert rows_of(table, table.snapshots.snapshot(6)) == whole["6"]
    damage(table, 6)
    expire(table, latest - 6)
    assert table.snapshots.ids() == list(range(7, latest + 1))


def test_a_job_goes_on_expiring_and_tells_what_stays_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made_table = made(tmp_path)
    table = made_table.table
    damage(table, 3)
    with caplog.at_level(logging.WARNING):
        maintenance = TableMaintenance(table)
        maintenance.after_commit()
    assert len(table.snapshots.ids()) == 2
    assert maintenance.metrics().failures == 0
    assert "the file of snapshot 3 could not be read, and has expired" in caplog.text
    assert "remove-orphan-files" in caplog.text


def test_a_damaged_changelog_goes_with_the_others(tmp_path: Path) -> None:
    table = made(tmp_path, "changelogs kept").table
    maintenance = TableMaintenance(table)
    maintenance.after_commit()
    first, second, *later = table.changelogs.ids()
    damage(table, first, second, folder="changelog")
    writer = SmallTable(table)
    for epoch in range(20, 24):
        writer.commit(("+I", {"k": 1, "v": f"v{epoch}"}))
    maintenance.after_commit()
    assert maintenance.metrics().failures == 0
    assert not {first, second} & set(table.changelogs.ids())
    assert later[-1] in table.changelogs.ids()
    assert found_in(table) == []


def test_what_may_alone_tell_of_a_job_stays_until_somebody_gives_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = as_of_others(made(tmp_path).table)
    latest = table.snapshots.latest_id() or 0
    damage(table, 4)
    command = ["expire-snapshots", table.location, "--retain-max", "2"]
    assert main(command) == 0
    assert table.snapshots.ids() == list(range(3, latest + 1))
    told = capsys.readouterr().out
    assert "snapshot 4 cannot be read, and may hold the only record of what a job" in told
    assert main([*command, "--give-up-unreadable"]) == 0
    assert "4 cannot be read: the files that only it needs" in capsys.readouterr().out
    assert table.snapshots.ids() == [latest - 1, latest]


def test_the_time_of_what_cannot_be_read_is_that_of_the_next(tmp_path: Path) -> None:
    """It was committed no later, so nothing goes too early for it."""
    table = made(tmp_path).table
    read, ids = table.snapshots.snapshot, table.snapshots.ids()
    times = {number: read(number).time_millis for number in ids}
    damage(table, 3, 4, ids[-1])
    assert time_of(ids, 2, read) == times[2]
    assert time_of(ids, 3, read) == time_of(ids, 4, read) == times[5]
    assert time_of(ids, ids[-1], read) is None
    assert time_of(ids, ids[-1] + 1, read) is None
    assert time_of([number for number in ids if number != 2], 2, read) is None
