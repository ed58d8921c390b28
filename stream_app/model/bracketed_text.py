"""Splits a configuration's text at commas outside of brackets."""

from __future__ import annotations


def split_outside_brackets(
    text: str, opening: str = "(", closing: str = ")", quotes: str = ""
) -> list[str]:
    """Split a text at commas outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in quotes:
            quote = character
        elif character in opening:
            depth += 1
        elif character in closing:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
