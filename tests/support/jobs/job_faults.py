"""What tests and the soak do to a running job: find its workers, kill one, take a right away."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OVERRIDES = "-dac_override,-dac_read_search,-fowner,-linux_immutable"


def unprivileged() -> tuple[str, ...]:
    """Words before a command that let file permissions hold, for root as for everyone else."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return ()
    return ("setpriv", f"--bounding-set={_OVERRIDES}", f"--inh-caps={_OVERRIDES}")


def python_workers(session: int) -> list[int]:
    """Ids of the Python processes that work for Spark in a session; not the one they come from."""
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
    """SIGKILL one of a job's Python workers, chosen by `index`; its id, None: there is none."""
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
def forbidden(folder: Path) -> Iterator[None]:
    """Nobody may write or enter a folder meanwhile."""
    mode = folder.stat().st_mode
    folder.chmod(0o000)
    try:
        yield
    finally:
        folder.chmod(mode)
