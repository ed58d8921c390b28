"""What a verb or a page says of what it did: counts, nothing at all, a dry run."""

from __future__ import annotations

NOTHING = "nothing to do"
DRY_RUN = "dry run: nothing was changed"


def counted(count: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
