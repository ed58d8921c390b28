"""Shortens lists in messages: the first texts, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def first_texts(texts: Sequence[str], count_max: int, separator: str = ", ") -> str:
    """Return the first texts, such as ``a, b and 3 more``, or ``a; b; and 3 more``."""
    first_part = separator.join(texts[:count_max])
    hidden_count = len(texts) - count_max
    if hidden_count <= 0:
        return first_part
    return f"{first_part}{separator.rstrip(', ')} and {hidden_count} more"
