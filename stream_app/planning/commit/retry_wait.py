"""Computes the wait before a commit that lost a race is tried again.

Waits double, plus a part that differs between commits, so that committers which lost together do
not collide again.

Source: Paimon `utils/RetryWaiter.java` (``commit.min-retry-wait``, ``commit.max-retry-wait``).
"""

from __future__ import annotations

import zlib

_SPREAD = 0.2
"""Maximum random addition, as a part of the wait."""


def retry_wait_s(retry: int, *, wait_min_ms: int, wait_max_ms: int, name: str) -> float:
    """Return the seconds to wait before a retry, which double from retry to retry.

    Args:
        retry: the number of earlier retries.
        name: the commit's unique name, which serves as the random seed.
    """
    wait_ms = min(wait_min_ms << retry, wait_max_ms)
    random_share = zlib.crc32(f"{name} {retry}".encode()) / 2**32
    return wait_ms * (1 + _SPREAD * random_share) / 1000
