"""What `file_io` promises, held against every implementation.

What only one of them does, its durability or its requests, is tested beside it.
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
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.fileio.store_time import store_now_ms
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.files.synced_disk import SyncedDisk
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.servers.s3_server import S3Server

ODD_NAME = "dt=2026-11-20 12%3A00+ü#?&=~"
BYTES = 100_000


@dataclass(frozen=True)
class Place:
    """A file system to try, and an empty folder of it.

    Attributes:
        again: gives the file system as another process has it.
        crashed: gives it, and the folder, as they are found when the power comes back; what stays
            is no more than what was promised.
    """

    io: FileIO
    folder: str
    again: Callable[[], FileIO]
    crashed: Callable[[], tuple[FileIO, str]]

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


HDFS = pytest.param("hdfs", marks=pytest.mark.java)


@pytest.fixture(params=["local", "synced in the background", "memory", "s3", HDFS])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Of each implementation that writes."""
    if request.param == "memory":
        memory = MemoryFileIO()
        crashed = lambda: (memory.after_crash(is_back=lambda _: True), "/table")  # noqa: E731
        return Place(memory, "/table", lambda: memory, crashed)
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
    return Place(
        written,
        str(folder),
        lambda: pickle.loads(pickle.dumps(local)),
        lambda: (local, str(disk.found_after(tmp_path / f"found-{uuid.uuid4()}"))),
    )


def _elsewhere(folder: str, io: FileIO) -> Place:
    """The power goes here, and what we have left behind is there."""

    def again() -> FileIO:
        return pickle.loads(pickle.dumps(io))

    return Place(io, folder, again, lambda: (again(), folder))


def content(number: int) -> bytes:
    return bytes([number]) * BYTES


def test_what_was_written_is_seen_everywhere_at_once(place: Place) -> None:
    io, path = place.io, place.path("a/b/f")
    io.write_bytes(path, b"12345")
    for file_io in (io, place.again()):
        assert file_io.read_bytes(path) == b"12345"
        assert file_io.size(path) == 5
        assert file_io.exists(path)
        assert file_io.exists(place.path("a"))
        assert file_io.list_names(place.path("a/b")) == ["f"]
        assert [status.name for status in file_io.list_status(place.path("a"))] == ["b"]
    io.delete(path)
    assert not place.again().exists(path)
    assert place.again().list_names(place.path("a/b")) == []


def test_a_file_that_was_streamed_is_there_when_it_is_closed(place: Place) -> None:
    path = place.path("bucket-0/data.parquet")
    with place.io.open_output(path) as sink:
        sink.write(b"123")
        sink.write(pa.py_buffer(b"45"))
        assert sink.tell() == 5
    place.io.sync(path)
    assert place.again().read_bytes(path) == b"12345"
    assert place.again().size(path) == 5


def test_a_file_is_read_at_any_place(place: Place) -> None:
    data = np.random.default_rng(1).bytes(3_000_000)
    place.io.write_bytes(place.path("f"), data)
    with place.io.open_input(place.path("f")) as source:
        assert source.size() == len(data)
        for start in (2_999_990, 0, 1_500_000, 7, 2_000_000):
            source.seek(start)
            assert source.read(300_000) == data[start : start + 300_000]
        source.seek(-4, 2)
        assert source.tell() == len(data) - 4
        assert source.read() == data[-4:]
        assert source.read(1) == b""


def test_parquet_is_written_and_read_in_its_own_way(place: Place) -> None:
    rows = pa.table({f"c{n}": np.arange(50_000) * n for n in range(5)})
    with place.io.open_output(place.path("f.parquet")) as sink:
        pq.write_table(rows, sink, row_group_size=10_000)
    with (
        place.again().open_input(place.path("f.parquet")) as source,
        pq.ParquetFile(source, buffer_size=8192) as file,
    ):
        assert pa.Table.from_batches(file.iter_batches(3000)) == rows


def test_an_empty_file_is_a_file(place: Place) -> None:
    place.io.write_bytes(place.path("f"), b"")
    assert place.io.exists(place.path("f"))
    assert (place.io.size(place.path("f")), place.io.read_bytes(place.path("f"))) == (0, b"")
    with place.io.open_input(place.path("f")) as source:
        assert source.read() == b""


@pytest.mark.parametrize("names", [[ODD_NAME], [" ", "a b"], ["100%25"]])
def test_names_are_taken_as_they_are(place: Place, names: list[str]) -> None:
    for name in names:
        place.io.write_bytes(place.path(f"{name}/{name}"), name.encode())
    assert sorted(status.name for status in place.io.list_status(place.folder)) == sorted(names)
    for name in names:
        assert place.io.list_names(place.path(name)) == [name]
        assert place.again().read_bytes(place.path(f"{name}/{name}")) == name.encode()


def test_a_listing_has_sizes_times_and_folders(place: Place) -> None:
    before = time.time_ns() // 1_000_000
    place.io.write_bytes(place.path("below/one"), b"123")
    place.io.write_bytes(place.path("two"), b"1")
    statuses = {status.name: status for status in place.io.list_status(place.folder)}
    assert statuses.keys() == {"below", "two"}
    assert place.io.list_names(place.folder) == ["two"], "a folder is not a file"
    assert (statuses["below"].is_folder, statuses["below"].size) == (True, 0)
    assert (statuses["two"].is_folder, statuses["two"].size) == (False, 1)
    # Stores tell whole seconds.
    assert before - 1000 <= statuses["two"].modified_millis <= time.time_ns() // 1_000_000 + 1000


def test_the_time_of_a_new_file_is_the_file_systems(place: Place) -> None:
    before = time.time_ns() // 1_000_000
    place.io.write_bytes(place.path("f"), b"1")
    now_ms = store_now_ms(place.io, place.folder)
    assert before - 1000 <= now_ms <= time.time_ns() // 1_000_000 + 1000
    assert place.io.list_names(place.folder) == ["f"], "nothing is left"


def test_what_is_not_there(place: Place) -> None:
    io, absent = place.io, place.path("no/f")
    assert io.list_names(place.path("no")) == []
    assert io.list_status(place.path("no")) == []
    assert not io.exists(absent)
    io.delete(absent)
    io.delete_empty_folder(place.path("no"))
    for operation in (io.read_bytes, io.size, io.open_input):
        with pytest.raises(FileNotFoundError):
            operation(absent)
    io.write_bytes(place.path("no/f-1"), b"1")
    assert not io.exists(absent), "a name that only begins so is another one"
    assert io.list_names(absent) == []


def test_a_taken_name_keeps_its_bytes(place: Place) -> None:
    path = place.path("deep/er/f")
    place.io.check_atomic_create(place.folder)
    assert place.io.create_if_absent(path, b"first")
    assert not place.io.create_if_absent(path, b"second")
    assert not place.again().create_if_absent(path, b"first"), "not even by the same bytes"
    assert place.again().read_bytes(path) == b"first"
    place.io.overwrite(path, b"third")
    assert place.again().read_bytes(path) == b"third"
    assert place.io.list_names(place.path("deep/er")) == ["f"], "nothing else is left"


def test_one_of_many_takes_a_name(place: Place) -> None:
    names = [f"snapshot-{number}" for number in range(10)]
    # They begin each name together, or the fastest would always be alone.
    barrier = threading.Barrier(4)

    def race(number: int) -> list[str]:
        io, won = place.again(), []
        for name in names:
            barrier.wait(60)
            if io.create_if_absent(place.path(name), content(number)):
                won.append(name)
        return won

    with ThreadPoolExecutor(4) as threads:
        won = dict(enumerate(threads.map(race, range(4))))
    assert sorted(name for taken in won.values() for name in taken) == names
    for number, taken in won.items():
        for name in taken:
            assert place.io.read_bytes(place.path(name)) == content(number)
    assert sorted(place.io.list_names(place.folder)) == names


def test_a_reader_never_sees_half_a_file(place: Place) -> None:
    odd: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for name in place.io.list_names(place.folder):
                if name.startswith("."):
                    continue
                data = place.io.read_bytes(place.path(name))
                if data != data[:1] * BYTES:
                    odd.append(name)

    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        for number in range(10):
            place.io.create_if_absent(place.path(f"snapshot-{number}"), content(number))
            place.io.overwrite(place.path("LATEST"), content(number))
        done.set()
        looking.result()
    assert odd == []


def test_what_a_writing_call_has_returned_from_survives_a_power_cut(place: Place) -> None:
    io = place.io
    with io.open_output(place.path("bucket-0/data")) as sink:
        sink.write(b"data")
    io.sync(place.path("bucket-0/data"))
    if isinstance(io, BackgroundSync):
        io.wait()
    io.write_bytes(place.path("manifest/manifest-1"), b"manifest")
    assert io.create_if_absent(place.path("snapshot/snapshot-1"), b"snapshot")
    for content in (b"1", b"2"):
        io.overwrite(place.path("snapshot/LATEST"), content)
        files, folder = place.crashed()
        assert files.read_bytes(f"{folder}/snapshot/LATEST") == content
    assert files.read_bytes(f"{folder}/bucket-0/data") == b"data"
    assert files.read_bytes(f"{folder}/manifest/manifest-1") == b"manifest"
    assert files.read_bytes(f"{folder}/snapshot/snapshot-1") == b"snapshot"
    assert sorted(files.list_names(f"{folder}/snapshot")) == ["LATEST", "snapshot-1"]


def test_what_was_deleted_stays_away_when_deletions_were_synced(place: Place) -> None:
    for name in ("tag/tag-1", "tag/tag-2", "bucket-0/data"):
        place.io.write_bytes(place.path(name), b"1")
    place.io.delete(place.path("tag/tag-1"))
    place.again().delete(place.path("tag/tag-2"))
    place.io.sync_deletions(place.path("tag"))
    place.io.sync_deletions(place.path("no such folder"))
    files, folder = place.crashed()
    assert files.list_names(f"{folder}/tag") == []
    assert files.list_names(f"{folder}/bucket-0") == ["data"]


def test_only_an_empty_folder_is_deleted(place: Place) -> None:
    place.io.write_bytes(place.path("below/one"), b"1")
    place.io.delete_empty_folder(place.path("below"))
    assert place.io.exists(place.path("below/one"))
    place.io.delete(place.path("below/one"))
    for _ in range(2):
        place.io.delete_empty_folder(place.path("below"))
    assert not place.io.exists(place.path("below"))
