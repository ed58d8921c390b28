"""Servers of the testbed as child processes: started, waited for, ended by their own ids."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.jobs.ingest_process import a_free_port

START_SECONDS = 120.0
STOP_SECONDS = 60.0


class ServerProcess:
    """One process whose output goes to a file.

    Args:
        owner: user id that it runs as, when that is not ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        owner: int | None = None,
    ) -> None:
        self.log_file = log
        self._name = Path(command[0]).name
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env if env is not None else os.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=owner,
                group=owner,
                extra_groups=None if owner is None else [],
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, serves: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait until it serves; it is ended when it does not."""
        deadline = time.monotonic() + seconds
        while not serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                code = self._process.returncode
                raise AssertionError(f"{self._name} does not serve (code {code}):\n{self.log()}")
            time.sleep(0.05)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it as an operator would, and by SIGKILL when it does not listen."""
        if self._process.poll() is None:
            self._process.send_signal(by)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def log(self, characters: int = 4000) -> str:
        """The end of what it said."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-characters:]


class DatabaseServer(ABC):
    """A database on a free port of loopback, in a folder of its own, from its making to `close`."""

    stops_by = signal.SIGTERM

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"stream_app-{name}-"))
        self.port = a_free_port()
        self._process: ServerProcess | None = None
        try:
            self._process = self._started()
            self._process.wait_until(self._serves)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it and delete its folder."""
        if self._process is not None:
            self._process.stop(self.stops_by)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def _started(self) -> ServerProcess:
        """The process, which need not serve yet."""

    def _serves(self) -> bool:
        """Return whether the server accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
