"""Suggests known names for a wrong one: the "did you mean …?" of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_SIMILARITY_MIN = 0.7
"""The minimum ratio of `difflib` at which a known name is suggested."""


def nearest_names(name: str, names: Collection[str], count: int = 1) -> list[str]:
    """Return at most `count` similar known names, the most similar first."""
    return difflib.get_close_matches(name, list(names), n=count, cutoff=_SIMILARITY_MIN)


def did_you_mean(name: str, names: Collection[str], separator: str = ";") -> str:
    """Return the text ``; did you mean 'bucket'?``; empty if no known name is similar."""
    return "".join(
        f"{separator} did you mean {suggestion!r}?" for suggestion in nearest_names(name, names)
    )


def known_names_text(name: str, names: Collection[str]) -> str:
    """Return the fix of an error: ``did you mean 'bucket'? known: bucket, path``."""
    suggestion = did_you_mean(name, names).removeprefix("; ")
    return f"{suggestion} known: {', '.join(names)}".lstrip()


def unknown_name(noun: str, name: str, names: Collection[str]) -> str:
    """Return the text of an error: ``unknown option 'bukket'; did you mean 'bucket'?``"""
    return f"unknown {noun} {name!r}{did_you_mean(name, names)}"
