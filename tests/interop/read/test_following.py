"""Streaming reads of ours and of Paimon's Java library: the same rows of each snapshot in every
start mode, and each other's consumers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.errors import UsageError
from stream_app.model.finding import FindingKind
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.histories.random_changes import RandomChanges
from tests.support.interop import append_tables
from tests.support.interop.every_type import LOW, TABLES, a_table
from tests.support.interop.followed_rows import ChangesBySnapshot, our_changes, texts
from tests.support.jobs.table_writer import TableWriter
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.damaged_table import Damage
from tests.support.tables.sound_table import kinds_in, sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def java_changes(paimon_java: PaimonJava, path: str, **options: Any) -> ChangesBySnapshot:
    """Return Java's changes with +I for +U: Java leaves +U in the rows that it reads first."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    by_snapshot = {
        plan.snapshot: plan.changes for plan in paimon_java.changelog(path, options=keys)
    }
    if keys["scan.mode"].endswith("full") and by_snapshot:
        first = min(by_snapshot)
        assert {kind for kind, _ in by_snapshot[first]} <= {"+I", "+U"}
        by_snapshot[first] = [("+I", row) for _, row in by_snapshot[first]]
    return {snapshot: texts(changes) for snapshot, changes in by_snapshot.items()}


def assert_followed_alike(
    paimon_java: PaimonJava, path: str, times: Sequence[int]
) -> ChangesBySnapshot:
    """All start modes; the changes of all snapshots."""
    table = stream_app.open_table(path)
    for mode in ("latest-full", "latest", "compacted-full"):
        followed_changes = our_changes(table.changelog(start=mode))
        assert followed_changes == java_changes(paimon_java, path, scan__mode=mode), mode
    for mode in ("from-snapshot", "from-snapshot-full"):
        for number in (0, 3, len(times)):
            followed_changes = our_changes(table.changelog(start=mode, snapshot=number))
            java = java_changes(paimon_java, path, scan__mode=mode, scan__snapshot_id=number)
            assert followed_changes == java, (mode, number)
    for millis in (times[0] - 1, times[2], times[2] + 1, times[-1] + 1):
        followed_changes = our_changes(table.changelog(timestamp=millis))
        java = java_changes(
            paimon_java, path, scan__mode="from-timestamp", scan__timestamp_millis=millis
        )
        assert followed_changes == java, millis
    return our_changes(table.changelog(snapshot=1))


def times_of(table: FileStoreTable) -> list[int]:
    return [snapshot.time_ms for snapshot in table.snapshots.backwards()][::-1]


@pytest.mark.parametrize("name", ["every type", "no changelog", "partitions"])
def test_our_tables_are_followed_alike(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    columns, keys, partitions, options = TABLES[name]
    writer = TableWriter(a_table(tmp_path, columns, keys, partitions, **{**options, **LOW}))
    changes = RandomChanges(writer.table.schema, random.Random(seed))
    for epoch in range(6):
        writer.write(changes.epoch(20))
        if epoch in (2, 4):
            writer.commit.compact_due()
    kinds = {snapshot.commit_kind for snapshot in writer.table.snapshots.backwards()}
    assert kinds == {CommitKind.APPEND, CommitKind.COMPACT}
    snapshots = assert_followed_alike(paimon_java, writer.table.location, times_of(writer.table))
    assert len(snapshots) == 6


def test_our_append_tables_are_followed_alike(
    paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    columns, by, options = append_tables.TABLES["partitions"]
    table = append_tables.a_table(tmp_path, columns, by, **append_tables.SOON, **options)
    writer = TableWriter(table)
    for changes in append_tables.some_inserts(table, seed, (8, 3, 0, 5)):
        writer.write(changes)
    writer.commit.compact_due()
    assert_followed_alike(paimon_java, table.location, times_of(table))
    everything = {"streaming-read-append-overwrite": "true"}
    paimon_java.batch_write(
        table.location, [("+I", {"a": 1, "dt": "x", "d": None, "k": 2, "b": "y"})], overwrite=True
    )
    of_overwrites = table.with_options(everything)
    java = java_changes(paimon_java, table.location, **everything, scan__mode="latest-full")
    assert our_changes(stream_app.PaimonTable(of_overwrites).changelog(start="latest-full")) == java
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.OVERWRITE
    start: dict[str, Any] = {"scan__mode": "from-snapshot", "scan__snapshot_id": 1}
    java = java_changes(paimon_java, table.location, **everything, **start)
    assert latest.snapshot_id in java
    assert our_changes(stream_app.PaimonTable(of_overwrites).changelog(snapshot=1)) == java
    java = java_changes(paimon_java, table.location, **start)
    assert our_changes(stream_app.PaimonTable(table).changelog(snapshot=1)) == java


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_javas_tables_are_followed_alike(
    paimon_java: PaimonJava, tmp_path: Path, producer: str
) -> None:
    path = str(tmp_path / "java.db" / "t")
    paimon_java.create(
        path, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"],
        options={
            "bucket": 2, "changelog-producer": producer, "num-sorted-run.compaction-trigger": 3,
        },
    )  # fmt: skip
    for epoch in range(5):
        rows = [("+U", {"k": k, "v": f"{epoch}"}) for k in range(epoch, epoch + 4)]
        paimon_java.write(path, [*rows, ("-D", {"k": epoch, "v": "x"})], identifier=epoch + 1)
        if epoch == 3:
            paimon_java.compact(path)
    # Rows in level 0 that have no changelog yet.
    paimon_java.write(
        path, [("+I", {"k": 99, "v": "new"})], identifier=9, options={"write-only": True}
    )
    table = stream_app.open_table(path).table
    snapshots = assert_followed_alike(paimon_java, path, times_of(table))
    assert len(snapshots) > 1
    assert sound_report(table).replayed_changes == [f"snapshots 1 to {table.snapshots.latest_id()}"]
    if producer in ("lookup", "full-compaction"):
        damage, scan = Damage(table), FileStoreScan(table)
        lost = next(entry for entry in scan.live(damage.latest) if entry.file.level > 0)
        damage.delta(lambda entries: [*entries, lost.as_delete()])
        assert kinds_in(table) == {FindingKind.CHANGELOG}


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_the_changelogs_that_java_keeps_lead_to_its_rows(
    paimon_java: PaimonJava, tmp_path: Path, producer: str
) -> None:
    path = str(tmp_path / "java.db" / "t")
    paimon_java.create(
        path, [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["p", "k"], partition_keys=["p"],
        options={
            "bucket": 1, "changelog-producer": producer, "num-sorted-run.compaction-trigger": 3,
        },
    )  # fmt: skip
    for epoch in range(9):
        changes = [("+U", {"p": k % 2, "k": k, "v": f"{epoch}"}) for k in range(epoch, epoch + 6)]
        delete = ("-D", {"p": epoch % 2, "k": epoch, "v": "x"})
        paimon_java.write(path, [*changes, delete], identifier=epoch + 1)
        if epoch == 6:
            paimon_java.compact(path)
    table = stream_app.open_table(path).table
    snapshots, changelogs = 3, 8
    paimon_java.expire_by_options(
        path,
        {
            "snapshot.num-retained.min": snapshots, "snapshot.num-retained.max": snapshots,
            "changelog.num-retained.min": changelogs, "changelog.num-retained.max": changelogs,
        },
    )  # fmt: skip
    earliest_id = table.snapshots.ids()[0]
    assert table.changelogs.ids()[-1] == earliest_id - 1
    report = sound_report(table)
    assert ["on top of the rows of snapshot" in text for text in report.replayed_changes] == [True]
    paimon_java.roll_back(path, snapshot=earliest_id)
    assert kinds_in(table) == set()


def test_java_and_we_continue_each_others_consumers(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Each continues where the other one was; Java's expiry keeps what our consumer needs."""
    columns, keys, partitions, options = TABLES["level 0 alone"]
    writer = TableWriter(a_table(tmp_path, columns, keys, partitions, **options))
    path, consumers = writer.table.location, writer.table.consumers
    changes = RandomChanges(writer.table.schema, random.Random(1))
    table = stream_app.open_table(path)
    for _ in range(3):
        writer.write(changes.epoch(5))
    assert set(our_changes(table.changelog(snapshot=2, end=2, consumer_id="c"))) == {2}
    assert set(java_changes(paimon_java, path, consumer_id="c", scan__mode="latest")) == {3}
    assert consumers.next_snapshot_id("c") == 4
    writer.write(changes.epoch(5))
    assert set(our_changes(table.changelog(start="latest", consumer_id="c"))) == {4}
    assert paimon_java.changelog(path, options={"consumer-id": "c", "scan.mode": "latest"}) == []

    consumers.reset("c", 2)
    assert paimon_java.expire(path) == 1
    assert table.table.snapshots.ids() == [2, 3, 4]
    consumers.delete("c")
    assert paimon_java.expire(path) == 2
    consumers.reset("c", 2)
    with pytest.raises(UsageError, match="the first that it can still read is 4"):
        table.changelog(consumer_id="c")
