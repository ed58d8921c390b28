"""Shortens lists in messages: the first texts, and how many more there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")


def first_texts(
    items: Sequence[ItemT],
    count_max: int,
    separator: str = ", ",
    text_of: Callable[[ItemT], str] = str,
) -> str:
    """Return the texts of the first items, such as ``a, b and 3 more``, or ``a; b; and 3 more``."""
    first_part = separator.join(map(text_of, items[:count_max]))
    hidden_count = len(items) - count_max
    if hidden_count <= 0:
        return first_part
    return f"{first_part}{separator.rstrip(', ')} and {hidden_count} more"
