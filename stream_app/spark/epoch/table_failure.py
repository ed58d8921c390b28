"""The error of one table, on its way from a task to the driver beside other tables' results."""

from __future__ import annotations

import pickle

from stream_app.errors import StreamAppError
from stream_app.spark.task_errors import first_line, readable


def failure_bytes(error: Exception) -> bytes:
    """An error for `failure_of`."""
    found = readable(error)
    if not isinstance(found, StreamAppError):
        found = StreamAppError(f"{type(error).__name__}: {first_line(error)}")
    return pickle.dumps(found)


def failure_of(payload: bytes) -> StreamAppError:
    """The error in a block of kind ``FAILURE``; only this job's own tasks make such blocks."""
    error = pickle.loads(payload)
    assert isinstance(error, StreamAppError)
    return error
