"""Starts the job as a user does, in a process of its own, follows its events, and kills it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.engines.fast_jvm import FAST_JVM

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 240
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
# Those of a run in another folder of the machine begin elsewhere, by the process's id.
_PORTS = itertools.cycle(range(15_000 + 500 * (_WORKER % 4) + os.getpid() % 8 * 2_000, 32_000))


def a_free_port() -> int:
    """Return a port that nobody takes before its server does.

    It is below those that the system gives to clients, and each process of the tests has its own.
    """
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it; JSON is the same for texts, numbers, booleans and lists."""
    return json.dumps(value)


def write_conf(path: Path, **sections: Mapping[str, Any]) -> Path:
    """Write a configuration file; keys may have dots."""
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{json.dumps(key)} = {toml_value(value)}" for key, value in values.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_events(file: Path) -> list[dict[str, Any]]:
    """Return the events that ``--events`` has written so far."""
    if not file.exists():
        return []
    events = []
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        # A killed process may have left half a line.
        if line.endswith("}\n"):
            events.append(json.loads(line[line.rindex('{"event"') :]))
    return events


@dataclass
class IngestProcess:
    """`stream-app ingest --conf …` in a process group of its own."""

    conf: Path
    folder: Path
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-P", "-m", "stream_app", "ingest")
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    runs: int = 0
    _events: list[dict[str, Any]] = field(default_factory=list)
    _events_size: int = 0

    @property
    def events_file(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def log_file(self) -> Path:
        return self.folder / f"log-{self.runs}.txt"

    def start(self, *arguments: str) -> None:
        self.runs += 1
        words = [*self.command, "--conf", str(self.conf), "--events", str(self.events_file)]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **self.environ}
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*words, *self.arguments, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environ,
                start_new_session=True,
            )

    def events(self) -> list[dict[str, Any]]:
        """Return all events of all runs so far; the file is read again only when it has grown."""
        size = self.events_file.stat().st_size if self.events_file.exists() else 0
        if size != self._events_size:
            self._events, self._events_size = read_events(self.events_file), size
        return self._events

    def wait_for(
        self,
        condition: Callable[[list[dict[str, Any]]], Any],
        seconds: float = START_SECONDS,
        every: float = 0.02,
    ) -> None:
        deadline = time.monotonic() + seconds
        while not condition(self.events()):
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended:\n{self.log()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s:\n{self.log()}")
            time.sleep(every)

    def kill(self) -> None:
        """SIGKILL the driver, and all processes that it started."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 180) -> int:
        """Ask the job to end after its epoch; Ctrl-C would interrupt a long one."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(seconds)

    def finish(self, seconds: float = 300) -> int:
        """Wait for the end, and return the exit code."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {seconds} s:\n{self.log()}") from None

    def log(self, characters: int = 6000) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-characters:]


def job_conf(folder: Path, **sections: Mapping[str, Any]) -> Path:
    """Return a configuration for two cores that drains its source and ends, unless `sections` say
    more.

    Table, checkpoint and quarantine lie in the folder. None leaves a key of ``[stream]`` out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    defaults: dict[str, dict[str, Any]] = {
        "source": {},
        "table": {
            "warehouse": str(folder / "warehouse"),
            "database": "db",
            "name": "t",
            "columns": "id BIGINT NOT NULL, v STRING",
            "primary-keys": ["id"],
            "options.bucket": "2",
            "options.changelog-producer": "input",
        },
        "stream": {"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
        "spark": {"spark.master": "local[2]", "spark.driver.extraJavaOptions": FAST_JVM},
    }
    names = [*defaults, *(name for name in sections if name not in defaults)]
    merged_sections = {name: {**defaults.get(name, {}), **sections.get(name, {})} for name in names}
    merged_sections["stream"] = {
        key: value for key, value in merged_sections["stream"].items() if value is not None
    }
    return write_conf(folder / "job.toml", **merged_sections)
