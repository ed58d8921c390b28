"""Adds facts about a piece of work to its log lines: table, epoch, offsets.

Code that knows it says so once, and each line of any module within has it. Only a log of JSON lines
shows it; the text of a line says the same in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_FACTS: ContextVar[Mapping[str, object]] = ContextVar("log_facts", default={})  # noqa: B039


@contextmanager
def logging_about(**facts: object) -> Iterator[None]:
    """Lines that this thread logs within are about these too; None: not known."""
    known = {name: value for name, value in facts.items() if value not in (None, "", {})}
    token = _FACTS.set({**_FACTS.get(), **known})
    try:
        yield
    finally:
        _FACTS.reset(token)


def current_facts() -> Mapping[str, object]:
    """The facts that lines of this thread are about."""
    return _FACTS.get()
