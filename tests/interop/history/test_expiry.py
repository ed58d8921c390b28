"""Paimon's expiry and ours keep the same files, and Paimon reads what ours has kept.

Where tables differ on purpose (time counts from when a snapshot was replaced) a test says so.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from stream_app.filestore.versions.announcement_files import ExpiryAnnouncement
from stream_app.table.opening import open_file_store_table
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava, sorted_rows
from tests.support.tables.expire_now import expire
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named
from tests.support.tables.small_table import small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
TABLES: dict[str, dict[str, Any]] = {
    "keyed": {},
    "changelog": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": True},
}
CHANGELOG_KINDS: dict[str, dict[str, Any]] = {
    "changelog files": {"changelog-producer": "input"},
    "changes": {},
}


def javas_table(paimon_java: PaimonJava, path: Path, options: dict[str, Any]) -> None:
    """Seven commits of Paimon's, compacted as they come, and a tag on the third snapshot."""
    paimon_java.create(
        path, [("dt", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["dt", "k"], partition_keys=["dt"],
        options={"bucket": 2, "num-sorted-run.compaction-trigger": 2, **options},
    )  # fmt: skip
    rng = random.Random(7)
    for number in range(7):
        rows = [
            ("+I", {"dt": f"d{rng.randrange(2)}", "k": rng.randrange(20), "v": str(number)})
            for _ in range(6)
        ]
        paimon_java.write(path, rows, identifier=number, options={"snapshot.num-retained.min": 99})
    paimon_java.tag(path, "t", 3)


def our_table(path: Path, options: dict[str, Any]) -> TableWriter:
    texts = {key.replace(".", "__").replace("-", "_"): value for key, value in options.items()}
    table = small_table(
        path, "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=3, bucket=2, **texts
    ).table
    writer = TableWriter(table)
    changes = RandomChanges(table.schema, random.Random(3), key_count=12)
    for _ in range(9):
        table.clock.sleep(60)
        writer.write(changes.epoch(5))
    writer.commit.compact_due()
    return writer


def two_copies(path: Path) -> tuple[Path, Path]:
    copies = path.parents[1] / "theirs" / "db.db" / "t", path.parents[1] / "ours" / "db.db" / "t"
    for copy in copies:
        shutil.copytree(path, copy)
    return copies


def assert_same_left(theirs: Path, ours: Path) -> None:
    left, right = open_file_store_table(str(theirs)), open_file_store_table(str(ours))
    assert left.snapshots.ids() == right.snapshots.ids()
    assert left.changelogs.ids() == right.changelogs.ids()
    assert files_on_disk(left) == files_on_disk(right)


@pytest.mark.parametrize(
    ("kind", "snapshot_count"),
    [("keyed", 4), ("changelog", 1), ("lookup", 1), ("deletion vectors", 1)],
)
def test_java_and_we_expire_a_java_table_alike(
    paimon_java: PaimonJava, tmp_path: Path, kind: str, snapshot_count: int
) -> None:
    path = tmp_path / "db.db" / "t"
    javas_table(paimon_java, path, TABLES[kind])
    rows = paimon_java.read(path)
    tagged_rows = paimon_java.read(path, options={"scan.tag-name": "t"})
    java_path, ours = two_copies(path)
    count = paimon_java.expire(java_path, retain_max=snapshot_count, retain_min=snapshot_count)
    assert (
        expire(
            open_file_store_table(str(ours)),
            num_max=snapshot_count,
            num_min=snapshot_count,
            retained_ms=0,
        )
        == count
        > 2
    )
    assert_same_left(java_path, ours)
    assert files_on_disk(open_file_store_table(str(ours))) == files_that_are_named(
        open_file_store_table(str(ours))
    )
    assert sorted_rows(paimon_java.read(ours)) == sorted_rows(rows)
    as_tagged = paimon_java.read(ours, options={"scan.tag-name": "t"})
    assert sorted_rows(as_tagged) == sorted_rows(tagged_rows)


@pytest.mark.parametrize("kind", ["keyed", "changelog"])
def test_java_and_we_expire_our_table_alike_and_continue(
    paimon_java: PaimonJava, tmp_path: Path, kind: str
) -> None:
    writer = our_table(tmp_path / "db.db" / "t", TABLES[kind])
    java_path, ours = two_copies(tmp_path / "db.db" / "t")
    count = paimon_java.expire(java_path, retain_max=3, retain_min=3)
    assert (
        expire(open_file_store_table(str(ours)), num_max=3, num_min=3, retained_ms=0) == count > 3
    )
    assert_same_left(java_path, ours)
    expected = by_content(writer.model.rows())
    assert by_content(paimon_java.read(ours)) == expected
    assert [s["id"] for s in paimon_java.snapshots(ours)] == open_file_store_table(
        str(ours)
    ).snapshots.ids()
    # Then each expires what the other has left.
    assert paimon_java.expire(ours, retain_max=1, retain_min=1) == 2
    assert expire(open_file_store_table(str(java_path)), num_max=1, num_min=1, retained_ms=0) == 2
    assert_same_left(java_path, ours)
    assert by_content(paimon_java.read(java_path)) == expected
    paimon_java.write(ours, [("+I", {"k": 10**6, "v": "new"})], identifier=1)
    assert len(paimon_java.read(ours)) == len(expected) + 1


@pytest.mark.parametrize("kind", CHANGELOG_KINDS)
def test_java_and_we_keep_the_same_long_lived_changelogs(
    paimon_java: PaimonJava, tmp_path: Path, kind: str
) -> None:
    options = {
        **CHANGELOG_KINDS[kind], "snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2,
        "snapshot.time-retained": "0 s", "changelog.num-retained.min": 5,
        "changelog.num-retained.max": 6,
    }  # fmt: skip
    our_table(tmp_path / "db.db" / "t", options)
    java_path, ours = two_copies(tmp_path / "db.db" / "t")
    for _ in range(2):
        paimon_java.expire_by_options(java_path, {})
        expire(open_file_store_table(str(ours)))
        assert_same_left(java_path, ours)
    first = open_file_store_table(str(ours)).changelogs.ids()[0]
    plans = [paimon_java.changelog(path, from_snapshot=first) for path in (java_path, ours)]
    assert plans[0] == plans[1]
    assert plans[0][0].snapshot < open_file_store_table(str(ours)).snapshots.ids()[0]


def test_time_counts_from_when_a_snapshot_was_replaced(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Paimon 1.4 counts from when it was made, so it keeps one less; later ones do as we do."""
    our_table(tmp_path / "db.db" / "t", {})
    java_path, ours = two_copies(tmp_path / "db.db" / "t")
    table = open_file_store_table(str(ours))
    times = {number: table.snapshots.snapshot(number).time_ms for number in range(3, 9)}
    # Between the two a minute has passed, and so may between now and the expiries.
    number = next(n for n, time in times.items() if times[n + 1] - time > 50_000)
    cut = times[number]
    now = table.clock.now_ms()
    paimon_java.expire(java_path, retain_max=99, retain_min=1, time_retained_ms=now - cut)
    expire(table, num_max=99, num_min=1, retained_ms=now - cut)
    # That snapshot was made just before the time that is retained, and replaced within it.
    assert open_file_store_table(str(java_path)).snapshots.ids()[0] == number + 1
    assert table.snapshots.ids()[0] == number


def test_jobs_know_their_epochs_through_paimons_commits_and_expiry(
    tmp_path: Path, paimon_java: PaimonJava
) -> None:
    """Paimon reads what our snapshots tell of jobs, and minds no announcement of an expiry."""
    path = tmp_path / "db.db" / "t"
    first = our_table(path, {})
    second = TableWriter(first.table, user="second")
    second.write([("+I", {"k": 1, "v": "second"})])
    second.commit.compact_due()
    table = first.table
    paimon_java.tag(path, "t", 2)
    announcement = ExpiryAnnouncement(start=1, end=2, end_list="that of another snapshot")
    table.expiry_announcements.announce(announcement)
    for number in range(2):
        rows = [("+I", {"k": 20 + number, "v": "paimon"})]
        paimon_java.write(path, rows, identifier=number, options={"write-only": True})
    paimon_java.expire(path, retain_max=3, retain_min=3)
    users = [snapshot.commit_user for snapshot in table.snapshots.backwards()]
    assert len(users) == 3
    assert users[2] == "second"
    assert [row["tag_name"] for row in paimon_java.read(f"{path}$tags")] == ["t"]
    for job in (first, second):
        job.restart()
        assert job.commit.last_identifier == job.epoch - 1
    first.write([("+I", {"k": 30, "v": "first"})])
    expire(table, num_max=1, num_min=1)
    assert table.expiry_announcements.announcements() == {}
    assert sorted_rows(paimon_java.read(path)) == sorted_rows(read_rows(table))
    paimon_java.write(path, [("+I", {"k": 31, "v": "paimon"})], identifier=9)
    second.restart()
    assert second.commit.last_identifier == 0
