"""Malformed messages of every size from harmless to absurd, with one oddity in each.

Depths, digits, widths and repeated names, in a column, in a field that the table lacks, and in the
message's schema. Beside each message stands what must become of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.messages.hostile_messages import (
    Fate,
    Hostile,
    Wrapping,
    good_row,
    good_texts,
    object_of,
)
from tests.support.messages.reference_json import DEPTH_MAX

DEPTHS = (
    *range(1, 12), 50, 100, *range(DEPTH_MAX - 6, DEPTH_MAX + 6), 150, 200, 253, 254, 255, 256, 300,
    *range(320, 345), 400, 498, 499, 500, 600, 700, 800, 900, *range(940, 1003), 1023, 1024, 1025,
    1200, 1500, 2000, 10_000,
)  # fmt: skip
DIGITS = (1, 9, 10, 18, 19, 20, 38, 39, 76, 77, 100, 308, 309, 310, 400, 1000, 2000, 4000, 4299,
          4300, 4301, 5000, 10_000, 100_000)  # fmt: skip
COUNTS = (1, 2, 3, 10, 100, 127, 128, 129, 1000, 10_000, 100_000)


@dataclass(frozen=True)
class _Place:
    """Where a text of JSON goes: a column, a field that the table lacks, or the schema."""

    name: str
    in_schema: bool = False

    def message(self, wrapping: Wrapping, number: int, text: str) -> bytes:
        texts = good_texts(number)
        if not self.in_schema:
            return wrapping.wrap(object_of({**texts, self.name: text}), '"c"').encode()
        whole = wrapping.wrap(object_of(texts), '"c"')
        return whole.replace(
            '"optional":false', f'"{self.name}":{text},"optional":false', 1
        ).encode()


_COLUMN, _UNKNOWN, _SCHEMA = _Place("w"), _Place("zz"), _Place("doc", in_schema=True)


def graded_messages(wrapping: Wrapping) -> list[Hostile]:
    """Return all graded messages; none is larger than two megabytes."""
    places = [_COLUMN, _UNKNOWN, *([_SCHEMA] if "schema" in wrapping.name else [])]
    messages: list[Hostile] = []
    for place in places:
        for description, text in (*_deep(), *_long(), *_wide()):
            messages.append(_hostile(wrapping, len(messages), place, description, text))
    for digits in DIGITS:
        for name in ("id", "a", "d", "f", "y"):
            text, row = "9" * digits, good_row(len(messages))
            value = _Place(name).message(wrapping, len(messages), text)
            messages.append(
                Hostile(
                    f"{name} of {digits} digits", value, Fate.ROW_OR_BAD, row, frozenset([name])
                )
            )
    for count in COUNTS:
        number = len(messages)
        again = "".join(f',"w":"w{number}"' for _ in range(count - 1))
        value = wrapping.wrap(f"{object_of(good_texts(number))[:-1]}{again}}}", '"c"').encode()
        fate = Fate.ROW if count == 1 else Fate.BAD
        messages.append(Hostile(f"a column {count} times", value, fate, good_row(number)))
    return messages


def _deep() -> Iterator[tuple[str, str]]:
    for depth in DEPTHS:
        yield f"{depth} lists", "[" * depth + "]" * depth
        yield f"{depth} objects", '{"a":' * depth + "1" + "}" * depth


def _long() -> Iterator[tuple[str, str]]:
    for digits in DIGITS:
        yield f"{digits} digits", "9" * digits
        yield f"{digits} fractional digits", "0." + "1" * digits
        yield f"an exponent of {digits} digits", "1e-" + "9" * digits
        yield f"a text of {digits} brackets", json.dumps("[" * digits)


def _wide() -> Iterator[tuple[str, str]]:
    for count in COUNTS:
        yield f"a list of {count}", "[" + ",".join("[]" for _ in range(count)) + "]"
        yield (
            f"{count} names",
            "{" + ",".join(f'"n{index}":{index}' for index in range(count)) + "}",
        )
        yield (
            f"a name {count} times",
            "{" + ",".join(f'"n":{index}' for index in range(count)) + "}",
        )


def _hostile(
    wrapping: Wrapping, number: int, place: _Place, description: str, text: str
) -> Hostile:
    value = place.message(wrapping, number, text)
    row = good_row(number)
    if place is _COLUMN:
        row["w"] = json.loads(text) if text[0] == '"' else text
    levels = _levels(value) if place is _SCHEMA else _levels(value) - ("schema" in wrapping.name)
    fate = Fate.ROW if levels <= DEPTH_MAX else Fate.BAD
    return Hostile(f"{description} in {place.name}", value, fate, row)


def _levels(value: bytes) -> int:
    """Return how deep the message nests, by the brackets outside of its texts."""
    depth = deepest = 0
    inside = False
    for byte in value:
        if byte == ord('"'):
            inside = not inside
        elif not inside and byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not inside and byte in b"]}":
            depth -= 1
    return deepest
