"""Repeats a check beside a job in a thread, for facts that the job itself cannot report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(look: Callable[[], float], name: str) -> Iterator[None]:
    """Repeat the check as long as the block runs.

    Args:
        look: performs the check, and returns the seconds until the next one.
        name: the name of the thread.
    """
    ended = threading.Event()

    def look_on() -> None:
        while not ended.wait(look()):
            pass

    thread = threading.Thread(target=look_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
