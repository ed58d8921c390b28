"""How a promise that was broken is told."""

from __future__ import annotations


class BrokenPromiseError(AssertionError):
    """The table is not what it must be."""


def demand(holds: bool, otherwise: str) -> None:
    """An assertion that tells what is wrong."""
    if not holds:
        raise BrokenPromiseError(otherwise)
