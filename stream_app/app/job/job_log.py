"""The log of a job on standard error: its own lines, and of libraries what a user can act on."""

from __future__ import annotations

import logging
import sys

_LIBRARIES = {
    # It logs the trace of an epoch that fails, which the job tells in its own words.
    "py4j": logging.CRITICAL,
    # Its warnings are about its own inside ("blocking the event loop"); what fails is raised.
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
    """Leave out what libraries say to those who write them."""
    for name, level in _LIBRARIES.items():
        logging.getLogger(name).setLevel(level)
