"""The rules of Spark's AUTO CDC with ``stored_as_scd_type = 2`` in plain Python, as a model.

Written after Spark's documentation and the docstrings of its `Scd2BatchProcessor`. The events of a
key stand in the order of their sequence, whatever the order of their arrival. An upsert begins a
version, or continues that of the upsert before it, if its tracked values are equal: the version
then has its untracked values. The next event of another value, or a delete, ends the version at its
own sequence. A delete leaves no row. Two
events of one sequence are undefined there; here the later arrival counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Event(NamedTuple):
    """A change of a key.

    Attributes:
        value: the tracked values; None: a delete.
        untracked_value: the untracked one.
    """

    key: int
    sequence: int
    value: str | None
    untracked_value: int | None = None


class Version(NamedTuple):
    """A row of the target.

    Attributes:
        end: None: it still holds.
    """

    key: int
    start: int
    end: int | None
    value: str
    untracked_value: int | None = None


def versions_of(events: Iterable[Event]) -> list[Version]:
    """Return the rows of the target after all events, by key and start."""
    timelines: dict[int, dict[int, Event]] = {}
    for event in events:
        timelines.setdefault(event.key, {})[event.sequence] = event
    versions: list[Version] = []
    for key in sorted(timelines):
        current: Version | None = None
        for sequence, event in sorted(timelines[key].items()):
            if current is not None and event.value == current.value:
                current = current._replace(untracked_value=event.untracked_value)
                continue
            if current is not None:
                versions.append(current._replace(end=sequence))
            current = None
            if event.value is not None:
                current = Version(key, sequence, None, event.value, event.untracked_value)
        if current is not None:
            versions.append(current)
    return versions
