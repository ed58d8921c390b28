"""Repeats a check beside a job in a thread, for facts that the job itself cannot report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated_checks(check: Callable[[], float], name: str) -> Iterator[None]:
    """Repeat the check as long as the block runs.

    Args:
        check: performs the check, and returns the seconds until the next one.
        name: the name of the thread.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(check()):
            pass

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
