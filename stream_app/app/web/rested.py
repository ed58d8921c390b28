"""Caches an answer that is slow to get, and asks again after a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from stream_app.clock import Clock

PAUSE_S = 5.0
REST = 4
"""The pause after a question, as a multiple of its duration."""
_Answer = TypeVar("_Answer")


class Rested(Generic[_Answer]):
    """Remembers the last answer. Any thread may ask."""

    def __init__(self, ask: Callable[[], _Answer], clock: Clock) -> None:
        self._ask, self._clock = ask, clock
        self._answers: list[_Answer] = []
        self._until = float("-inf")
        self._lock = threading.Lock()

    def look(self) -> _Answer:
        """The present answer, or one from a moment ago."""
        with self._lock:
            began = self._clock.steady_seconds()
            if began >= self._until:
                self._answers[:] = [self._ask()]
                now = self._clock.steady_seconds()
                self._until = now + max(PAUSE_S, REST * (now - began))
            return self._answers[0]
