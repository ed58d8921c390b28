"""Runs the compactions of a job's tables as Spark jobs, beside the stream.

A few threads of the driver each submit one job of one task at a time. They use the FAIR pool
"compaction", so that ingestion has priority. The pool is a local property of the thread, so each
thread sets it. Queued requests are served by urgency (`queue_rank`).

A job costs the driver and the executor as much as a small compaction itself. So small queued
compactions share a job (`shared_count`), whose task runs them one after the other. When the task
fails, each of them gets a job of its own, which reports its own error.

A thread runs a few very small compactions on the driver, without a job. If more are queued, it
leaves them to Spark.

Paimon runs compactions in a thread of the writer's task instead.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from stream_app.epochs.task_errors import readable_error
from stream_app.errors import StoppedError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.storage_errors import storage_errors

_LOG = logging.getLogger(__name__)

POOL = "compaction"
_POOL_PROPERTY = "spark.scheduler.pool"
OVERTAKEN_BY_A_RUN = 4
"""Number of requests that a bucket with one more sorted run may overtake."""
SHARED_SIZE_MAX = 8 << 20
"""Maximum number of bytes that the compactions of one job rewrite, which take a task 0.15 s.

Older rows that a compaction looks up are not counted.
"""
SHARED_COMPACTIONS_MAX = 100
"""Maximum number of compactions that share one job."""
DRIVER_SIZE_MAX = 1 << 20
"""Maximum number of bytes that a thread reads for compactions on the driver, in some 0.02 s."""
_DRIVER_COMPACTIONS_MAX = 4
"""Maximum number of queued compactions that a thread runs on the driver at a time."""


def queue_rank(request_number: int, sorted_run_count: int) -> int:
    """Return the rank of request `request_number` in the queue; the least rank is served first.

    A bucket with more sorted runs overtakes earlier requests, but only a bounded number of them. So
    no request starves.
    """
    return request_number - OVERTAKEN_BY_A_RUN * sorted_run_count


def shared_count(sizes: Iterable[int]) -> int:
    """Return the number of compactions that share one job.

    A large compaction has a job of its own, and ends a shared job before it.

    Args:
        sizes: bytes that the queued compactions read, in the order of the queue; at least one.
    """
    total_size = count = 0
    for size in sizes:
        total_size += size
        if count and (total_size > SHARED_SIZE_MAX or count == SHARED_COMPACTIONS_MAX):
            break
        count += 1
    return count


class QueuedCompaction(NamedTuple):
    """A request for a compaction, with its table."""

    table: FileStoreTable
    request: CompactRequest


@dataclass(order=True, slots=True)
class _QueuedRequest:
    rank: int
    compaction: QueuedCompaction = field(compare=False)
    future: Future[BucketChange] = field(compare=False, default_factory=Future)


class SparkCompactionQueue:
    """The job's compaction queue, ordered by urgency, and the threads that serve it.

    Attributes:
        at_once: the maximum number of concurrent Spark jobs.

    Args:
        parallelism: the value of `at_once`, or None for half the number of Spark's cores.
        driver_bytes_max: the maximum bytes of a compaction on the driver; 0: none runs there.
    """

    def __init__(
        self, spark: SparkSession, parallelism: int | None, driver_bytes_max: int = 0
    ) -> None:
        self._context = spark.sparkContext
        self._driver_bytes_max = driver_bytes_max
        self.at_once = parallelism or max(1, self._context.defaultParallelism // 2)
        self._heap: list[_QueuedRequest] = []
        self._request_numbers = itertools.count()
        self._is_closed = False
        self._condition = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"compaction-{thread_number}", daemon=True)
            for thread_number in range(self.at_once)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, table: FileStoreTable, request: CompactRequest) -> Future[BucketChange]:
        """Queue one compaction of a table."""
        rank = queue_rank(next(self._request_numbers), request.sorted_run_count)
        queued_request = _QueuedRequest(rank, QueuedCompaction(table, request))
        with self._condition:
            if self._is_closed:
                _drop(queued_request)
            else:
                heapq.heappush(self._heap, queued_request)
                self._condition.notify()
        return queued_request.future

    def close(self) -> None:
        """Drop queued compactions and abandon running ones; their uncommitted files are orphans.

        A dropped compaction ends with an error, because a commit may be waiting for it.
        """
        with self._condition:
            self._is_closed = True
            for queued_request in self._heap:
                _drop(queued_request)
            self._heap.clear()
            self._condition.notify_all()

    def _work(self) -> None:
        """Run queued compactions until the queue ends: small ones in the driver or as one job."""
        self._context.setLocalProperty(_POOL_PROPERTY, POOL)
        while requests := self._take_requests():
            queued_requests = [
                queued_request
                for queued_request in requests
                if queued_request.future.set_running_or_notify_cancel()
            ]
            compactions = [queued_request.compaction for queued_request in queued_requests]
            runs_on_driver = (
                len(compactions) <= _DRIVER_COMPACTIONS_MAX
                and _bytes_to_read(compactions) <= self._driver_bytes_max
            )
            if (
                len(queued_requests) > 1
                and not runs_on_driver
                and self._run_together(queued_requests)
            ):
                continue
            for queued_request, compaction in zip(queued_requests, compactions, strict=True):
                try:
                    change = _compact_on_driver(compaction) if runs_on_driver else None
                    queued_request.future.set_result(change or self._run([compaction])[0])
                except BaseException as error:
                    queued_request.future.set_exception(error)

    def _take_requests(self) -> list[_QueuedRequest]:
        """Wait for a request, and take it with those that share its job; empty after `close`."""
        requests: list[_QueuedRequest] = []
        sizes: list[int] = []
        with self._condition:
            self._condition.wait_for(lambda: self._heap or self._is_closed)
            while self._heap:
                sizes.append(_size(self._heap[0].compaction))
                if shared_count(sizes) < len(sizes):
                    break
                requests.append(heapq.heappop(self._heap))
        return requests

    def _run_together(self, queued_requests: Sequence[_QueuedRequest]) -> bool:
        """Run compactions in a shared job, and return whether it succeeded."""
        try:
            changes = self._run([queued_request.compaction for queued_request in queued_requests])
        except BaseException as error:
            _LOG.info(
                "%d compactions of a shared job get jobs of their own: %s",
                len(queued_requests),
                error,
            )
            return False
        for queued_request, change in zip(queued_requests, changes, strict=True):
            queued_request.future.set_result(change)
        return True

    def _run(self, compactions: Sequence[QueuedCompaction]) -> list[BucketChange]:
        """Run compactions in one job with one task, and return their changes in order."""
        self._context.setJobDescription(_description(compactions))

        def compact(_: int) -> Any:
            results: list[tuple[BucketChange, Counter[str]]] = []
            try:
                for table, request in compactions:
                    requests_before = Counter(table.store_requests())
                    with storage_errors(table.location):
                        change = compact_bucket(table, request)
                    results.append((change, Counter(table.store_requests()) - requests_before))
            except BaseException:
                for compaction, result in zip(compactions, results, strict=False):
                    compaction.table.discard([result[0]])
                raise
            return results

        try:
            [results] = self._context.parallelize([0], 1).map(compact).collect()
        except Exception as error:
            raise readable_error(error) from None
        for (table, _), (_, store_requests) in zip(compactions, results, strict=True):
            table.add_store_requests(store_requests)
        return [change for change, _ in results]


def _compact_on_driver(compaction: QueuedCompaction) -> BucketChange | None:
    """Return the change by a compaction in this process, or None after a failure.

    Spark then repeats the compaction.
    """
    table, request = compaction
    try:
        return compact_bucket(table, request)
    except Exception as error:
        _LOG.warning("%s: a task of Spark repeats a compaction: %s", table.location, error)
        return None


def _bytes_to_read(compactions: Sequence[QueuedCompaction]) -> int:
    """Return the number of bytes that compactions read, lookups of older rows included."""
    sizes_above = (file.file_size for _, request in compactions for file in request.files_above)
    return sum(map(_size, compactions)) + sum(sizes_above)


def _size(compaction: QueuedCompaction) -> int:
    return compaction.request.unit.total_size


def _description(compactions: Sequence[QueuedCompaction]) -> str:
    """Describe a job for Spark's own page."""
    table, request = compactions[0]
    unit = request.unit
    where = f"{table.paths.partition_path(request.partition)} bucket {request.bucket}".strip()
    more_text = (
        f" and {len(compactions) - 1} small compactions more" if len(compactions) > 1 else ""
    )
    return (
        f"compact {where}: {len(unit.files)} files into level {unit.output_level} "
        f"({unit.reason}){more_text}"
    )


def _drop(queued_request: _QueuedRequest) -> None:
    if queued_request.future.set_running_or_notify_cancel():
        queued_request.future.set_exception(
            StoppedError("the job ends before this compaction begins")
        )


@dataclass(frozen=True, slots=True)
class SparkCompactExecutor:
    """The executor of one table's compactions, as Spark jobs. Implements `CompactExecutor`."""

    compaction_queue: SparkCompactionQueue
    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Queue one compaction."""
        return self.compaction_queue.submit(self.table, request)
