"""Writes the files that Spark writes in a job's checkpoint when an epoch begins."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stream_app.checkpoint.job_folder import JobFolder

Ends = Mapping[str, Mapping[str, int]]
"""Topic → Kafka partition → the first offset that is not read."""


def begin_epoch(
    checkpoint: JobFolder, epoch: int, start: Ends, end: Ends, query: str = "the job"
) -> None:
    """Write the files of an epoch's begin.

    Args:
        start: of the job's first epoch.
        end: of this epoch.
        query: the streaming query's id.
    """
    for name, before, ends in (
        ("sources/0/0", "v1\n", start),
        (f"offsets/{epoch}", "v1\n{}\n", end),
    ):
        checkpoint.file_io.overwrite(checkpoint.path(name), f"{before}{json.dumps(ends)}".encode())
    checkpoint.file_io.overwrite(checkpoint.path("metadata"), json.dumps({"id": query}).encode())
