"""The demo's job and its producer: started, watched and killed.

The job is the real `stream-app ingest` in a process of its own. The demo reads its event log, and
the table's progress from the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from demo.shop import Shop
from stream_app.clock import Clock
from stream_app.errors import SourceError

_CHUNK = 500
_JOIN_S = 2.0


@dataclass
class ShopProducer:
    """Sends a shop's changes to a topic from a thread, at a steady pace."""

    shop: Shop
    bootstrap: str
    topic: str
    count: int
    per_second: int
    clock: Clock
    sent: int = 0
    failure: BaseException | None = None
    _thread: threading.Thread | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, also in the middle."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    @property
    def is_done(self) -> bool:
        """Whether every change is in the topic.

        Raises:
            SourceError: the broker did not take them.
        """
        if self.failure is not None:
            raise SourceError(f"the shop's changes could not be sent: {self.failure}")
        return self.sent >= self.count

    def _run(self) -> None:
        try:
            self._send_all()
        except Exception as error:
            self.failure = error

    def _send_all(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=20)
        began = self.clock.steady_seconds()
        while self.sent < self.count and not self._stopped.is_set():
            chunk = min(_CHUNK, self.count - self.sent)
            for key, value in self.shop.changes(chunk):
                producer.send(self.topic, key=key, value=value)
            producer.flush()
            self.sent += chunk
            ahead = self.sent / self.per_second - (self.clock.steady_seconds() - began)
            if ahead > 0:
                self._stopped.wait(ahead)
        producer.close()


@dataclass
class JobProgress:
    """What the events of the running job say, for the screen; a kill may swallow the last ones."""

    is_started: bool = False
    rows_per_second: float = 0.0
    sorted_runs: Mapping[str, int] = field(default_factory=dict)
    compactions_running: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one event."""
        self.sorted_runs = event.get("sorted_runs", self.sorted_runs)
        self.compactions_running = event.get("compactions_running", self.compactions_running)
        if event["event"] == "started":
            self.is_started = True
        elif event["event"] == "epoch" and not event["skipped"]:
            seconds = event["wait_s"] + event["write_s"] + event["commit_s"]
            self.rows_per_second = event["changes"] / seconds if seconds else 0.0


@dataclass
class DemoJob:
    """Runs of `stream-app ingest` over one checkpoint."""

    conf: Path
    folder: Path
    progress: JobProgress = field(default_factory=JobProgress)
    runs: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _read_to: int = 0

    @property
    def log_file(self) -> Path:
        """What the running job prints."""
        return self.folder / f"job-{self.runs}.log"

    def start(self) -> None:
        """Start it, or start it again."""
        self.runs += 1
        self.progress.is_started = False
        command = [sys.executable, "-P", "-m", "stream_app", "ingest", "--conf", str(self.conf)]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--events", str(self._events_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "STREAM_APP_SPARK_LOG": "-"},  # all into one file
            )

    def poll(self) -> None:
        """Read what has happened since.

        Raises:
            SourceError: the job has ended by itself.
        """
        self._read_events()
        if self._process is not None and self._process.poll() is not None:
            tail = self.log_file.read_text("utf-8", "replace").strip().splitlines()[-12:]
            raise SourceError(
                f"the job ended with exit code {self._process.returncode}",
                where=f"{self.log_file}:\n" + "\n".join(f"    {line}" for line in tail),
            )

    def abandon(self) -> None:
        """SIGKILL if it runs, without waiting."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def kill(self) -> int:
        """SIGKILL, as a power cut would; the process's number."""
        return self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ctrl-C; does nothing when it does not run."""
        if self._process is not None:
            self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None, "the job does not run"
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._process = None
        self._read_events()
        return process.pid

    @property
    def _events_file(self) -> Path:
        return self.folder / "events.jsonl"

    def _read_events(self) -> None:
        if not self._events_file.exists():
            return
        with self._events_file.open("rb") as source:
            source.seek(self._read_to)
            for line in source:
                if not line.endswith(b"\n"):
                    break  # being written, or the last words of a killed job
                self._read_to += len(line)
                start = line.rfind(b'{"event"')
                self.progress.take(json.loads(line[start:]))
