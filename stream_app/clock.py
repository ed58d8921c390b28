"""Gives the time of day, and waits.

Everything that needs time takes a `Clock`, so that tests and the simulation control time.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol


class Clock(Protocol):
    """Time of day, a steady time for durations, and waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        ...

    def steady_seconds(self) -> float:
        """Return seconds that never go back; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def wait_for_any(
        self, futures: Collection[Future[Any]], timeout_s: float | None = None
    ) -> None:
        """Return when one of the futures is done, or after the timeout."""
        wait(futures, timeout=timeout_s, return_when=FIRST_COMPLETED)


def local_wall_clock_ms(clock: Clock) -> int:
    """Return the local time as if it were UTC, in milliseconds, as Paimon stamps files."""
    return wall_clock_ms(clock.now_ms())


def wall_clock_ms(time_ms: int, zone: tzinfo | None = None) -> int:
    """Return the wall-clock time at an instant (milliseconds since 1970 in UTC), as if it were UTC.

    Args:
        zone: the time zone; None: that of the machine.
    """
    offset = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return time_ms + int(offset.total_seconds() * 1000)


def utc_ms(local_time_ms: int) -> int:
    """Return the instant at which this machine's wall clock shows a time, in ms since 1970."""
    local_time = datetime.fromtimestamp(local_time_ms // 1000, UTC).replace(tzinfo=None)
    return int(local_time.astimezone().timestamp()) * 1000 + local_time_ms % 1000


def utc_text(time_ms: int, zone: str = "Z") -> str:
    """Format milliseconds since 1970 as ISO 8601 in UTC, followed by `zone`."""
    seconds, millis = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{millis:03}{zone}"


@dataclass(frozen=True, slots=True)
class SystemClock(Clock):
    """The machine's clock."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def steady_seconds(self) -> float:
        """See `Clock.steady_seconds`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        time.sleep(seconds)
