"""Finds the Chromium of the tests of pages, and makes the rows of their tables."""

from __future__ import annotations

import shutil
from decimal import Decimal

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
TOKEN = "0123456789abcdef"
HANG_MS = 120_000
"""Milliseconds that only a hang takes."""


def order(key: int, customer: str = "Alma") -> tuple[str, dict[str, object]]:
    return "+I", {"id": key, "customer": customer, "amount": Decimal(key)}
