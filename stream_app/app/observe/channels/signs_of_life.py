"""Reports what a job is doing after a silence, because silence looks like a hang.

A thread watches the time since the last line of the job's log. After a silence it logs the current
work with its duration, again and again, and once that no data arrives.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_app.clock import Clock

_QUIET_S = 7.0
_CHECK_INTERVAL_S = 0.5
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a job at one moment.

    Attributes:
        repeats: whether the activity is work, which is reported repeatedly.
    """

    text: str
    repeats: bool = True


@dataclass(slots=True)
class SignsOfLife:
    """The current activity, and the time of the job's last line."""

    clock: Clock
    _read_activity: Callable[[], Activity | None] = field(init=False, default=lambda: None)
    _current_activity: Activity | None = field(init=False, default=None)
    _start_s: float = field(init=False, default=0.0)
    _last_line_at_s: float = field(init=False, default=0.0)
    _is_shown: bool = field(init=False, default=False)

    def begin(self, text: str) -> None:
        """Set the current work until the next call."""
        activity = Activity(text)
        self.watch(lambda: activity)

    def watch(self, read_activity: Callable[[], Activity | None]) -> None:
        """Read the current activity from this function, which returns None without one."""
        self._read_activity = read_activity

    def record_line(self) -> None:
        """Record that the job has logged a line."""
        self._last_line_at_s = self.clock.steady_seconds()

    def take_due_line(self) -> str | None:
        """Return the line to log if one is due, or None."""
        now_s = self.clock.steady_seconds()
        activity = self._read_activity()
        if activity != self._current_activity:
            self._current_activity = activity
            self._start_s = now_s
            self._is_shown = False
        is_due = now_s - self._last_line_at_s >= _QUIET_S
        if activity is None or not is_due or (self._is_shown and not activity.repeats):
            return None
        self._last_line_at_s = now_s
        self._is_shown = True
        duration_text = f": {now_s - self._start_s:.0f} s so far" if activity.repeats else ""
        return activity.text + duration_text


class _LineWatch(logging.Handler):
    """A handler that notes every line of the job's log.

    A filter would miss the lines of modules' own loggers.
    """

    def __init__(self, signs: SignsOfLife) -> None:
        super().__init__()
        self._signs = signs

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        self._signs.record_line()


@contextmanager
def signs_of_life(clock: Clock) -> Iterator[SignsOfLife]:
    """Watch for silence within the block."""
    signs = SignsOfLife(clock)
    end_event = threading.Event()
    signs.record_line()
    line_watch = _LineWatch(signs)

    def log_due_lines() -> None:
        while not end_event.wait(_CHECK_INTERVAL_S):
            if line := signs.take_due_line():
                _LOG.info(line)

    job_log = logging.getLogger("stream_app")  # gets the lines of all modules
    job_log.addHandler(line_watch)
    thread = threading.Thread(target=log_due_lines, name="signs-of-life", daemon=True)
    thread.start()
    try:
        yield signs
    finally:
        end_event.set()
        thread.join()
        job_log.removeHandler(line_watch)
