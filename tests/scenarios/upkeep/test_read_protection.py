"""No expiry deletes the version of a protected read, and the protection leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.read_protection import TAG_PREFIX, protected_version, tagged_version
from stream_app.table.upkeep.tag_upkeep import TagUpkeep
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
BUCKETS = 4


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    """Keys 0 to 39 with the value ``old``, in several buckets."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=BUCKETS)
    writer = TableWriter(small.table)
    writer.write([("+I", {"k": k, "v": "old"}) for k in range(40)])
    return writer


def overwrite_and_expire(writer: TableWriter) -> None:
    """Overwrite all rows, merge them whole, and expire all snapshots but the latest."""
    writer.write([("+U", {"k": k, "v": "new"}) for k in range(40)])
    writer.commit.compact_fully()
    expire(writer.table)


def expire(table: FileStoreTable) -> None:
    expiry = ExpireSnapshots(table)
    expiry.execute(expiry.plan(expire_config(table.options, num_max=1, num_min=1)))


def values(batches: Iterator[pa.RecordBatch] | pa.RecordBatchReader) -> list[str]:
    return [value for batch in batches for value in batch.column("v").to_pylist()]


def assert_nothing_is_left(table: FileStoreTable) -> None:
    assert table.tags.names() == []
    assert files_on_disk(table) == files_that_are_named(table)


def test_a_slow_reader_beside_an_expiry(writer: TableWriter) -> None:
    table = writer.table
    reader = PaimonTable(table).read(threads=1, protect="1 h")
    seen_values = values([reader.read_next_batch()])
    overwrite_and_expire(writer)
    assert table.snapshots.earliest_id() != 1
    seen_values += values(reader)
    assert seen_values == ["old"] * 40
    assert_nothing_is_left(table)
    assert values(PaimonTable(table).read()) == ["new"] * 40


def test_a_reader_without_protection_gets_an_error_with_the_missing_file(
    writer: TableWriter,
) -> None:
    reader = PaimonTable(writer.table).read(threads=1)
    reader.read_next_batch()
    overwrite_and_expire(writer)
    with pytest.raises(CorruptFileError, match="data-"):
        values(reader)
    assert writer.table.tags.names() == []


def test_versions_that_are_named_are_kept_as_well(writer: TableWriter) -> None:
    writer.write([("+U", {"k": 0, "v": "x"})])
    table = PaimonTable(writer.table)
    reader = table.read(snapshot=1, threads=2, protect="1 h")
    overwrite_and_expire(writer)
    assert values(reader) == ["old"] * 40
    assert_nothing_is_left(writer.table)


@pytest.mark.parametrize("batches", [0, 1])
def test_a_reader_that_is_dropped_takes_its_tag_along(writer: TableWriter, batches: int) -> None:
    reader = PaimonTable(writer.table).read(threads=1, protect="1 h")
    for _ in range(batches):
        reader.read_next_batch()
    assert len(writer.table.tags.names()) == 1
    overwrite_and_expire(writer)
    del reader
    assert_nothing_is_left(writer.table)


def test_a_read_with_a_limit_ends_too(writer: TableWriter) -> None:
    assert values(PaimonTable(writer.table).read(limit=3, protect="1 h")) == ["old"] * 3
    assert_nothing_is_left(writer.table)


def test_a_read_that_cannot_begin_leaves_no_tag(writer: TableWriter) -> None:
    with pytest.raises(UsageError, match="unknown column"):
        PaimonTable(writer.table).read(columns=["w"], protect="1 h")
    assert writer.table.tags.names() == []


def written_at_the_clocks_time(table: FileStoreTable) -> None:
    seconds = table.clock.now_ms() // 1000
    for name in table.tags.names():
        os.utime(f"{table.location}/tag/tag-{name}", (seconds, seconds))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_the_time_zone_of_a_reader_is_its_own(
    writer: TableWriter, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    table = writer.table
    try:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        tagged_version(lambda: (table, table.snapshots.latest()), 3_600_000, may_retry=True)
        written_at_the_clocks_time(table)
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        assert TagUpkeep(table).run().deleted_names == ()
        (name,) = table.tags.names()
        table.clock.sleep(3600)
        assert TagUpkeep(table).run().deleted_names == (name,)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_reader_that_dies_is_forgotten_when_its_time_is_over(writer: TableWriter) -> None:
    table = writer.table
    reader = PaimonTable(table).read(threads=1, protect="1 h")
    overwrite_and_expire(writer)
    written_at_the_clocks_time(table)
    table.clock.sleep(3500)
    assert TagUpkeep(table).run().deleted_names == ()
    table.clock.sleep(100)
    (deleted_name,) = TagUpkeep(table).run().deleted_names
    assert deleted_name.startswith(TAG_PREFIX)
    assert_nothing_is_left(table)
    del reader  # of one that was only away for too long


def test_a_read_that_outlasts_its_duration_ends_with_an_error(writer: TableWriter) -> None:
    table = writer.table
    reader = PaimonTable(table).read(threads=1, protect="1 h")
    reader.read_next_batch()
    overwrite_and_expire(writer)
    written_at_the_clocks_time(table)
    table.clock.sleep(3600)
    assert len(TagUpkeep(table).run().deleted_names) == 1
    with pytest.raises(CorruptFileError, match="data-"):
        values(reader)
    assert_nothing_is_left(table)


def test_a_tag_that_cannot_be_deleted_is_reported_and_the_rows_are_whole(
    writer: TableWriter, caplog: pytest.LogCaptureFixture
) -> None:
    table = replace(writer.table, file_io=TagsStay())
    assert values(PaimonTable(table).read(threads=1, protect="1 h")) == ["old"] * 40
    (name,) = table.tags.names()
    assert f"the tag {name} of a read could not be deleted: no right" in caplog.text


@dataclass(frozen=True)
class TagsStay(LocalFileIO):
    """Deletes no tag."""

    def delete(self, path: str) -> None:
        if "/tag/" in path:
            raise PermissionError(f"no right to delete {path}")
        LocalFileIO.delete(self, path)


def test_a_version_that_expires_before_it_has_its_tag(writer: TableWriter) -> None:
    table = writer.table
    old = table.snapshots.latest()
    overwrite_and_expire(writer)
    snapshots = [old, table.snapshots.latest()]
    with protected_version(lambda: (table, snapshots.pop(0)), 1000, may_retry=True) as (
        _,
        snapshot,
    ):
        assert snapshot == table.snapshots.latest()
        assert len(table.tags.names()) == 1
    with pytest.raises(UsageError, match="snapshot 1 has expired while it got the tag"):
        tagged_version(lambda: (table, old), 1000, may_retry=False)
    assert table.tags.names() == []


def test_an_empty_table_needs_no_protection(tmp_path: Path) -> None:
    table: SmallTable = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    assert values(PaimonTable(table.table).read(protect="1 h")) == []
    assert table.table.tags.names() == []


@pytest.mark.parametrize("text", ["3600", "0 s", "10 ms", "an hour", ""])
def test_implausible_durations_are_refused(writer: TableWriter, text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration of a second or more"):
        PaimonTable(writer.table).read(protect=text)
