"""The orphan search deletes what a crash left in Iceberg's folder, and keeps readers' files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_app.clock import SystemClock
from stream_app.errors import CorruptFileError
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
DAY_S = 86_400


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    """A table of three commits, with deletion vectors."""
    options = {
        "metadata.iceberg.storage": "hadoop-catalog",
        "metadata.iceberg.format-version": "3",
        "metadata.iceberg.previous-versions-max": "1",
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
    }
    path = tmp_path / "wh" / "shop.db" / "orders"
    small = small_table(path, "id INT, v INT", ["id"], (), **options)
    small.commit(*(("+I", {"id": key, "v": 0}) for key in range(2000)))
    small.compact()
    for key in (1, 2):
        small.commit(("+U", {"id": key, "v": 7}))
        small.compact()
    return small


def folder_of(table: SmallTable) -> Path:
    return Path(table.path).parents[1] / "iceberg" / "shop" / "orders" / "metadata"


def put(folder: Path, names: Sequence[str], age_s: int) -> None:
    modified_s = SystemClock().now_ms() / 1000 - age_s
    for name in names:
        (folder / name).write_bytes(b"left")
        os.utime(folder / name, (modified_s, modified_s))


def a_day_ago() -> int:
    return SystemClock().now_ms() - DAY_S * 1000


def test_old_files_that_no_version_names_go(table: SmallTable, iceberg: IcebergReader) -> None:
    folder = folder_of(table)
    before = set(folder.iterdir())
    assert any(path.suffix == ".puffin" for path in before)
    orphan_names = [
        f"{uuid.uuid4()}-m0.avro", f"snap-2-{uuid.uuid4()}.avro", "v1.metadata.json",
        f"00000-{uuid.uuid4()}.metadata.json", "index-of-nobody-0.puffin",
    ]  # fmt: skip
    theirs = ["notes.txt", f"00001-{uuid.uuid4()}.metadata.json"]
    put(folder, [*orphan_names, *theirs], 2 * DAY_S)
    put(folder, young := [f"{uuid.uuid4()}-m0.avro"], 60)
    for path in before:
        os.utime(path, (0, 0))
    plan = plan_orphans(table.table, a_day_ago())
    assert sorted(file.name for file in plan.files) == sorted(orphan_names)
    delete_orphans(table.table, plan)
    assert set(folder.iterdir()) == before | {folder / name for name in (*theirs, *young)}
    rows = normal_rows(iceberg.read(folder))
    assert by_content(rows) == by_content(read_rows(table.table))


def test_without_a_version_nothing_goes(table: SmallTable) -> None:
    folder = folder_of(table)
    for path in folder.glob("*.metadata.json"):
        path.unlink()
    put(folder, [f"{uuid.uuid4()}-m0.avro"], 2 * DAY_S)
    assert plan_orphans(table.table, a_day_ago()).files == ()


def test_an_unreadable_version_is_an_error_and_nothing_goes(table: SmallTable) -> None:
    folder = folder_of(table)
    version = (folder / "version-hint.text").read_text()
    (folder / f"v{version}.metadata.json").write_bytes(b"{")
    with pytest.raises(CorruptFileError, match="not Iceberg metadata that stream_app can read"):
        plan_orphans(table.table, a_day_ago())
