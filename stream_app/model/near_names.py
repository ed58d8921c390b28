"""Names that a wrong one may be meant for: "did you mean …?" of every error message."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_NEAR = 0.7


def nearest(name: str, known: Collection[str], most: int = 1) -> list[str]:
    """The known names that are near, the nearest first."""
    return difflib.get_close_matches(name, list(known), n=most, cutoff=_NEAR)


def did_you_mean(name: str, known: Collection[str], mark: str = ";") -> str:
    """``; did you mean 'bucket'?``, or nothing where no known name is near."""
    return "".join(f"{mark} did you mean {near!r}?" for near in nearest(name, known))


def known_names(name: str, known: Collection[str]) -> str:
    """``did you mean 'bucket'? known: bucket, path``: the way out of an error."""
    meant = did_you_mean(name, known).removeprefix("; ")
    return f"{meant} known: {', '.join(known)}".lstrip()


def unknown_name(what: str, name: str, known: Collection[str]) -> str:
    """``unknown option 'bukket'; did you mean 'bucket'?``"""
    return f"unknown {what} {name!r}{did_you_mean(name, known)}"
