"""Expiry stops at versions whose own file is damaged, and says how to repair them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.expiring_table import (
    files_on_disk,
    files_that_are_named,
    give_tag,
    rows_of,
    versions,
)
from tests.support.tables.small_table import SmallTable, small_table

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


def a_table(folder: Path, kind: str = "changes of files") -> SmallTable:
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


def damage(table: FileStoreTable, number: int, folder: str = "snapshot") -> Path:
    path = Path(table.location, folder, f"{folder}-{number}")
    path.write_bytes(b"")
    return path


def rows_of_versions(table: FileStoreTable) -> dict[str, list[str]]:
    return {name: rows_of(table, snapshot) for name, snapshot in versions(table).items()}


def files_in_manifests(table: FileStoreTable) -> set[str]:
    """Return all files that manifests name, deleted ones too; they are no orphans."""
    return {
        entry.file.file_name
        for snapshot in versions(table).values()
        for meta in FileStoreScan(table).manifests(snapshot)
        for entry in table.manifests.read_manifest(meta.file_name)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 4])
def test_expiry_waits_for_an_operator(
    tmp_path: Path, number: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_table(tmp_path, kind).table
    give_tag(table, "t", 5)
    ids, before, files = table.snapshots.ids(), rows_of_versions(table), files_on_disk(table)
    path = damage(table, number)
    maintenance = TableMaintenance(table)
    with caplog.at_level(logging.WARNING):
        maintenance.after_commit()
    assert maintenance.metrics().failures == 1
    assert str(path) in caplog.text
    assert "or delete it: the next expiry skips the version" in caplog.text
    assert table.snapshots.ids() == ids
    assert files_on_disk(table) == files
    path.unlink()
    maintenance.after_commit()
    assert maintenance.metrics().failures == 1
    assert table.snapshots.ids() == ids[-2:]
    remaining = {name: before[name] for name in ("t", *map(str, ids[-2:]))}
    assert rows_of_versions(table) == remaining
    assert files_that_are_named(table) <= files_on_disk(table)
    delete_orphans(table, plan_orphans(table, LONG_AFTER_MS))
    left_over = files_on_disk(table) ^ files_that_are_named(table)
    assert left_over <= files_in_manifests(table)


def test_a_damaged_changelog_is_named_and_skipped_when_it_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_table(tmp_path, "changelogs kept").table
    maintenance = TableMaintenance(table)
    maintenance.after_commit()
    first, second, *later = table.changelogs.ids()
    path = damage(table, second, folder="changelog")
    writer = SmallTable(table)
    for epoch in range(20, 24):
        writer.commit(("+I", {"k": 1, "v": f"v{epoch}"}))
    with caplog.at_level(logging.WARNING):
        maintenance.after_commit()
    assert maintenance.metrics().failures == 1
    assert str(path) in caplog.text
    assert {first, second} <= set(table.changelogs.ids())
    path.unlink()
    maintenance.after_commit()
    assert maintenance.metrics().failures == 1
    assert not {first, second} & set(table.changelogs.ids())
    assert later[-1] in table.changelogs.ids()
