"""A store that ignores conditions, raced for by processes that share a lock, or do not."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
from collections.abc import Mapping
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from stream_app.errors import StorageError
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.fileio.s3.locked_s3_file_io import LockedS3FileIO
from tests.support.s3_server import S3Server

NAMES = range(15)


@pytest.fixture
def folder(s3: S3Server) -> str:
    s3.ignores_conditions = True
    return f"s3://{s3.new_bucket()}/t"


def locked(s3: S3Server, lock: Path) -> Mapping[str, str]:
    return s3.options | {"s3.create-lock-file": str(lock)}


def race(
    folder: str,
    options: Mapping[str, str],
    number: int,
    together: Barrier,
    won: SimpleQueue[tuple[int, list[int]]],
) -> None:
    io, mine = file_io_of(folder, options)[1], []
    for name in NAMES:
        together.wait(60)
        if io.create_if_absent(f"{folder}/snapshot-{name}", b"%d" % number):
            mine.append(name)
    won.put((number, mine))


def raced(folder: str, options: Mapping[str, str]) -> dict[int, list[int]]:
    """Which names each of two processes took that began each of them together."""
    context = multiprocessing.get_context("spawn")
    together, won = context.Barrier(2), context.SimpleQueue()
    processes = [
        context.Process(target=race, args=(folder, options, number, together, won))
        for number in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return dict(won.get() for _ in processes)


@pytest.mark.slow
def test_one_of_two_processes_takes_a_name_under_the_lock(
    s3: S3Server, folder: str, tmp_path: Path
) -> None:
    won = raced(folder, locked(s3, tmp_path / "lock"))
    assert sorted(won[0] + won[1]) == list(NAMES)
    io = file_io_of(folder, s3.options)[1]
    for number, names in won.items():
        for name in names:
            assert io.read_bytes(f"{folder}/snapshot-{name}") == b"%d" % number
    # The store is one on which both win without it.
    assert [io.create_if_absent(f"{folder}/again", b"") for _ in range(2)] == [True, True]


def test_a_table_is_written_under_one_lock_alone(
    s3: S3Server, folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    io = file_io_of(folder, locked(s3, tmp_path / "lock"))[1]
    for each in (io, pickle.loads(pickle.dumps(io))):
        assert isinstance(each, LockedS3FileIO)
        with caplog.at_level(logging.WARNING):
            each.check_atomic_create(folder)
        assert "no other engine" in caplog.messages[-1]
    other = file_io_of(folder, locked(s3, tmp_path / "other"))[1]
    with pytest.raises(StorageError, match="another lock"):
        other.check_atomic_create(folder)
    with pytest.raises(StorageError, match="another lock"):
        io.check_atomic_create(folder)
    none = file_io_of(folder, s3.options)[1]
    with pytest.raises(StorageError, match=r"ignores If-None-Match(?s:.*)s3.create-lock-file"):
        none.check_atomic_create(folder)
    nowhere = file_io_of(folder, locked(s3, tmp_path / "none" / "lock"))[1]
    with pytest.raises(StorageError, match="cannot be opened"):
        nowhere.create_if_absent(f"{folder}/f", b"")


def test_a_store_that_minds_conditions_is_asked_for_them_too(
    s3: S3Server, folder: str, tmp_path: Path
) -> None:
    """A job that has no lock may write beside those that have one."""
    s3.ignores_conditions = False
    io = file_io_of(folder, locked(s3, tmp_path / "lock"))[1]
    with s3.counted() as requests:
        assert io.create_if_absent(f"{folder}/f", b"1")
    assert [method for method, _ in requests].count("PUT") == 1
    assert not file_io_of(folder, s3.options)[1].create_if_absent(f"{folder}/f", b"2")
    assert not io.create_if_absent(f"{folder}/f", b"3")
    assert io.read_bytes(f"{folder}/f") == b"1"
