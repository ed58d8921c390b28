"""The error of a broken promise, and the check that raises it."""

from __future__ import annotations

import re

_LONG_TEXT = re.compile("([0-9a-f]{8})[0-9a-f]{50,}")


class BrokenPromiseError(AssertionError):
    """The table is not what it must be."""


def demand(holds: bool, otherwise: str) -> None:
    """Raise `BrokenPromiseError` with the text `otherwise` unless a promise holds."""
    if not holds:
        raise BrokenPromiseError(_LONG_TEXT.sub(r"\1…", otherwise))
