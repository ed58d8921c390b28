"""Starts, watches and kills the demo's job and its producer.

The job is the real `stream-app ingest` in a process of its own. `progress_panel` reads the job's
progress from its tables.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka import KafkaProducer

from stream_app.clock import Clock
from stream_app.demo.shop import Shop
from stream_app.errors import SourceError

_CHUNK_MESSAGE_COUNT = 500
_BATCH_SIZE = 512 * 1024
_JOIN_WAIT_S = 2.0


@dataclass
class ShopProducer:
    """A thread that sends a shop's changes to their topics, at a steady pace.

    The thread sends half of them, waits until `alter`, and sends the rest.

    Attributes:
        count, per_second: the number of changes, and their rate.
        sent_count: the number of changes that the thread has sent.
        failure: the error that has ended the thread; None without one.
    """

    shop: Shop
    bootstrap: str
    count: int
    per_second: float
    clock: Clock
    sent_count: int = 0
    failure: BaseException | None = None
    _thread: threading.Thread | None = field(init=False, default=None)
    _has_stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _may_alter: threading.Event = field(init=False, default_factory=threading.Event)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)
        self._thread.start()

    def alter(self) -> None:
        """Let the shop alter its tables, then continue."""
        self._may_alter.set()

    def stop(self) -> None:
        """Stop the producer, even before it has sent everything."""
        self._has_stopped.set()
        self._may_alter.set()
        if self._thread is not None:
            self._thread.join(_JOIN_WAIT_S)

    @property
    def is_done(self) -> bool:
        """Whether the topics have every change.

        Raises:
            SourceError: the broker did not take them.
        """
        if self.failure is not None:
            raise SourceError(
                f"the shop's changes could not be sent: {self.failure}",
                fix="check that the demo's broker runs, and start the demo again",
            )
        return self.sent_count >= self.count

    def _run(self) -> None:
        try:
            self._send_all()
        except Exception as error:
            self.failure = error

    def _send_all(self) -> None:
        # A schema envelope is 3 kB of text that every message repeats.
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            linger_ms=20,
            batch_size=_BATCH_SIZE,
            compression_type="gzip",
        )
        self._send(producer, self.count - self.count // 2)
        self._may_alter.wait()
        self.shop.alter()
        self._send(producer, self.count // 2)
        producer.close()

    def _send(self, producer: KafkaProducer, count: int) -> None:
        start_s = self.clock.steady_seconds()
        sent = 0
        messages = self.shop.messages(count)
        while chunk := list(itertools.islice(messages, _CHUNK_MESSAGE_COUNT)):
            for topic, key, value in chunk:
                producer.send(topic, key=key, value=value)
            producer.flush()
            sent += len(chunk)
            self.sent_count += len(chunk)
            pause_s = sent / self.per_second - (self.clock.steady_seconds() - start_s)
            if self._has_stopped.wait(max(0.0, pause_s)):
                break


@dataclass
class DemoJob:
    """A job that runs `stream-app ingest` several times with one checkpoint.

    Attributes:
        arguments: the arguments of `stream-app`.
        root: the folder in which the job runs; the configuration's paths are relative to it.
        folder: the folder of the job's logs.
        is_started: whether the newest run has begun to take changes.
    """

    arguments: Sequence[str]
    root: Path
    folder: Path
    is_started: bool = False
    run_count: int = 0
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _events_offset: int = field(init=False, default=0)

    @property
    def log_file(self) -> Path:
        """The file with the output of the running job."""
        return self.folder / f"job-{self.run_count}.log"

    @property
    def output_byte_count(self) -> int:
        """The size of the running job's log, and of the events of all runs."""
        return self.log_file.stat().st_size + self._events_offset

    def end_of_log(self) -> str:
        """Return the path of the running job's log, and its last lines."""
        lines = self.log_file.read_text("utf-8", "replace").strip().splitlines()[-12:]
        return f"{self.log_file}:\n" + "\n".join(f"    {line}" for line in lines)

    def start(self) -> None:
        """Start the job, for the first time or again."""
        self.run_count += 1
        self.is_started = False
        command = [sys.executable, "-P", "-m", "stream_app", *self.arguments]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--events", str(self._events_file)],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "STREAM_APP_SPARK_LOG": "-"},  # all into one file
            )

    def poll(self) -> None:
        """Read the events that the job has written since the last call.

        Raises:
            SourceError: the job has ended by itself.
        """
        self._read_events()
        if self._process is not None and self._process.poll() is not None:
            raise SourceError(
                f"the job ended with exit code {self._process.returncode}",
                where=self.end_of_log(),
                fix="correct what the log names, and start the demo again",
            )

    def abandon(self) -> None:
        """Kill the job with SIGKILL if it runs, and wait for its end."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def kill(self) -> int:
        """Kill the job with SIGKILL, as a power cut would; return its process number."""
        return self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the job as Ctrl-C does; does nothing if it does not run."""
        if self._process is not None:
            self._end(signal.SIGINT)

    def _end(self, signal_number: signal.Signals) -> int:
        process = self._process
        assert process is not None, "the job does not run"
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal_number)
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
            source.seek(self._events_offset)
            for line in source:
                if not line.endswith(b"\n"):
                    break  # an event that is being written, or the rest of a killed job's event
                self._events_offset += len(line)
                start = line.rfind(b'{"event"')  # after the rest of a killed job's event
                self.is_started |= json.loads(line[start:])["event"] == "started"
