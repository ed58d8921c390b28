"""Adds the context of a piece of work to its log lines: table, epoch, offsets.

Code that knows these facts opens a block, and every line logged within the block carries them. Only
JSON logs show them as fields; the text of a line repeats them in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_FACTS: ContextVar[Mapping[str, object]] = ContextVar("log_facts", default={})  # noqa: B039


@contextmanager
def logging_about(**facts: object) -> Iterator[None]:
    """Add these facts to all lines that this thread logs within the block, except None."""
    present_facts = {name: value for name, value in facts.items() if value not in (None, "", {})}
    token = _FACTS.set({**_FACTS.get(), **present_facts})
    try:
        yield
    finally:
        _FACTS.reset(token)


def current_facts() -> Mapping[str, object]:
    """Return the facts of the blocks that this thread is in."""
    return _FACTS.get()
