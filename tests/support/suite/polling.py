"""Waits for a condition that another thread, process or machine brings about."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 240.0
"""Only a hang reaches it."""


def wait_until(condition: Callable[[], object], explain: Callable[[], str] = str) -> None:
    """Return when the condition holds; fail at the deadline, with the text of `explain`."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)
