"""Repeats a check beside a job in a thread, for facts that the job itself cannot report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE_MIN_S = 60.0
_PAUSE_FACTOR = 20
"""A pause as a multiple of the check before it: checks take at most a twentieth of the time."""


def pause_after(check_s: float) -> float:
    """Return the seconds from the end of a check of this duration to the next check."""
    return max(_PAUSE_MIN_S, _PAUSE_FACTOR * check_s)


@contextmanager
def repeated_checks(check: Callable[[], float], name: str) -> Iterator[None]:
    """Repeat the check as long as the block runs.

    Args:
        check: performs the check, and returns the seconds until the next one.
        name: the name of the thread.
    """
    end_event = threading.Event()

    def repeat() -> None:
        while not end_event.wait(check()):
            pass

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end_event.set()
