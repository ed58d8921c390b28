"""A job completes Iceberg's metadata that others left behind, at its start and while idle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from tests.support.tables.expire_now import expire
from tests.support.tables.small_table import CompactHere, SmallTable, StandingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


@dataclass
class Published:
    """A table of three snapshots with its metadata for Iceberg."""

    small: SmallTable
    clock: StandingClock = field(default_factory=StandingClock)

    @property
    def folder(self) -> Path:
        return Path(self.small.path) / "metadata"

    def latest_metadata(self) -> dict[str, Any]:
        version = (self.folder / "version-hint.text").read_text()
        metadata: dict[str, Any] = json.loads(
            (self.folder / f"v{version}.metadata.json").read_text()
        )
        return metadata

    def snapshots(self) -> Sequence[int]:
        return [snapshot["snapshot-id"] for snapshot in self.latest_metadata()["snapshots"]]

    def job(self) -> TableJob:
        """A job of the table, which has no epoch yet."""
        return TableJob(open_file_store_table(self.small.path, self.clock), CompactHere)


@pytest.fixture
def published_table(tmp_path: Path) -> Published:
    options = {"metadata.iceberg.storage": "table-location"}
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", (), (), **options)
    for k in range(3):
        table.commit(("+I", {"k": k, "v": "a"}))
    return Published(table)


def lose_latest(published_table: Published) -> None:
    """The process died between the table's commit and Iceberg's."""
    (published_table.folder / "v3.metadata.json").unlink()
    (published_table.folder / "version-hint.text").unlink()


def test_an_idle_job_publishes_what_a_crash_has_left(published_table: Published) -> None:
    lose_latest(published_table)
    published_table.job().while_idle()
    assert published_table.latest_metadata()["current-snapshot-id"] == 3


def test_a_job_publishes_what_a_crash_has_left_when_it_opens_the_table(
    published_table: Published,
) -> None:
    lose_latest(published_table)
    published_table.job().open("tester")
    assert published_table.latest_metadata()["current-snapshot-id"] == 3


def test_a_job_publishes_what_a_crash_has_left_when_it_drains(published_table: Published) -> None:
    lose_latest(published_table)
    published_table.job().compact_due()
    assert published_table.latest_metadata()["current-snapshot-id"] == 3


def test_an_idle_job_publishes_the_snapshots_of_other_writers(published_table: Published) -> None:
    """The other one writes without metadata for Iceberg, as a writer of an older version does."""
    job = published_table.job()
    job.while_idle()
    contents = {path: path.read_bytes() for path in published_table.folder.iterdir()}
    published_table.small.commit(("+I", {"k": 4, "v": "a"}))
    for path in published_table.folder.iterdir():
        path.unlink()
    for path, content in contents.items():
        path.write_bytes(content)
    job.while_idle()
    assert published_table.latest_metadata()["current-snapshot-id"] == 3, "it looks now and then"
    published_table.clock.millis += 600_000
    job.while_idle()
    assert published_table.latest_metadata()["current-snapshot-id"] == 4


def test_an_idle_job_shows_expiry_and_tags(published_table: Published) -> None:
    job, table = published_table.job(), published_table.small.table
    create_tag(table, new_tag(table, "first", 1))
    expire(table, num_max=1, num_min=1)
    assert list(published_table.snapshots()) == [1, 2, 3]
    job.while_idle()
    assert list(published_table.snapshots()) == [1, 3]
    assert published_table.latest_metadata()["refs"]["first"]["snapshot-id"] == 1
    delete_tags(table, plan_tag_deletion(table, ["first"]))
    published_table.clock.millis += 600_000
    job.while_idle()
    assert list(published_table.snapshots()) == [3]
    assert {path.name for path in published_table.folder.glob("snap-*")} == {
        Path(published_table.latest_metadata()["snapshots"][0]["manifest-list"]).name
    }


def test_the_catch_up_continues_after_a_rollback(published_table: Published) -> None:
    table = published_table.small.table
    roll_back(table, plan_rollback(table, table.snapshots.snapshot(2)), resets_consumers=False)
    assert published_table.latest_metadata()["current-snapshot-id"] == 2
    version = (published_table.folder / "version-hint.text").read_text()
    published_table.job().while_idle()
    assert (published_table.folder / "version-hint.text").read_text() == version, "nothing is due"
