"""Defines the errors of damaged data files of any format."""

from __future__ import annotations

import pyarrow as pa

from stream_app.errors import RESTORE_FIX, CorruptFileError

ARROW_ERRORS = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    UnicodeDecodeError,
    OSError,
)
"""The errors that Arrow raises for damaged bytes."""


def damaged_file_error(problem: str) -> CorruptFileError:
    """Return the error of a damaged file, to which the caller adds the path."""
    return CorruptFileError(problem, fix=RESTORE_FIX)


def printable_error(error: Exception) -> str:
    """Return an error's text in one line, because Arrow quotes bytes of the file."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
