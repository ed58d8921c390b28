"""Paimon reads our tables without a primary key, we read Paimon's, and both write in turns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.interop.append_tables import SOON, TABLES, a_table, some_inserts
from tests.support.interop.every_type import EVERY_TYPE, assert_metadata_agrees, attempt
from tests.support.jobs.table_writer import (
    CompactLater,
    TableWriter,
    by_content,
    read_changes,
    read_rows,
)
from tests.support.judges.normal_rows import Row, normal_rows, normal_value
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change
from tests.support.tables.snapshot_chain import check_chain

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
APPEND = CommitKind.APPEND
STATS = ("min_value_stats", "max_value_stats", "null_value_counts")


@pytest.mark.parametrize("name", TABLES)
def test_paimon_reads_our_table_as_we_do(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int, name: str
) -> None:
    columns, by, options = TABLES[name]
    writer = TableWriter(a_table(tmp_path, columns, by, **SOON, **options))
    table, model = writer.table, writer.model
    for epoch in some_inserts(table, seed, (30, 20, 10)):
        writer.write(epoch)
    assert by_content(paimon_java.read(table.location)) == by_content(model.rows())
    writer.commit.compact_due()
    kinds = [snapshot.commit_kind for snapshot in check_chain(table)]
    # Of its many partitions, none may have got a second file.
    assert CommitKind.COMPACT in kinds or name == "partitions"
    rows = by_content(model.rows())
    assert by_content(read_rows(table)) == rows
    assert by_content(paimon_java.read(table.location)) == rows
    assert by_content(normal_rows(pypaimon.read(table.location))) == rows
    assert_metadata_agrees(paimon_java, table)
    theirs = {
        plan.snapshot: by_content([{"": kind, **row} for kind, row in plan.changes])
        for plan in paimon_java.changelog(table.location)
    }
    appends = [
        snapshot.snapshot_id for snapshot in check_chain(table) if snapshot.commit_kind is APPEND
    ]
    ours = {
        appends[epoch]: by_content([{"": kind, **row} for kind, row in changes])
        for epoch, changes in read_changes(table).items()
    }
    assert theirs == ours


def described_file(file: Mapping[str, Any]) -> dict[str, str]:
    """Statistics as text. Both zeros are one: Parquet has a lowest zero be written as -0.0, which
    Paimon leaves as it came."""
    return {name: re.sub(r"=-0\.0(?=[,}])", "=0.0", str(file[name])) for name in STATS}


def test_our_statistics_are_paimons(paimon_java: PaimonJava, tmp_path: Path, seed: int) -> None:
    table = a_table(tmp_path / "ours", f"k INT, {EVERY_TYPE}")
    writer = TableWriter(table)
    [epoch] = some_inserts(table, seed, (40,))
    # Paimon's statistics of a column with NaN are wrong, ours leave the column out.
    epoch = [
        (kind, {name: None if value != value else value for name, value in row.items()})  # noqa: PLR0124
        for kind, row in epoch
    ]
    writer.write(epoch)
    location = tmp_path / "theirs" / "db.db" / "t"
    paimon_java.create(
        location,
        [(column.name, str(column.data_type)) for column in table.schema.fields],
        primary_keys=[],
        options={"bucket": -1},
    )
    rows = [(kind, normal_value(dict(row))) for kind, row in epoch]
    paimon_java.write(location, rows, identifier=0)
    [ours], [theirs] = (paimon_java.read(f"{path}$files") for path in (table.location, location))
    assert described_file(ours) == described_file(theirs)


@pytest.mark.parametrize("options", [{"bucket": -1}, {"bucket": 2, "bucket-key": "k"}])
def test_paimon_and_we_write_in_turns(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, options: dict[str, Any]
) -> None:
    location = tmp_path / "db.db" / "t"
    paimon_java.create(
        location,
        [("dt", "STRING"), ("k", "INT"), ("a", "STRING"), ("b", "DECIMAL(20,3)")],
        primary_keys=[], partition_keys=["dt"], options={**SOON, **options},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))
    writer = TableWriter(table, user="ours")
    model, ours = writer.model, 0
    for turn, epoch in enumerate(some_inserts(table, seed, (15,) * 9)):
        model.changes.append(epoch)
        if turn % 3 == 0:
            rows = [(kind, normal_value(dict(row))) for kind, row in epoch]
            paimon_java.write(location, rows, identifier=turn)
        else:
            if turn % 3 == 1:
                writer.restart()
            attempt(writer, ours, epoch)
            ours += 1
        if turn == 5:
            paimon_java.compact(location)
        if turn == 7:
            writer.commit.compact_due()
        assert by_content(read_rows(table)) == by_content(model.rows())
        assert by_content(paimon_java.read(location)) == by_content(model.rows())
    writer.commit.compact_due()
    paimon_java.compact(location)
    assert by_content(read_rows(table)) == by_content(model.rows())
    assert by_content(paimon_java.read(location)) == by_content(model.rows())
    assert_metadata_agrees(paimon_java, table)
    compacted_by = {
        snapshot["commitUser"] == "ours"
        for snapshot in paimon_java.snapshots(location)
        if snapshot["commitKind"] == "COMPACT"
    }
    assert compacted_by == {True, False}


def test_java_reads_a_bucket_in_the_order_of_its_rows(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """The bucket has compacted files, and newer rows behind them."""
    options = SOON | {"bucket": "1", "bucket-key": "b"}
    table = a_table(tmp_path, "k INT, b INT", **options)
    writer = TableWriter(table)
    for epoch in range(7):
        writer.write([("+I", {"k": epoch * 10 + number, "b": 0}) for number in range(10)])
        if epoch % 3 == 1:
            writer.commit.compact_due()
    expected = list(range(70))
    assert [row["k"] for row in paimon_java.read(table.location)] == expected
    assert [row["k"] for row in read_rows(table)] == expected


@pytest.mark.parametrize("options", [{"bucket": -1}, {"bucket": 1, "bucket-key": "k"}])
def test_deleted_rows_are_not_read_and_go_with_a_compaction(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Another engine deletes rows of the table while we append to it and compact it."""
    writer = deleting_writer(paimon_java, tmp_path, **{"compaction.min.file-num": 6}, **options)
    table, location = writer.table, writer.table.location
    for epoch in range(4):
        writer.write(numbers(epoch))
    [first, second, *_] = files_of(table)
    paimon_java.delete_rows(location, {first: [0, 3], second: range(10)})
    expected = [k for k in range(40) if k not in (0, 3) and not 10 <= k < 20]
    assert keys_of(read_rows(table)) == expected
    writer.write(numbers(4))
    expected += range(40, 50)
    index = table.snapshots.latest()
    assert index is not None
    assert index.index_manifest is not None
    assert keys_of(paimon_java.read(location)) == expected
    writer.write(numbers(5))
    expected += range(50, 60)
    writer.commit.compact_due()
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    vectors = deletion_vectors(table, latest)
    assert [names for names in vectors.values() if names] == []
    assert sum(entry.file.row_count for entry in FileStoreScan(table).live(latest)) == 48
    assert keys_of(read_rows(table)) == expected
    assert keys_of(paimon_java.read(location)) == expected
    assert sorted(normal["k"] for normal in normal_rows(pypaimon.read(location))) == expected
    # The snapshots before it still have their vectors.
    assert keys_of(paimon_java.read(location, snapshot=latest.snapshot_id - 1)) == expected
    assert_metadata_agrees(paimon_java, table)


def test_rows_deleted_while_their_file_is_compacted_stay_deleted(
    paimon_java: PaimonJava, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = deleting_writer(paimon_java, tmp_path, bucket=1, **{"bucket-key": "k"}, **SOON)
    writer.make_executor = CompactLater
    writer.restart()
    table, executor = writer.table, writer.executor
    assert isinstance(executor, CompactLater)
    for epoch in range(2):
        writer.write(numbers(epoch))
    first = files_of(table)[0]
    executor.run()
    paimon_java.delete_rows(table.location, {first: [5]})
    assert writer.commit.commit_idle() is None
    assert "1 rows of the files are deleted" in caplog.text
    expected = [k for k in range(20) if k != 5]
    assert keys_of(read_rows(table)) == expected
    writer.write(numbers(2))
    executor.run()
    assert writer.commit.commit_idle() is not None
    expected += range(20, 30)
    assert keys_of(read_rows(table)) == expected
    assert keys_of(paimon_java.read(table.location)) == expected


def test_a_large_file_is_rewritten_when_a_fifth_of_it_is_deleted(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    writer = deleting_writer(paimon_java, tmp_path, bucket=-1)
    for epoch in range(3):
        writer.write(numbers(epoch, 100))
    table = writer.table
    first, _, last = files_of(table)
    target = min(entry.file.file_size for entry in live_of(table))
    paimon_java.delete_rows(table.location, {first: range(20), last: range(21)})
    job = TableWriter(table.with_options({"target-file-size": f"{target} b"}), user="job")
    attempt(job, 0, numbers(3, 100))
    job.commit.compact_due()
    assert first in files_of(table)
    assert last not in files_of(table)
    latest = table.snapshots.latest()
    assert latest is not None
    [vectors] = deletion_vectors(table, latest).values()
    assert list(vectors) == [first]
    assert keys_of(paimon_java.read(table.location)) == keys_of(read_rows(table))
    assert len(read_rows(table)) == 400 - 41


def deleting_writer(paimon_java: PaimonJava, folder: Path, **options: Any) -> TableWriter:
    """Return a writer of a table of Paimon's that allows deletes."""
    location = folder / "db.db" / "t"
    paimon_java.create(
        location, [("k", "INT")], primary_keys=[],
        options={"deletion-vectors.enabled": "true", **options},
    )  # fmt: skip
    return TableWriter(require_writable(open_file_store_table(str(location))))


def numbers(epoch: int, count: int = 10) -> list[Change]:
    return [("+I", {"k": k}) for k in range(epoch * count, (epoch + 1) * count)]


def keys_of(rows: Sequence[Row]) -> list[int]:
    return sorted(row["k"] for row in rows)


def live_of(table: FileStoreTable) -> list[ManifestEntry]:
    return FileStoreScan(table).live(table.snapshots.latest())


def files_of(table: FileStoreTable) -> list[str]:
    """Names of live files, the oldest first."""
    return [entry.file.file_name for entry in live_of(table)]
