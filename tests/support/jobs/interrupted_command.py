"""A real Ctrl-C: SIGINT to the whole process group of a command that runs as in a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 30.0 if "PYTEST_XDIST_WORKER" in os.environ else 5.0
"""Five seconds are promised; tests that run side by side share the cores."""
_BOOT_S = 0.1
"""Processor time by which Python has started itself and given the program its first moment."""
_BOOT_FAILURE = re.compile(
    r"Fatal Python error: init_import_site.*?^KeyboardInterrupt$", re.DOTALL | re.MULTILINE
)
"""Python's own lines when Ctrl-C meets it before it runs any line of the program."""
_NOISE = re.compile(r"Traceback|KeyboardInterrupt|Exception|^\s+at [\w.$]+\(|Py4J", re.MULTILINE)


@dataclass(frozen=True)
class Interrupted:
    """The end of a command, with the code as a shell gives it."""

    code: int
    seconds: float
    output: str

    def check(self) -> None:
        """Check that the command ended quietly, soon, and with a code that scripts know."""
        assert self.code in (0, 130), (self.code, self.output)
        assert self.seconds < SECONDS_MAX, self.output
        assert not _NOISE.search(_BOOT_FAILURE.sub("", self.output)), self.output


def interrupt(
    command: Sequence[str | Path],
    folder: Path,
    *,
    when: str | None = None,
    after_s: float = 0.0,
    environ: Mapping[str, str] | None = None,
    wait_s: float = 240.0,
    may_end: bool = False,
) -> Interrupted:
    """Run a command and press Ctrl-C.

    Args:
        folder: where it runs; its output goes to a file there.
        when: a text of its output to wait for. None: wait until Python has started itself.
        after_s: the wait after that, in seconds.
        may_end: on a fast machine it may have ended by then, and Ctrl-C meets nothing.
    """
    log = folder / "output.txt"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
            # A test run in the background of a shell ignores Ctrl-C, and its children would too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
    try:
        deadline = time.monotonic() + wait_s
        while when is not None and when not in log.read_text("utf-8", "replace"):
            assert time.monotonic() < deadline, log.read_text("utf-8", "replace")
            assert process.poll() is None, log.read_text("utf-8", "replace")
            time.sleep(0.05)
        time.sleep(after_s)
        while when is None and process.poll() is None and _processor_time(process.pid) < _BOOT_S:
            time.sleep(0.01)
        has_ended = process.poll() is not None
        assert may_end or not has_ended, log.read_text("utf-8", "replace")
        began = time.monotonic()
        if not has_ended:
            os.killpg(process.pid, signal.SIGINT)
        code = process.wait(120)
        seconds = time.monotonic() - began
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    output = log.read_text("utf-8", "replace")
    return Interrupted(code if code >= 0 else 128 - code, seconds, output)


def _processor_time(pid: int) -> float:
    """Return the seconds of a process, or, after its end, of a process that has started."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _BOOT_S
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def processes_about(folder: Path, *, within_s: float = SECONDS_MAX) -> list[str]:
    """Return the command lines that name a folder and do not end soon."""
    deadline = time.monotonic() + within_s
    while (commands := _command_lines(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return commands


def _command_lines(folder: Path) -> list[str]:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
        except OSError:
            continue  # it has ended
        if str(folder) in line:
            lines.append(line)
    return lines
