"""Decides whether tests cover a version of Spark."""

from __future__ import annotations

from stream_app.errors import UsageError

SUPPORTED_VERSIONS = ("4.0", "4.1", "4.2", "4.3")
"""The minor versions of Spark that tests cover; a patch release behaves as its minor version."""


def minor_of(version: str) -> str:
    """Return the minor version: ``4.1`` for ``4.1.3``."""
    return ".".join(version.split(".")[:2])


def untried_warning(version: str) -> str | None:
    """Return a warning about a Spark that no test covers, or None if tests cover it."""
    if minor_of(version) in SUPPORTED_VERSIONS:
        return None
    supported_text = f"{', '.join(SUPPORTED_VERSIONS[:-1])} and {SUPPORTED_VERSIONS[-1]}"
    return f"Spark {version} was never tried with stream_app; Spark {supported_text} were"


def check_spark(version: str) -> None:
    """Refuse a Spark that no test covers.

    Raises:
        UsageError: the version is not supported; the error lists the supported ones.
    """
    if (problem := untried_warning(version)) is not None:
        raise UsageError(
            problem,
            where="the installed pyspark",
            fix=f'run pip install "pyspark=={SUPPORTED_VERSIONS[-1]}.*", or run the job on a '
            "cluster with one of these",
        )
