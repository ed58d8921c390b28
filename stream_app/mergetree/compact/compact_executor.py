"""The port that runs a decided compaction elsewhere.

`spark.spark_compactions` implements it by Spark jobs, and tests run the compaction in the caller.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest


class CompactExecutor(Protocol):
    """Runs requests, several at a time; no two of them may share a file."""

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Begin; the future holds the result or the failure."""
        ...
