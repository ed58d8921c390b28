"""Says what a job is at when it has said nothing for a while: silence looks like a hang.

A thread looks at the time since the last line of the job's log. It repeats itself with the seconds
while something is at work, and says once that nothing comes in.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_app.clock import Clock

QUIET_SECONDS = 7.0
_LOOK_SECONDS = 0.5
_LOG = logging.getLogger("stream_app")


@dataclass(frozen=True, slots=True)
class Activity:
    """What a job is at.

    Attributes:
        repeats: whether it is work, which is told again and again.
    """

    text: str
    repeats: bool = True


@dataclass(slots=True)
class SignsOfLife:
    """What is at work, and when the job has said something last.

    Attributes:
        at_work: asked now and then; None: there is nothing to say.
    """

    clock: Clock
    at_work: Callable[[], Activity | None] = field(default=lambda: None)
    _now: Activity | None = None
    _began: float = 0.0
    _heard: float = 0.0
    _is_told: bool = False

    def begin(self, text: str) -> None:
        """This is at work until the next call."""
        activity = Activity(text)
        self.at_work = lambda: activity

    def heard(self) -> None:
        """The job has said something."""
        self._heard = self.clock.steady_seconds()

    def look(self) -> str | None:
        """The line to say, when it is time for one."""
        now, activity = self.clock.steady_seconds(), self.at_work()
        if activity != self._now:
            self._now, self._began, self._is_told = activity, now, False
        is_due = now - self._heard >= QUIET_SECONDS
        if activity is None or not is_due or (self._is_told and not activity.repeats):
            return None
        self._heard, self._is_told = now, True
        seconds = f": {now - self._began:.0f} s so far" if activity.repeats else ""
        return activity.text + seconds


class _Ear(logging.Handler):
    """Hears every line of the job; a filter would miss those of the modules' own loggers."""

    def __init__(self, signs: SignsOfLife) -> None:
        super().__init__()
        self._signs = signs

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        self._signs.heard()


@contextmanager
def signs_of_life(clock: Clock) -> Iterator[SignsOfLife]:
    """Look out within the block."""
    signs, ended = SignsOfLife(clock), threading.Event()
    signs.heard()

    ear = _Ear(signs)

    def look_out() -> None:
        while not ended.wait(_LOOK_SECONDS):
            if line := signs.look():
                _LOG.info(line)

    _LOG.addHandler(ear)
    thread = threading.Thread(target=look_out, name="signs-of-life", daemon=True)
    thread.start()
    try:
        yield signs
    finally:
        ended.set()
        thread.join()
        _LOG.removeHandler(ear)
