"""Adds the context of a piece of work to its log lines: table, epoch, offsets.

Code that knows these fields opens a block, and every line logged within the block carries them.
Only JSON logs show them; the text of a line repeats them in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_LOG_FIELDS: ContextVar[Mapping[str, object]] = ContextVar("log_fields", default={})  # noqa: B039


@contextmanager
def logging_about(**fields: object) -> Iterator[None]:
    """Add these fields to all lines that this thread logs within the block, except None."""
    present_fields = {name: value for name, value in fields.items() if value not in (None, "", {})}
    token = _LOG_FIELDS.set({**_LOG_FIELDS.get(), **present_fields})
    try:
        yield
    finally:
        _LOG_FIELDS.reset(token)


def current_log_fields() -> Mapping[str, object]:
    """Return the fields of the blocks that this thread is in."""
    return _LOG_FIELDS.get()
