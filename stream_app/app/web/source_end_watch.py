"""Where the topics of a job end, asked of the broker now and then: it is slow to be away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.clock import Clock
from stream_app.kafka.offset_ranges import Offsets

PAUSE_S = 5.0
REST = 4
"""Times the duration of a look until the next one."""


@dataclass(slots=True)
class SourceEndWatch:
    """Remembers the last answer. Any thread may ask.

    Attributes:
        ask: where the topics end, or None with the reason told.
        reason: why the broker did not tell lately; None: it did.
    """

    ask: Callable[[Callable[[str], None]], Offsets | None]
    clock: Clock
    reason: str | None = None
    _ends: Offsets | None = None
    _until: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> Offsets | None:
        """The ends; None: the broker does not tell."""
        with self._lock:
            began = self.clock.steady_seconds()
            if began >= self._until:
                reasons: list[str] = []
                self._ends = self.ask(reasons.append)
                self.reason = reasons[0] if reasons else None
                now = self.clock.steady_seconds()
                self._until = now + max(PAUSE_S, REST * (now - began))
            return self._ends
