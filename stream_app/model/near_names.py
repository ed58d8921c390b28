"""Suggests known names for a wrong one: the "did you mean …?" of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_NEAR = 0.7


def nearest(name: str, known: Collection[str], most: int = 1) -> list[str]:
    """Return the similar known names, the most similar first."""
    return difflib.get_close_matches(name, list(known), n=most, cutoff=_NEAR)


def did_you_mean(name: str, known: Collection[str], mark: str = ";") -> str:
    """Return the text ``; did you mean 'bucket'?``; empty if no known name is similar."""
    return "".join(f"{mark} did you mean {near!r}?" for near in nearest(name, known))


def known_names(name: str, known: Collection[str]) -> str:
    """Return the fix of an error: ``did you mean 'bucket'? known: bucket, path``."""
    meant = did_you_mean(name, known).removeprefix("; ")
    return f"{meant} known: {', '.join(known)}".lstrip()


def unknown_name(what: str, name: str, known: Collection[str]) -> str:
    """Return the text of an error: ``unknown option 'bukket'; did you mean 'bucket'?``"""
    return f"unknown {what} {name!r}{did_you_mean(name, known)}"
