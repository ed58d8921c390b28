"""The port that runs a decided compaction elsewhere.

`spark.jobs.spark_compactions` implements it by Spark jobs. Tests run the compaction in the caller.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest


class CompactExecutor(Protocol):
    """An executor of several requests at a time, of which no two may share a file."""

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Begin a compaction. The future gets the result or the failure."""
        ...
