"""The versions of Spark that the tests run: pure."""

from __future__ import annotations

from stream_app.errors import UsageError

SUPPORTED = ("4.0", "4.1", "4.2", "4.3")
"""Minor versions; a patch release keeps what its minor version has."""


def minor_of(version: str) -> str:
    """``4.1`` of ``4.1.3``."""
    return ".".join(version.split(".")[:2])


def check_spark(version: str) -> None:
    """Refuse a Spark that no test has run.

    Raises:
        UsageError: it is another one; says which there are.
    """
    if minor_of(version) not in SUPPORTED:
        known = f"{', '.join(SUPPORTED[:-1])} and {SUPPORTED[-1]}"
        raise UsageError(
            f"Spark {version} was never tried with stream_app; Spark {known} were",
            where="the installed pyspark",
            fix=f'pip install "pyspark=={SUPPORTED[-1]}.*", or a job on a cluster with one of '
            "these",
        )
