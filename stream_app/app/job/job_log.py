"""The log of a job on standard error: its own lines, and the useful ones of libraries."""

from __future__ import annotations

import logging
import sys

_LIBRARIES = {
    # It logs the trace of a failed epoch, which the job reports in its own words.
    "py4j": logging.CRITICAL,
    # Its warnings concern its internals ("blocking the event loop"); it raises failures.
    "kafka": logging.ERROR,
}


def log_to_stderr() -> None:
    """Begin the log of a job."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("stream_app").setLevel(logging.INFO)
    quiet_libraries()


def quiet_libraries() -> None:
    """Silence messages of libraries that only their developers need."""
    for name, level in _LIBRARIES.items():
        logging.getLogger(name).setLevel(level)
