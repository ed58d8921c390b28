"""Looks again and again at what a job cannot report itself, in a thread beside the job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looking(look: Callable[[], float], name: str) -> Iterator[None]:
    """Look while the block runs.

    Args:
        look: returns the seconds to rest.
        name: of the thread.
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
