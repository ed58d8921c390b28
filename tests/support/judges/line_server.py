"""A child process that answers one JSON line for each JSON line it gets.

Carries PaimonServer.java and the PyPaimon reader. Knows nothing of tables.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ANSWER_SECONDS_MAX = 300
STDERR_LINES_SHOWN = 25


class LineServerError(Exception):
    """The error of a child that is gone or silent, with the end of its stderr."""


class LineServer:
    """A child process that starts at once; one that died is not started again."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._stderr = tempfile.TemporaryFile(  # noqa: SIM115 (lives as long as the child)
            mode="w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._program = " ".join(command)[:200]
        self._receive(ANSWER_SECONDS_MAX)  # {"ready": true}

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, request: Mapping[str, Any], seconds_max: float = ANSWER_SECONDS_MAX) -> Any:
        with self._lock:
            try:
                self._requests.write(json.dumps(request) + "\n")
                self._requests.flush()
            except OSError:
                raise self._death() from None
            return self._receive(seconds_max)

    def close(self) -> None:
        """End the child by the end of its input; kill it if it does not react."""
        self._requests.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._stderr.close()

    def _receive(self, seconds_max: float) -> Any:
        watchdog = threading.Timer(seconds_max, self._process.kill)
        watchdog.start()
        try:
            line = self._answers.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise self._death()
        return json.loads(line)

    def _death(self) -> LineServerError:
        code = self._process.wait(timeout=60)
        self._stderr.seek(0)
        tail = "".join(self._stderr.readlines()[-STDERR_LINES_SHOWN:])
        return LineServerError(f"{self._program} ended with code {code}\n  its last words:\n{tail}")
