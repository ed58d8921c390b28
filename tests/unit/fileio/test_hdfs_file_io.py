"""The store handles HDFS's lost answers, name services, restarts and error texts."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hdfs_native
import pytest

from stream_app.clock import Clock
from stream_app.errors import StorageError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.hdfs.hdfs_file_io import HdfsFileIO
from stream_app.fileio.store_registry import file_io_of
from stream_app.table.storage_errors import storage_error
from tests.support.jobs.ingest_process import a_free_port
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.servers.lossy_link import Loss, LossyLink

pytestmark = pytest.mark.java
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


def folder_over(link: LossyLink, folder: str) -> tuple[FileIO, str]:
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
def test_what_is_lost_on_the_network_is_not_a_lost_race(
    io: FileIO, folder: str, link: LossyLink, method: str, loss: Loss
) -> None:
    lossy, path = folder_over(link, folder)
    assert not lossy.exists(path)  # connected
    link.lose(method, loss)
    assert lossy.create_if_absent(f"{path}/snapshot-1", b"1")
    assert link.lost == 1
    assert io.read_bytes(f"{folder}/snapshot-1") == b"1"
    assert not lossy.create_if_absent(f"{path}/snapshot-1", b"1"), "not even by the same bytes"
    link.lose(method, loss)
    lossy.overwrite(f"{path}/LATEST", b"2")
    assert (link.lost, io.read_bytes(f"{folder}/LATEST")) == (2, b"2")


@pytest.mark.parametrize("loss", Loss)
def test_a_lost_race_is_one_also_when_its_answer_is_lost(
    io: FileIO, folder: str, link: LossyLink, loss: Loss
) -> None:
    assert io.create_if_absent(f"{folder}/snapshot-1", b"1")
    lossy, path = folder_over(link, folder)
    link.lose("rename2", loss)
    assert not lossy.create_if_absent(f"{path}/snapshot-1", b"1")
    assert link.lost == 1
    assert io.list_names(folder) == ["snapshot-1"]


def test_a_creation_with_an_unknown_outcome_is_an_error(
    io: FileIO, folder: str, link: LossyLink
) -> None:
    """Ours was created and is replaced, before we come to look."""
    lossy, location = folder_over(link, folder)
    assert isinstance(lossy, HdfsFileIO)
    link.lose("rename2", Loss.ANSWER)
    read_bytes = lossy.read_bytes

    def replaced(path: str) -> bytes:
        io.overwrite(f"{folder}/snapshot-1", b"2")
        return read_bytes(path)

    object.__setattr__(lossy, "read_bytes", replaced)
    with pytest.raises(OSError, match="may or may not have been created") as caught:
        lossy.create_if_absent(f"{location}/snapshot-1", b"1")
    assert caught.value.filename == f"{location}/snapshot-1"


def test_a_file_is_read_whole_whose_last_block_is_not_reported_yet(
    hdfs: HdfsCluster, io: FileIO, folder: str
) -> None:
    client = hdfs_native.Client(hdfs.root)
    short = 0
    for number in range(20):
        path = f"{folder}/{number}"
        io.write_bytes(path, b"12345")
        short += len(client.read(path.removeprefix(hdfs.root))) < 5
        assert io.read_bytes(path) == b"12345"
        with io.open_input(path) as source:
            assert source.read() == b"12345"
    assert short, "the cluster is made so that it happens"


def test_reading_goes_on_when_a_connection_is_cut(io: FileIO, folder: str, link: LossyLink) -> None:
    io.write_bytes(f"{folder}/f", b"12345")
    lossy, path = folder_over(link, folder)
    reads: list[tuple[str, Callable[[], object]]] = [
        ("getFileInfo", lambda: lossy.exists(f"{path}/f")),
        ("getListing", lambda: lossy.list_names(path)),
        ("getBlockLocations", lambda: lossy.read_bytes(f"{path}/f")),
        ("delete", lambda: lossy.delete(f"{path}/none")),
    ]
    for number, (method, read) in enumerate(reads, start=1):
        link.lose(method, Loss.ANSWER)
        read()
        assert link.lost == number


def test_a_file_whose_writing_failed_is_given_up_at_once(folder: str, link: LossyLink) -> None:
    lossy, path = folder_over(link, folder)
    sink = lossy.open_output(f"{path}/data")
    sink.write(b"1" * 3_000_000)
    link.lose("complete", Loss.REQUEST)
    with pytest.raises(OSError, match="data"):
        sink.close()
    assert link.lost == 1


def ha_settings(hdfs: HdfsCluster) -> dict[str, str]:
    """A name service of two NameNodes, the first of which is down."""
    return {
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "nn1,nn2",
        "dfs.namenode.rpc-address.lake.nn1": f"127.0.0.1:{a_free_port()}",
        "dfs.namenode.rpc-address.lake.nn2": f"127.0.0.1:{hdfs.port}",
        "fs.viewfs.mounttable.all.link./warehouse": "hdfs://lake/",
        "fs.viewfs.mounttable.all.linkFallback": "hdfs://lake/elsewhere",
    }


def test_a_name_service_is_known_by_options(hdfs: HdfsCluster, io: FileIO, folder: str) -> None:
    name = folder.rpartition("/")[2]
    options = {f"hadoop.{key}": value for key, value in ha_settings(hdfs).items()}
    location, by_service = file_io_of(f"hdfs://lake/{name}/", options)
    assert location == f"hdfs://lake/{name}"
    for file_io in (by_service, pickle.loads(pickle.dumps(by_service))):
        assert file_io.create_if_absent(f"{location}/f", b"1")
        assert not io.create_if_absent(f"{folder}/f", b"1")
        file_io.delete(f"{location}/f")


def test_a_name_service_and_mounts_are_known_by_hadoops_files(
    hdfs: HdfsCluster, io: FileIO, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in ha_settings(hdfs).items()
    )
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    name = folder.rpartition("/")[2]
    for number, location in enumerate((f"hdfs://lake/{name}", f"viewfs://all/warehouse/{name}")):
        path, mounted_io = file_io_of(location)
        assert mounted_io.create_if_absent(f"{path}/{number}", b"1")
        assert io.read_bytes(f"{folder}/{number}") == b"1"
        assert [status.name for status in mounted_io.list_status(path)][-1] == str(number)


def test_errors_are_the_systems_and_in_few_words(
    hdfs: HdfsCluster, io: FileIO, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    io.write_bytes(f"{folder}/f", b"1")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    other_io = file_io_of(folder)[1]
    assert other_io.read_bytes(f"{folder}/f") == b"1"
    with pytest.raises(PermissionError, match=r"denied: user=somebody") as caught:
        other_io.write_bytes(f"{folder}/g", b"1")
    assert caught.value.filename == f"{folder}/g"
    assert "org.apache" not in str(caught.value)
    with pytest.raises(OSError, match="Invalid path name"):
        io.write_bytes(f"{folder}/a:b", b"1")
    with pytest.raises(UsageError, match="is not on hdfs:"):
        io.read_bytes("hdfs://elsewhere/f")
    nobody = f"hdfs://127.0.0.1:{a_free_port()}/t"
    unreachable_io = file_io_of(nobody, AT_ONCE)[1]
    object.__setattr__(unreachable_io, "clock", ImpatientClock())
    with pytest.raises(OSError, match="refused") as raised:
        unreachable_io.list_names(nobody)
    assert raised.value.filename == nobody
    assert "HADOOP_CONF_DIR" in storage_error(raised.value).fix


class ImpatientClock(Clock):
    """Each wait takes all the time there is."""

    def __init__(self) -> None:
        self.total_wait_s = 0.0

    def now_ms(self) -> int:
        return 0

    def steady_seconds(self) -> float:
        return self.total_wait_s

    def sleep(self, seconds: float) -> None:
        self.total_wait_s += 60 + seconds


def test_a_missing_setting_or_package_is_an_error_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(StorageError, match=r"NameNode(?s:.*)HADOOP_CONF_DIR"):
        file_io_of("hdfs://nowhere/t")
    with pytest.raises(StorageError, match=r"fs.defaultFS(?s:.*)HADOOP_CONF_DIR"):
        file_io_of("hdfs:///t")
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(StorageError, match=r"not installed(?s:.*)stream_app\[hdfs\]"):
        file_io_of("hdfs://127.0.0.1:1/t")
