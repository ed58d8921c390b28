"""Adds the bucket's folder to errors of a merge, which sees rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_app.errors import MergeError


@contextmanager
def merge_errors(bucket: str) -> Iterator[None]:
    """Add the bucket's folder, which a merge does not know, to errors that the block raises."""
    try:
        yield
    except MergeError as error:
        error.locate(bucket)
        raise
