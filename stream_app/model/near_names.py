"""Suggests known names for a wrong one: the "did you mean …?" of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_NEAR = 0.7


def nearest(name: str, names: Collection[str], count: int = 1) -> list[str]:
    """Return the similar known names, the most similar first."""
    return difflib.get_close_matches(name, list(names), n=count, cutoff=_NEAR)


def did_you_mean(name: str, names: Collection[str], separator: str = ";") -> str:
    """Return the text ``; did you mean 'bucket'?``; empty if no known name is similar."""
    return "".join(f"{separator} did you mean {near!r}?" for near in nearest(name, names))


def known_names_text(name: str, names: Collection[str]) -> str:
    """Return the fix of an error: ``did you mean 'bucket'? known: bucket, path``."""
    meant = did_you_mean(name, names).removeprefix("; ")
    return f"{meant} known: {', '.join(names)}".lstrip()


def unknown_name(noun: str, name: str, names: Collection[str]) -> str:
    """Return the text of an error: ``unknown option 'bukket'; did you mean 'bucket'?``"""
    return f"unknown {noun} {name!r}{did_you_mean(name, names)}"
