"""A real HDFS of its own: Hadoop's NameNode and two DataNodes in one JVM, on loopback.

tests/conftest.py imports the fixture `hdfs`; do not import it elsewhere. Each test takes a folder
of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder
from stream_app.app.launch.java import find_java
from tests.support.jobs.ingest_process import a_free_port

HOST = "127.0.0.1"
_START_SECONDS = 240
_numbers = itertools.count(1)
_JVM_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JUPITER = "org.junit.jupiter"
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "commons-cli", "jcl-over")
_SETTINGS = {
    # A file is closed without waiting for a DataNode's report; else that takes half a second each.
    "dfs.namenode.file.close.num-committed-allowed": "1",
    # Reports are late, so that files are read whose last block the NameNode does not know yet.
    "dfs.blockreport.incremental.intervalMsec": "30",
    "dfs.namenode.safemode.extension": "0",
}


class HdfsCluster:
    """One NameNode and two DataNodes, whose files lie in a folder.

    `start` after `kill` continues with the same data at the same port.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = a_free_port()
        self._settings = _SETTINGS | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        """The address ``hdfs://host:port``."""
        return f"hdfs://{HOST}:{self.port}"

    def new_folder(self) -> str:
        """Return the path of a unique folder, which does not exist yet."""
        return f"{self.root}/test-{next(_numbers)}"

    def start(self) -> HdfsCluster:
        """Start the cluster and wait until it accepts files."""
        assert self._process is None
        details = self.folder / "details.json"
        details.unlink(missing_ok=True)
        is_new = not (self.folder / "dfs").exists()
        command = [str(find_java()), *_JVM_FLAGS, f"-Dtest.build.data={self.folder}"]
        command += ["-cp", os.pathsep.join(map(str, _class_path()))]
        command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-nnport", str(self.port)]
        command += [
            "-datanodes",
            "2",
            "-writeDetails",
            str(details),
            *(["-format"] if is_new else []),
        ]
        for key, value in self._settings.items():
            command += ["-D", f"{key}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not _is_written(details):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError((self.folder / "log").read_text()[-3000:])
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        """End the processes as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> HdfsCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


@pytest.fixture(scope="session")
def hdfs_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """Yield one cluster for all tests."""
    with HdfsCluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture
def hdfs(hdfs_session: HdfsCluster) -> HdfsCluster:
    """Return the running cluster."""
    return hdfs_session


def _class_path() -> list[Path]:
    """Hadoop's own test cluster, beside the client that comes with Spark."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    of_spark = [jar for name in _OF_SPARK for jar in jars.glob(f"{name}*.jar")]
    match = re.search(r"hadoop-client-api-([\d.]+)\.jar", " ".join(map(str, of_spark)))
    assert match is not None, f"Spark brings Hadoop's client: {of_spark}"
    is_old = tuple(map(int, match[1].split("."))) < (3, 5)
    # The cluster asserts by JUnit when it starts.
    junit = ("junit", "junit", "4.13.2") if is_old else (_JUPITER, "junit-jupiter-api", "5.13.4")
    cluster = JarSet(
        name=f"hdfs-{match[1]}",
        coordinates=(
            MavenCoordinate("org.apache.hadoop", "hadoop-client-minicluster", match[1]),
            MavenCoordinate(*junit, is_transitive=not is_old),
        ),
    )
    return [*JarCache(jar_folder()).resolve(cluster), *of_spark]


def _is_written(details: Path) -> bool:
    with suppress(OSError, ValueError):
        return "namenode_port" in json.loads(details.read_text())
    return False
