"""Strikes a running job for tests and the soak: kills a worker, or takes a right away."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OVERRIDES = "-dac_override,-dac_read_search,-fowner,-linux_immutable"


def unprivileged_words() -> tuple[str, ...]:
    """Return words before a command that make file permissions hold for root too."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return ()
    return ("setpriv", f"--bounding-set={_OVERRIDES}", f"--inh-caps={_OVERRIDES}")


def python_workers(session: int) -> list[int]:
    """Return the ids of Spark's Python workers in a session, without their common parent."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            numbers = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        # man 5 proc: behind the name stand state, parent, process group, session.
        if int(numbers[3]) == session and b"worker_daemon" in command:
            parents[int(status.parent.name)] = int(numbers[1])
    return sorted(process for process, parent in parents.items() if parent in parents)


def kill_a_worker(session: int, index: int = 0) -> int | None:
    """SIGKILL a job's Python worker, chosen by `index`; return its id, or None without a worker."""
    workers = python_workers(session)
    if not workers:
        return None
    chosen = workers[index % len(workers)]
    try:
        os.kill(chosen, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return chosen


@contextmanager
def forbidden_folder(folder: Path) -> Iterator[None]:
    """Forbid to write or enter a folder during the block."""
    mode = folder.stat().st_mode
    folder.chmod(0o000)
    try:
        yield
    finally:
        folder.chmod(mode)
