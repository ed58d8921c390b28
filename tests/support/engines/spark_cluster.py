"""A Spark standalone cluster: a master and workers, each a process of its own on this machine.

A worker stands for a machine: it has its own folder for temporary files, and `WorkerMachine.kill`
ends it with all that runs on it. The environment of the workers holds nothing of the repository.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from stream_app.app.launch.jars import spark_home
from stream_app.app.launch.java import find_java
from tests.support.jobs.ingest_process import a_free_port
from tests.support.suite.polling import wait_until

HOST = "127.0.0.1"
SECONDS_MAX = 240
_JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def descendants(process: int) -> list[int]:
    """Return the ids of all processes below one, nearest first."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    processes = list(children.get(process, ()))
    for child in processes:
        processes += children.get(child, ())
    return processes


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def sockets(process: int) -> set[str]:
    """Return the kernel's numbers of a process's sockets."""
    sockets = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
    return sockets


def connections() -> Iterator[tuple[int, int, str]]:
    """Yield each TCP connection: its local port, the bytes that wait, the socket's number."""
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            port, waiting = words[1].rpartition(":")[2], words[4].partition(":")[2]
            yield int(port, 16), int(waiting, 16), words[9]


@dataclass
class WorkerMachine:
    """A worker of Spark, and the executors that it has started.

    Attributes:
        folder: its scratch space, temporary files and log.
    """

    folder: Path
    process: subprocess.Popen[bytes]

    def below(self) -> list[int]:
        """Return all processes that the worker has started, and those that these have started."""
        return descendants(self.process.pid)

    def executors(self) -> list[int]:
        """Return the JVMs of executors."""
        return [process for process in self.below() if "ExecutorBackend" in command_of(process)]

    def works(self) -> bool:
        """Return whether an executor has tasks, for which it has started Python."""
        return any("worker_daemon" in command_of(process) for process in self.below())

    def kill(self) -> None:
        """SIGKILL the worker and all that it started."""
        if self.process.poll() is not None:
            return  # its number may be another process's by now
        processes = [self.process.pid, *self.below()]
        for process in processes:
            _send(process, signal.SIGKILL)
        self.process.wait()

    def lose(self) -> None:
        """Kill the machine, and delete its disks."""
        self.kill()
        for name in ("work", "local", "tmp"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def kill_executors(self) -> None:
        """SIGKILL each executor with its Python processes; the worker starts another."""
        for process in self.below():
            _send(process, signal.SIGKILL)

    def stop_executors(self) -> list[int]:
        """SIGSTOP the JVMs of executors: they receive requests, and do nothing."""
        processes = self.executors()
        for process in processes:
            _send(process, signal.SIGSTOP)
        return processes

    def decommission(self) -> None:
        """Do what Spark's ``decommission-worker.sh`` does."""
        _send(self.process.pid, signal.SIGPWR)

    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")


@dataclass
class SparkCluster:
    """The master, and the workers that were ever started.

    Attributes:
        settings: of master and workers, such as ``spark.decommission.enabled``.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    workers: list[WorkerMachine] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __enter__(self) -> Self:
        self.port, self.page = a_free_port(), a_free_port()
        folder = self.folder / "master"
        arguments = ("--host", HOST, "--port", f"{self.port}", "--webui-port", f"{self.page}")
        self._master = self._started("master.Master", folder, HOST, *arguments)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        self._master.kill()
        self._master.wait()

    @property
    def url(self) -> str:
        """The master's address for ``spark.master``."""
        return f"spark://{HOST}:{self.port}"

    def add_worker(self) -> WorkerMachine:
        """Start a worker; it registers as soon as the master answers."""
        number = next(self._numbers)
        folder, host = self.folder / f"worker-{number}", f"127.0.0.{2 + number}"
        process = self._started(
            "worker.Worker", folder, host, "--host", host, "--cores", f"{self.cores}",
            "--memory", "2g", "--webui-port", "0", "--work-dir", f"{folder}/work", self.url,
        )  # fmt: skip
        worker = WorkerMachine(folder, process)
        self.workers.append(worker)
        return worker

    def alive(self) -> list[dict[str, Any]]:
        """Return the workers that the master can use."""
        return [worker for worker in self._state()["workers"] if worker["state"] == "ALIVE"]

    def holder(self, port: int) -> WorkerMachine | None:
        """Return the machine of the process that has a connection from this port."""
        numbers = {number for local, _, number in connections() if local == port}
        for worker in self.workers:
            if any(numbers & sockets(process) for process in worker.below()):
                return worker
        return None

    def wait_for_workers(self, count: int) -> None:
        wait_until(lambda: len(self.alive()) == count, lambda: str(self._state()))

    def _state(self) -> dict[str, Any]:
        try:
            with urlopen(f"http://{HOST}:{self.page}/json/", timeout=20) as answer:
                state: dict[str, Any] = json.load(answer)
        except (URLError, OSError):
            return {"workers": []}
        return state

    def _started(
        self, name: str, folder: Path, host: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        settings = [f"-D{key}={value}" for key, value in self.settings.items()]
        command = [str(find_java()), "-cp", f"{spark_home()}/jars/*", *_JAVA_OPTIONS, *settings]
        environ = {
            "PATH": os.defpath,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": host,
            "SPARK_SCALA_VERSION": "2.13",  # what Spark's scripts find out
            "SPARK_LOCAL_DIRS": f"{folder}/local",
            "TMPDIR": str(temporary),
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "LC_ALL": "C.UTF-8",
        }
        with (folder / "log.txt").open("wb") as log:
            return subprocess.Popen(
                [*command, f"org.apache.spark.deploy.{name}", *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environ,
                start_new_session=True,
            )


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
