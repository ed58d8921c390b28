"""Names that a wrong one may be meant for: "did you mean …?" of every error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are near, the nearest first."""
    return difflib.get_close_matches(name, list(known), n=most)


def did_you_mean(name: str, known: Iterable[str], mark: str = ";") -> str:
    """``; did you mean 'bucket'?`` behind a mark; empty where no known name is near."""
    return "".join(f"{mark} did you mean {near!r}?" for near in nearest(name, known))


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """``unknown option 'bukket'; did you mean 'bucket'?``"""
    return f"unknown {what} {name!r}{did_you_mean(name, known)}"
