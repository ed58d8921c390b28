"""After an error that leaves open whether the snapshot exists, the snapshot's files stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.errors import CommitError
from stream_app.fileio.file_io import UnsyncedError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.planning.buckets.rescale_plan import planned_rescales
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.overwrite.overwrite import overwrite
from stream_app.table.overwrite.rescale import rescale_partition
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.tables.small_table import small_table
from tests.support.tables.snapshot_chain import files_on_disk, files_that_snapshots_name
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")
ROWS = [("+I", {"k": k, "v": k}) for k in range(20)]


@dataclass(frozen=True)
class InterruptedFileIO(LocalFileIO):
    """A file system that creates each snapshot, and raises an error after it."""

    error: BaseException

    def create_if_absent(self, path: str, data: bytes) -> bool:
        is_created = super().create_if_absent(path, data)
        if "/snapshot/snapshot-" in path:
            raise self.error
        return is_created


@dataclass(frozen=True)
class BeatenFileIO(LocalFileIO):
    """A file system on which another writer takes the number of each snapshot."""

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return "/snapshot/snapshot-" not in path and super().create_if_absent(path, data)


def overwrite_table(table: FileStoreTable) -> None:
    numbers = pa.array(range(20), pa.int32())
    overwrite(table, pa.table({"k": numbers, "v": numbers}))


def rescale_table(table: FileStoreTable) -> None:
    live_entries = FileStoreScan(table).live(table.snapshots.latest())
    [rescale_plan] = planned_rescales(live_entries, 3)
    rescale_partition(table, rescale_plan)


@pytest.mark.parametrize("error", [UnsyncedError(5, "EIO"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("operation", [overwrite_table, rescale_table])
def test_the_files_of_a_snapshot_in_doubt_stay(
    tmp_path: Path, operation: Callable[[FileStoreTable], None], error: BaseException
) -> None:
    table = small_table(tmp_path / "db.db" / "t", "k INT, v INT", ("k",), bucket=2).table
    TableWriter(table).write(ROWS)
    rows = read_rows(table)
    with pytest.raises(type(error)):
        operation(replace(table, file_io=InterruptedFileIO(error=error)))
    assert table.snapshots.ids()[-1] == 2, "it exists in spite of the error"
    assert by_content(read_rows(table)) == by_content(rows)
    assert findings_of(table) == []


@pytest.mark.parametrize("operation", [overwrite_table, rescale_table])
def test_the_files_of_a_refused_commit_go(
    tmp_path: Path, operation: Callable[[FileStoreTable], None]
) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, v INT", ("k",), bucket=2, commit__max_retries=1
    ).table
    TableWriter(table).write(ROWS)
    with pytest.raises(CommitError):
        operation(replace(table, file_io=BeatenFileIO()))
    assert files_on_disk(table, "data-") == files_that_snapshots_name(table)
    assert findings_of(table) == []
