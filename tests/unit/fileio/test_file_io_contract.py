"""Every implementation keeps the contract of `file_io`.

The tests of each implementation cover its own durability and requests.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.fileio.background_sync import BackgroundSync
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.fileio.store_probes import store_now_ms
from stream_app.fileio.store_registry import file_io_of
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.files.synced_disk import SyncedDisk
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.servers.s3_server import S3Server

ODD_NAME = "dt=2026-11-20 12%3A00+ü#?&=~"
BYTES = 100_000


@dataclass(frozen=True)
class Storage:
    """A file system to try, and an empty folder of it.

    Attributes:
        again: gives the file system as another process has it.
        after_crash: gives it, and the folder, as they are found when the power comes back; what
            stays is no more than what was promised.
    """

    io: FileIO
    folder: str
    again: Callable[[], FileIO]
    after_crash: Callable[[], tuple[FileIO, str]]

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


HDFS = pytest.param("hdfs", marks=pytest.mark.java)


@pytest.fixture(params=["local", "synced in the background", "memory", "s3", HDFS])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Storage:
    """Return the storage of each implementation that writes."""
    if request.param == "memory":
        memory = MemoryFileIO()
        after_crash = lambda: (memory.after_crash(is_back=lambda _: True), "/table")  # noqa: E731
        return Storage(memory, "/table", lambda: memory, after_crash)
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        location = f"s3://{server.new_bucket()}/warehouse/t"
        return _elsewhere(*file_io_of(location, server.options))
    if request.param == "hdfs":
        cluster: HdfsCluster = request.getfixturevalue("hdfs")
        return _elsewhere(*file_io_of(f"{cluster.new_folder()}/t"))
    local, folder = LocalFileIO(), tmp_path / "table"
    folder.mkdir()
    disk = SyncedDisk(folder)
    disk.watch(monkeypatch)
    written = local if request.param == "local" else BackgroundSync(local)
    return Storage(
        written,
        str(folder),
        lambda: pickle.loads(pickle.dumps(local)),
        lambda: (local, str(disk.found_after(tmp_path / f"found-{uuid.uuid4()}"))),
    )


def _elsewhere(folder: str, io: FileIO) -> Storage:
    """The power goes here, and what we have left behind is there."""

    def again() -> FileIO:
        return pickle.loads(pickle.dumps(io))

    return Storage(io, folder, again, lambda: (again(), folder))


def content(number: int) -> bytes:
    return bytes([number]) * BYTES


def test_what_was_written_is_seen_everywhere_at_once(storage: Storage) -> None:
    io, path = storage.io, storage.path("a/b/f")
    io.write_bytes(path, b"12345")
    for file_io in (io, storage.again()):
        assert file_io.read_bytes(path) == b"12345"
        assert file_io.size(path) == 5
        assert file_io.exists(path)
        assert file_io.exists(storage.path("a"))
        assert file_io.list_names(storage.path("a/b")) == ["f"]
        assert [status.name for status in file_io.list_status(storage.path("a"))] == ["b"]
    io.delete(path)
    assert not storage.again().exists(path)
    assert storage.again().list_names(storage.path("a/b")) == []


def test_a_file_that_was_streamed_is_there_when_it_is_closed(storage: Storage) -> None:
    path = storage.path("bucket-0/data.parquet")
    with storage.io.open_output(path) as sink:
        sink.write(b"123")
        sink.write(pa.py_buffer(b"45"))
        assert sink.tell() == 5
    storage.io.sync(path)
    assert storage.again().read_bytes(path) == b"12345"
    assert storage.again().size(path) == 5


def test_a_file_is_read_at_any_position(storage: Storage) -> None:
    data = np.random.default_rng(1).bytes(3_000_000)
    storage.io.write_bytes(storage.path("f"), data)
    with storage.io.open_input(storage.path("f")) as source:
        assert source.size() == len(data)
        for start in (2_999_990, 0, 1_500_000, 7, 2_000_000):
            source.seek(start)
            assert source.read(300_000) == data[start : start + 300_000]
        source.seek(-4, 2)
        assert source.tell() == len(data) - 4
        assert source.read() == data[-4:]
        assert source.read(1) == b""


def test_parquet_is_written_and_read_in_its_own_way(storage: Storage) -> None:
    rows = pa.table({f"c{n}": np.arange(50_000) * n for n in range(5)})
    with storage.io.open_output(storage.path("f.parquet")) as sink:
        pq.write_table(rows, sink, row_group_size=10_000)
    with (
        storage.again().open_input(storage.path("f.parquet")) as source,
        pq.ParquetFile(source, buffer_size=8192) as file,
    ):
        assert pa.Table.from_batches(file.iter_batches(3000)) == rows


def test_an_empty_file_is_a_file(storage: Storage) -> None:
    storage.io.write_bytes(storage.path("f"), b"")
    assert storage.io.exists(storage.path("f"))
    assert (storage.io.size(storage.path("f")), storage.io.read_bytes(storage.path("f"))) == (
        0,
        b"",
    )
    with storage.io.open_input(storage.path("f")) as source:
        assert source.read() == b""


@pytest.mark.parametrize("names", [[ODD_NAME], [" ", "a b"], ["100%25"]])
def test_names_are_taken_as_they_are(storage: Storage, names: list[str]) -> None:
    for name in names:
        storage.io.write_bytes(storage.path(f"{name}/{name}"), name.encode())
    assert sorted(status.name for status in storage.io.list_status(storage.folder)) == sorted(names)
    for name in names:
        assert storage.io.list_names(storage.path(name)) == [name]
        assert storage.again().read_bytes(storage.path(f"{name}/{name}")) == name.encode()


def test_a_listing_has_sizes_times_and_folders(storage: Storage) -> None:
    before = time.time_ns() // 1_000_000
    storage.io.write_bytes(storage.path("below/one"), b"123")
    storage.io.write_bytes(storage.path("two"), b"1")
    statuses = {status.name: status for status in storage.io.list_status(storage.folder)}
    assert statuses.keys() == {"below", "two"}
    assert storage.io.list_names(storage.folder) == ["two"], "a folder is not a file"
    assert (statuses["below"].is_folder, statuses["below"].size) == (True, 0)
    assert (statuses["two"].is_folder, statuses["two"].size) == (False, 1)
    # Stores tell whole seconds.
    assert (
        before - 1000 <= statuses["two"].modification_time_ms <= time.time_ns() // 1_000_000 + 1000
    )


def test_the_time_of_a_new_file_is_the_file_systems(storage: Storage) -> None:
    before = time.time_ns() // 1_000_000
    storage.io.write_bytes(storage.path("f"), b"1")
    now_ms = store_now_ms(storage.io, storage.folder)
    assert before - 1000 <= now_ms <= time.time_ns() // 1_000_000 + 1000
    assert storage.io.list_names(storage.folder) == ["f"], "nothing is left"


def test_operations_on_absent_files(storage: Storage) -> None:
    io, absent = storage.io, storage.path("no/f")
    assert io.list_names(storage.path("no")) == []
    assert io.list_status(storage.path("no")) == []
    assert not io.exists(absent)
    io.delete(absent)
    io.delete_empty_folder(storage.path("no"))
    for operation in (io.read_bytes, io.size, io.open_input):
        with pytest.raises(FileNotFoundError):
            operation(absent)
    io.write_bytes(storage.path("no/f-1"), b"1")
    assert not io.exists(absent), "a name that only begins so is another one"
    assert io.list_names(absent) == []


def test_a_taken_name_keeps_its_bytes(storage: Storage) -> None:
    path = storage.path("deep/er/f")
    storage.io.check_atomic_create(storage.folder)
    assert storage.io.create_if_absent(path, b"first")
    assert not storage.io.create_if_absent(path, b"second")
    assert not storage.again().create_if_absent(path, b"first"), "not even by the same bytes"
    assert storage.again().read_bytes(path) == b"first"
    storage.io.overwrite(path, b"third")
    assert storage.again().read_bytes(path) == b"third"
    assert storage.io.list_names(storage.path("deep/er")) == ["f"], "nothing else is left"


def test_one_of_many_takes_a_name(storage: Storage) -> None:
    names = [f"snapshot-{number}" for number in range(10)]
    # They begin each name together, or the fastest would always be alone.
    barrier = threading.Barrier(4)

    def race(number: int) -> list[str]:
        io, won = storage.again(), []
        for name in names:
            barrier.wait(60)
            if io.create_if_absent(storage.path(name), content(number)):
                won.append(name)
        return won

    with ThreadPoolExecutor(4) as threads:
        won = dict(enumerate(threads.map(race, range(4))))
    assert sorted(name for taken in won.values() for name in taken) == names
    for number, taken in won.items():
        for name in taken:
            assert storage.io.read_bytes(storage.path(name)) == content(number)
    assert sorted(storage.io.list_names(storage.folder)) == names


def test_a_reader_never_sees_half_a_file(storage: Storage) -> None:
    odd: list[str] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            for name in storage.io.list_names(storage.folder):
                if name.startswith("."):
                    continue
                data = storage.io.read_bytes(storage.path(name))
                if data != data[:1] * BYTES:
                    odd.append(name)

    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        for number in range(10):
            storage.io.create_if_absent(storage.path(f"snapshot-{number}"), content(number))
            storage.io.overwrite(storage.path("LATEST"), content(number))
        is_over.set()
        looking.result()
    assert odd == []


def test_what_a_writing_call_has_returned_from_survives_a_power_cut(storage: Storage) -> None:
    io = storage.io
    with io.open_output(storage.path("bucket-0/data")) as sink:
        sink.write(b"data")
    io.sync(storage.path("bucket-0/data"))
    if isinstance(io, BackgroundSync):
        io.wait()
    io.write_bytes(storage.path("manifest/manifest-1"), b"manifest")
    assert io.create_if_absent(storage.path("snapshot/snapshot-1"), b"snapshot")
    for content in (b"1", b"2"):
        io.overwrite(storage.path("snapshot/LATEST"), content)
        files, folder = storage.after_crash()
        assert files.read_bytes(f"{folder}/snapshot/LATEST") == content
    assert files.read_bytes(f"{folder}/bucket-0/data") == b"data"
    assert files.read_bytes(f"{folder}/manifest/manifest-1") == b"manifest"
    assert files.read_bytes(f"{folder}/snapshot/snapshot-1") == b"snapshot"
    assert sorted(files.list_names(f"{folder}/snapshot")) == ["LATEST", "snapshot-1"]


def test_what_was_deleted_stays_away_when_deletions_were_synced(storage: Storage) -> None:
    for name in ("tag/tag-1", "tag/tag-2", "bucket-0/data"):
        storage.io.write_bytes(storage.path(name), b"1")
    storage.io.delete(storage.path("tag/tag-1"))
    storage.again().delete(storage.path("tag/tag-2"))
    storage.io.sync_deletions(storage.path("tag"))
    storage.io.sync_deletions(storage.path("no such folder"))
    files, folder = storage.after_crash()
    assert files.list_names(f"{folder}/tag") == []
    assert files.list_names(f"{folder}/bucket-0") == ["data"]


def test_only_an_empty_folder_is_deleted(storage: Storage) -> None:
    storage.io.write_bytes(storage.path("below/one"), b"1")
    storage.io.delete_empty_folder(storage.path("below"))
    assert storage.io.exists(storage.path("below/one"))
    storage.io.delete(storage.path("below/one"))
    for _ in range(2):
        storage.io.delete_empty_folder(storage.path("below"))
    assert not storage.io.exists(storage.path("below"))
