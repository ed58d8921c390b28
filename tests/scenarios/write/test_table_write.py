"""A task sends one message a bucket, syncs all files, and leaves no file after a failure."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_id import BucketId
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import table_write
from stream_app.table.opening import create_or_open

PARTITION = serialize_row((), ())


@dataclass(frozen=True)
class WatchedFileIO(LocalFileIO):
    synced_paths: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    broken: bool = False

    def sync(self, path: str) -> None:
        self.gate.wait(10)
        if self.broken:
            raise OSError(28, "No space left on device")
        LocalFileIO.sync(self, path)
        self.synced_paths.append(path)


def table(folder: Path, file_io: LocalFileIO) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns("id BIGINT NOT NULL, name STRING"),
        primary_keys=("id",),
        partition_keys=(),
        options={"bucket": "3", "changelog-producer": "input"},
        time_ms=1,
    )
    return replace(create_or_open(str(folder / "db.db" / "t"), schema), file_io=file_io)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "_VALUE_KIND": pa.array([0] * len(ids), pa.int8()),
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"n{number}" for number in ids]),
        }
    )


def test_one_message_for_each_bucket_and_all_files_are_synced(tmp_path: Path) -> None:
    disk = WatchedFileIO()
    with table_write(table(tmp_path, disk), next_sequence_number=7) as write:
        write.write(BucketId(PARTITION, 0), rows(1, 2))
        write.write(BucketId(PARTITION, 0), rows(2, 3))
        write.write(BucketId(PARTITION, 2), rows(4))
        assert not disk.synced_paths, "writing does not wait for the disk"
        disk.gate.set()
        changes = write.prepare_commit()
    assert [(m.bucket, len(m.added_files), len(m.changelog_files)) for m in changes] == [
        (0, 1, 1),
        (2, 1, 1),
    ]
    [file] = changes[0].added_files
    assert (file.row_count, file.min_sequence_number, file.max_sequence_number) == (3, 7, 10)
    written = {str(path) for path in tmp_path.rglob("*.parquet")}
    assert set(disk.synced_paths) == written


def test_a_disk_that_fails_is_noticed_before_the_commit(tmp_path: Path) -> None:
    disk = WatchedFileIO(broken=True)
    disk.gate.set()
    write = table_write(table(tmp_path, disk), next_sequence_number=0)
    write.write(BucketId(PARTITION, 0), rows(1))
    with pytest.raises(OSError, match="No space left"):
        write.prepare_commit()


def test_a_failed_task_leaves_no_file(tmp_path: Path) -> None:
    disk = WatchedFileIO()
    disk.gate.set()
    with pytest.raises(ZeroDivisionError):
        _write_and_fail(table(tmp_path, disk))
    assert not list(tmp_path.rglob("*.parquet"))


def _write_and_fail(target: FileStoreTable) -> None:
    with table_write(target, next_sequence_number=0) as write:
        write.write(BucketId(PARTITION, 0), rows(1))
        write.write(BucketId(PARTITION, 1), rows(2))
        raise ZeroDivisionError
