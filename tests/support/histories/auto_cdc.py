"""The rules of Spark's AUTO CDC with ``stored_as_scd_type = 2``, in plain Python, as a judge.

Written after Spark's documentation and the docstrings of its `Scd2BatchProcessor`. The events of a
key stand in the order of their sequence, whatever the order of their arrival. An upsert begins a
version, or continues that of the upsert before it, if its tracked values are equal. The next event
of another value, or a delete, ends the version at its own sequence. A delete leaves no row. Two
events of one sequence are undefined there; here the later arrival counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Event(NamedTuple):
    """A change of a key.

    Attributes:
        value: the row's values; None: a delete.
    """

    key: int
    sequence: int
    value: str | None


class Version(NamedTuple):
    """A row of the target.

    Attributes:
        end: None: it still holds.
    """

    key: int
    start: int
    end: int | None
    value: str


def versions_of(events: Iterable[Event]) -> list[Version]:
    """The rows of the target after all events, by key and start."""
    timelines: dict[int, dict[int, str | None]] = {}
    for event in events:
        timelines.setdefault(event.key, {})[event.sequence] = event.value
    versions: list[Version] = []
    for key in sorted(timelines):
        current: Version | None = None
        for sequence, value in sorted(timelines[key].items()):
            if current is not None and value == current.value:
                continue
            if current is not None:
                versions.append(current._replace(end=sequence))
            current = None if value is None else Version(key, sequence, None, value)
        if current is not None:
            versions.append(current)
    return versions
