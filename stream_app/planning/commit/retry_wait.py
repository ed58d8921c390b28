"""Computes the wait before a commit that lost a race is tried again.

Each wait is twice as long, plus a part that differs between commits, so that committers that lost
together do not collide again.

Source: Paimon `utils/RetryWaiter.java` (``commit.min-retry-wait``, ``commit.max-retry-wait``).
"""

from __future__ import annotations

import zlib

_SPREAD = 0.2
"""Most random addition, as a part of the wait."""


def retry_wait_s(retry: int, *, min_ms: int, max_ms: int, name: str) -> float:
    """Seconds to wait before a commit is tried again; they double from retry to retry.

    Args:
        retry: number of earlier retries.
        name: the commit's unique name, which serves as the random seed.
    """
    wait_ms = min(min_ms << retry, max_ms)
    chance = zlib.crc32(f"{name} {retry}".encode()) / 2**32
    return wait_ms * (1 + _SPREAD * chance) / 1000
