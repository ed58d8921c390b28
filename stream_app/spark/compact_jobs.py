"""Runs the compactions of a job's tables as Spark jobs, beside the stream.

A few threads of the driver each submit one job of one task for one bucket. They use the FAIR pool
"compaction", so that ingestion has priority. The pool is a local property of the thread, so each
thread sets it. Waiting requests are served by urgency (`queue_rank`).

Paimon runs compactions in a thread of the writer's task instead.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from stream_app.errors import StoppedError
from stream_app.model.bucket_change import BucketChange
from stream_app.model.compact_request import CompactRequest
from stream_app.spark.task_errors import readable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.registry import compact_bucket
from stream_app.table.storage_errors import storage_errors

POOL = "compaction"
_POOL_PROPERTY = "spark.scheduler.pool"
OVERTAKEN_BY_A_RUN = 4
"""Number of requests that a bucket with one more sorted run may overtake."""


def queue_rank(number: int, runs: int) -> int:
    """The rank of the `number`-th request in the queue; the least rank is served first.

    A bucket with more sorted runs overtakes earlier requests, but only a bounded number of them. So
    no request starves.
    """
    return number - OVERTAKEN_BY_A_RUN * runs


@dataclass(order=True, slots=True)
class _Waiting:
    rank: float
    work: tuple[FileStoreTable, CompactRequest] | None = field(compare=False)
    future: Future[BucketChange] = field(compare=False, default_factory=Future)


class SparkCompactions:
    """The job's compaction queue, ordered by urgency, and the threads that serve it.

    Args:
        parallelism: Spark jobs at a time; None: half the number of Spark's cores.
    """

    def __init__(self, spark: SparkSession, parallelism: int | None) -> None:
        self._context = spark.sparkContext
        parallelism = parallelism or max(1, self._context.defaultParallelism // 2)
        self._queue: queue.PriorityQueue[_Waiting] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"compaction-{number}", daemon=True)
            for number in range(parallelism)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, table: FileStoreTable, request: CompactRequest) -> Future[BucketChange]:
        """Queue one compaction of a table."""
        waiting = _Waiting(queue_rank(next(self._numbers), request.runs), (table, request))
        with self._lock:
            if self._closed.is_set():
                _drop(waiting)
            else:
                self._queue.put(waiting)
        return waiting.future

    def close(self) -> None:
        """Drop queued compactions and abandon running ones; their uncommitted files are orphans.

        A dropped compaction ends with an error, because a commit may be waiting for it.
        """
        with self._lock:
            self._closed.set()
            with contextlib.suppress(queue.Empty):
                while True:
                    _drop(self._queue.get_nowait())
            for _ in self._threads:
                self._queue.put(_Waiting(float("-inf"), None))

    def _work(self) -> None:
        self._context.setLocalProperty(_POOL_PROPERTY, POOL)
        while True:
            waiting = self._queue.get()
            if waiting.work is None or self._closed.is_set():
                _drop(waiting)
                return
            if not waiting.future.set_running_or_notify_cancel():
                continue
            try:
                waiting.future.set_result(self._run(*waiting.work))
            except BaseException as error:
                waiting.future.set_exception(error)

    def _run(self, table: FileStoreTable, request: CompactRequest) -> BucketChange:
        unit = request.unit
        where = f"{table.paths.partition(request.partition)} bucket {request.bucket}".strip()
        self._context.setJobDescription(
            f"compact {where}: {len(unit.files)} files into level {unit.output_level} "
            f"({unit.reason})"
        )

        def compact(one: CompactRequest) -> Any:
            before = Counter(table.store_requests())
            with storage_errors(table.location):
                change = compact_bucket(table, one)
            return change, Counter(table.store_requests()) - before

        try:
            [(change, requests)] = self._context.parallelize([request], 1).map(compact).collect()
        except Exception as error:
            raise readable(error) from None
        assert isinstance(change, BucketChange)
        table.add_store_requests(requests)
        return change


def _drop(waiting: _Waiting) -> None:
    if waiting.work is not None and waiting.future.set_running_or_notify_cancel():
        waiting.future.set_exception(StoppedError("the job ends before this compaction begins"))


@dataclass(frozen=True, slots=True)
class SparkCompactExecutor:
    """Implements `CompactExecutor` for one table of a job."""

    compactions: SparkCompactions
    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Queue one compaction."""
        return self.compactions.submit(self.table, request)
