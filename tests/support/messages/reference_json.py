"""Parses JSON by its specification, and keeps each number and field of an object as written.

The other half of `reference_decoder`; slow, and of no use but as a judge.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_MAX = 128
"""docs/setup/cdc.md: levels of a message."""


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """A JSON object, repeated names and all."""


class NoJsonError(ValueError):
    """The text is not JSON, or nested too deeply."""


def parse(text: str) -> Any:
    """Parse JSON by its specification."""
    if depth_of(text) > DEPTH_MAX:
        raise NoJsonError("nested too deeply")

    def refuse(word: str) -> None:
        raise NoJsonError(word)

    try:
        document = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=refuse,
            object_pairs_hook=Pairs,
        )  # fmt: skip
        compact_json(document).encode()  # half of a surrogate pair is not a character
    except ValueError as problem:
        raise NoJsonError(str(problem)) from None
    return document


def depth_of(text: str) -> int:
    """Return how deep brackets nest, those in texts left out."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.S)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def compact_json(value: Any) -> str:
    """Return compact JSON, numbers as they came."""
    match value:
        case Number():
            return str(value)
        case Pairs():
            return (
                "{"
                + ",".join(f"{compact_json(key)}:{compact_json(item)}" for key, item in value)
                + "}"
            )
        case list():
            return "[" + ",".join(compact_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def repeats(value: Any) -> bool:
    """Return whether an object within has a name twice."""
    if isinstance(value, Pairs):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(repeats(item) for _, item in value)
    return isinstance(value, list) and any(repeats(item) for item in value)
