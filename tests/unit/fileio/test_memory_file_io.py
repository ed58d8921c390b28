"""Files in memory behave as files on a disk do, and a crash leaves what was synced."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.tables.small_table import SteppingClock


def test_parquet_is_written_and_read() -> None:
    files = MemoryFileIO()
    table = pa.table({"k": list(range(1000))})
    with files.open_output("/a/b/f.parquet") as sink:
        pq.write_table(table, sink)
    with files.open_input("/a/b/f.parquet") as source:
        assert pq.read_table(source) == table
        files.delete("/a/b/f.parquet")
        source.seek(0)
        assert pq.read_table(source) == table, "a reader that has the file open reads on"
    assert [status.name for status in files.list_status("/a")] == ["b"]
    assert files.list_names("/a/b") == []


def test_what_is_written_is_seen_at_once_and_lost_in_a_crash() -> None:
    files = MemoryFileIO()
    sink = files.open_output("/t/f")
    sink.write(b"123")
    assert files.read_bytes("/t/f") == b"123"
    assert files.after_crash().list_names("/t") == []
    assert files.after_crash(surviving=lambda _, size: size - 1).read_bytes("/t/f") == b"12"
    files.sync("/t/f")
    sink.write(b"456")
    sink.close()
    files_after_crash = files.after_crash()
    assert files_after_crash.read_bytes("/t/f") == b"123"
    files.write_bytes("/t/g", b"1")
    assert not files_after_crash.exists("/t/g")
    assert files_after_crash.after_crash().read_bytes("/t/f") == b"123"


@pytest.mark.parametrize("operation", ["write_bytes", "create_if_absent", "overwrite"])
def test_what_has_returned_survives_a_crash(operation: str) -> None:
    files = MemoryFileIO()
    getattr(files, operation)("/t/f", b"12")
    assert files.after_crash().read_bytes("/t/f") == b"12"


def test_a_deletion_may_be_lost() -> None:
    files = MemoryFileIO()
    files.write_bytes("/t/f", b"1")
    files.open_output("/t/g").close()
    files.delete("/t/f")
    files.delete("/t/g")
    assert files.after_crash().list_names("/t") == []
    back = files.after_crash(is_back=lambda _: True)
    assert back.list_names("/t") == ["f"]
    files.write_bytes("/t/f", b"2")
    assert files.after_crash(is_back=lambda _: True).read_bytes("/t/f") == b"2"
    files.write_bytes("/u/f", b"1")
    for path in ("/t/f", "/u/f"):
        files.delete(path)
    files.sync_deletions("/t")
    back = files.after_crash(is_back=lambda _: True)
    assert (back.exists("/t/f"), back.exists("/u/f")) == (False, True)


def test_one_of_many_threads_takes_a_name() -> None:
    files = MemoryFileIO()

    def race(number: int) -> int:
        return sum(files.create_if_absent(f"/t/{name}", bytes([number])) for name in range(50))

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(race, range(8))) == 50


def test_operations_on_absent_files() -> None:
    files = MemoryFileIO()
    assert files.list_names("/no") == []
    assert files.list_status("/no") == []
    assert not files.exists("/no")
    files.delete("/no")
    files.delete_empty_folder("/no")
    for operation in (files.read_bytes, files.size, files.open_input, files.sync):
        with pytest.raises(FileNotFoundError):
            operation("/no")


def test_folders_and_times() -> None:
    clock = SteppingClock(1_000_000)
    files = MemoryFileIO(clock)
    assert files.create_if_absent("/t/below/one", b"123")
    assert not files.create_if_absent("/t/below/one", b"4")
    files.overwrite("/t/below/one", b"1234")
    (status,) = files.list_status("/t/below")
    assert (status.name, status.size, status.is_folder) == ("one", 4, False)
    assert status.modification_time_ms == clock.millis
    assert files.after_crash().list_status("/t/below") == [status]
    (status,) = files.list_status("/t")
    assert (status.name, status.is_folder) == ("below", True)
    files.delete_empty_folder("/t/below")
    assert files.exists("/t/below/one")
    files.delete("/t/below/one")
    files.delete_empty_folder("/t/below")
    assert files.exists("/t")
    assert not files.exists("/t/below")


def test_it_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="in the memory of one process"):
        pickle.dumps(MemoryFileIO())
