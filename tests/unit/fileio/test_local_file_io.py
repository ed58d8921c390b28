"""A local file's name is taken once, whole or not at all, in any race."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stream_app.errors import UsageError
from stream_app.fileio.background_sync import BackgroundSync
from stream_app.fileio.local.local_file_io import LocalFileIO, local_path

FILE_IO = LocalFileIO()
BYTES = 200_000


def content(number: int) -> bytes:
    return bytes([number]) * BYTES


def race(folder: str, number: int, names: int) -> list[str]:
    """Try to create a file of every name, and return the names of those that this call created."""
    return [
        name
        for name in map(str, range(names))
        if FILE_IO.create_if_absent(f"{folder}/snapshot-{name}", content(number))
    ]


def assert_each_was_won_once(folder: Path, won: dict[int, list[str]], names: int) -> None:
    winners = {name: number for number, taken in won.items() for name in taken}
    assert sum(len(taken) for taken in won.values()) == len(winners) == names
    for name, number in winners.items():
        assert (folder / f"snapshot-{name}").read_bytes() == content(number)
    assert len(list(folder.iterdir())) == names, "no temporary file is left"


@pytest.mark.slow
def test_one_of_many_processes_takes_a_name(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        won = pool.starmap(race, [(str(tmp_path / "a"), n, 20) for n in range(3)])
    assert_each_was_won_once(tmp_path / "a", dict(enumerate(won)), 20)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    """The writer creates a name, and then overwrites it."""
    first_bytes: set[bytes] = set()
    odd: list[str] = []
    stop = False

    def look() -> None:
        while not stop:
            for name in FILE_IO.list_names(str(tmp_path)):
                if name.startswith("."):
                    continue
                data = (tmp_path / name).read_bytes()
                first_bytes.add(data[:1])
                if len(data) != BYTES or data != data[:1] * BYTES:
                    odd.append(name)

    with ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look) for _ in range(2)]
        for number in range(30):
            FILE_IO.create_if_absent(str(tmp_path / f"snapshot-{number}"), content(number))
            FILE_IO.overwrite(str(tmp_path / "LATEST"), content(number))
        stop = True
        for future in looking:
            future.result()
    assert odd == []


def test_temporary_names_begin_with_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers take every name that begins with snapshot- for a snapshot."""
    names: set[str] = set()
    link = os.link

    def watched(source: str, target: str) -> None:
        names.update(path.name for path in tmp_path.iterdir())
        link(source, target)

    monkeypatch.setattr("os.link", watched)
    FILE_IO.create_if_absent(str(tmp_path / "snapshot-1"), b"x")
    [name] = names
    assert name.startswith(".snapshot-1.")
    assert name.endswith(".tmp")
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot-1"]


@pytest.mark.parametrize("operation", ["create_if_absent", "overwrite"])
def test_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        getattr(FILE_IO, operation)(str(tmp_path / "old"), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old": b"old"}


def test_new_folders_and_files_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name survives a crash of the machine only if its folder was synced."""
    synced_paths: list[str] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        synced_paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr("os.fsync", watched)
    FILE_IO.write_bytes(str(tmp_path / "a" / "b" / "f"), b"x")
    for path in ("", "/a", "/a/b", "/a/b/f"):
        assert f"{tmp_path}{path}" in synced_paths
    synced_paths.clear()
    FILE_IO.create_if_absent(str(tmp_path / "a" / "s"), b"x")
    assert Path(synced_paths[0]).name.startswith(".s.")
    assert synced_paths[1:] == [f"{tmp_path}/a"]


def test_background_sync_waits_and_raises_the_failure(tmp_path: Path) -> None:
    files = BackgroundSync(FILE_IO)
    files.sync(str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError):
        files.wait()
    files.wait()  # the failure is raised once
    files.write_bytes(str(tmp_path / "f"), b"x")
    files.sync(str(tmp_path / "f"))
    files.wait()
    assert files.create_if_absent(str(tmp_path / "f"), b"y") is False
    files.overwrite(str(tmp_path / "f"), b"z")
    assert (files.read_bytes(str(tmp_path / "f")), files.size(str(tmp_path / "f"))) == (b"z", 1)
    assert files.list_names(str(tmp_path)) == ["f"]
    files.delete(str(tmp_path / "f"))
    assert not files.exists(str(tmp_path / "f"))
    files.close()


class SlowDisk(LocalFileIO):
    """A disk on which a sync takes as long as 200, and then leaves a mark."""

    def sync(self, path: str) -> None:
        for _ in range(200):
            FILE_IO.sync(path)
        Path(f"{path}.mark").touch()


def test_after_a_failure_no_sync_goes_on(tmp_path: Path) -> None:
    """The abort of a task deletes files, which nobody may be syncing then."""
    files = BackgroundSync(SlowDisk())
    path = str(tmp_path / "f")
    FILE_IO.write_bytes(path, b"x")
    files.sync(str(tmp_path / "absent"))
    files.sync(path)
    with pytest.raises(FileNotFoundError):
        files.wait()
    assert (tmp_path / "f.mark").exists()


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("file://localhost/a", "/a"),
        ("/a/100%25", "/a/100%25"),
    ],
)
def test_a_local_location_gives_its_path(location: str, path: str) -> None:
    assert local_path(location) == path


@pytest.mark.parametrize("location", ["s3://bucket/t", "hdfs://host/t", "file://host/t"])
def test_locations_of_other_file_systems_are_refused(location: str) -> None:
    with pytest.raises(UsageError, match="on a file system that stream_app does not"):
        local_path(location)
