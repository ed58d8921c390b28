"""What is special about HDFS: lost answers, name services, restarts, and what errors tell."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stream_app.clock import SystemClock
from stream_app.errors import StorageError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.fileio.hdfs_file_io import HdfsFileIO
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.ingest_process import a_free_port
from tests.support.lossy_link import Loss, LossyLink

AT_ONCE = {"hadoop.dfs.client.failover.max.attempts": "0"}


@pytest.fixture
def folder(hdfs: HdfsCluster) -> str:
    return hdfs.new_folder()


@pytest.fixture
def io(folder: str) -> FileIO:
    return file_io_of(folder)[1]


@pytest.fixture
def link(hdfs: HdfsCluster) -> Iterator[LossyLink]:
    with LossyLink(hdfs.port) as link:
        yield link


def over(link: LossyLink, folder: str) -> tuple[FileIO, str]:
    """The folder as it is seen at the other end of a bad line."""
    location = f"hdfs://127.0.0.1:{link.port}/{folder.rpartition('/')[2]}"
    return file_io_of(location)[1], location


def race(io: FileIO, folder: str, number: int) -> list[int]:
    names = range(10)
    return [n for n in names if io.create_if_absent(f"{folder}/snapshot-{n}", b"%d" % number)]


def test_one_of_many_processes_takes_a_name(io: FileIO, folder: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        won = pool.starmap(race, [(io, folder, number) for number in range(2)])
    assert sorted(won[0] + won[1]) == list(range(10))
    for number, names in enumerate(won):
        for name in names:
            assert io.read_bytes(f"{folder}/snapshot-{name}") == b"%d" % number


@pytest.mark.parametrize("method", ["create", "addBlock", "complete", "rename2"])
@pytest.mark.parametrize("loss", Loss)
def test_what_is_lost_on_the_network_is_no_lost_race(
    io: FileIO, folder: str, link: LossyLink, method: str, loss: Loss
) -> None:
    lossy, there = over(link, folder)
    assert not lossy.exists(there)  # connected
    link.lose(method, loss)
    assert lossy.create_if_absent(f"{there}/snapshot-1", b"1")
    assert link.lost == 1
    assert io.read_bytes(f"{folder}/snapshot-1") == b"1"
    assert not lossy.create_if_absent(f"{there}/snapshot-1", b"1"), "not even by the same bytes"
    link.lose(method, loss)
    lossy.overwrite(f"{there}/LATEST", b"2")
    assert (link.lost, io.read_bytes(f"{folder}/LATEST")) == (2, b"2")


@pytest.mark.parametrize("loss", Loss)
def test_a_lost_race_is_one_also_when_its_answer_is_lost(
    io: FileIO, folder: str, link: LossyLink, loss: Loss
) -> None:
    assert io.create_if_absent(f"{folder}/snapshot-1", b"1")
    lossy, there = over(link, folder)
    link.lose("rename2", loss)
    assert not lossy.create_if_absent(f"{there}/snapshot-1", b"1")
    assert link.lost == 1
    assert io.list_names(folder) == ["snapshot-1"]


def test_what_cannot_be_known_is_told(io: FileIO, folder: str, link: LossyLink) -> None:
    """Ours was created and is replaced, before we come to look."""
    lossy, there = over(link, folder)
    assert isinstance(lossy, HdfsFileIO)

    class Meanwhile(SystemClock):
        pass

    link.lose("rename2", Loss.ANSWER)
    read_bytes = lossy.read_bytes

    def replaced(path: str) -> bytes:
        io.overwrite(f"{folder}/snapshot-1", b"2")
        return read_bytes(path)

    object.__setattr__(lossy, "read_bytes", replaced)
    with pytest.raises(OSError, match="not known whether") as caught:
        lossy.create_if_absent(f"{there}/snapshot-1", b"1")
    assert caught.value.filename == f"{there}/snapshot-1"
