"""Checks the arguments that reads and analyses share."""

from __future__ import annotations

import os
from collections.abc import Sequence

from stream_app.errors import UsageError

THREADS_MAX = 8
"""Default number of reading threads; fewer on a machine with fewer cores."""


def chosen_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the column names as a tuple; None, for all columns, stays None."""
    if isinstance(columns, str):
        raise UsageError(f"columns = {columns!r} is one text", fix=f"give a list: [{columns!r}]")
    return None if columns is None else tuple(columns)


def reading_threads(threads: int | None, limit: int | None) -> int:
    """Return the number of reading threads, by default 1 with a limit, else the machine's cores."""
    if limit is not None and limit < 0:
        raise UsageError(f"limit {limit} is below 0", fix="give 0 or more")
    if threads is None:
        return 1 if limit is not None else min(THREADS_MAX, os.cpu_count() or 1)
    if threads < 1:
        raise UsageError(f"threads = {threads} is below 1", fix="give 1 or more")
    return threads
