"""Runs compactions as Spark jobs, beside the stream.

A few threads of the driver each submit one job of one task for one bucket, in the FAIR pool
"compaction", so that compaction takes what ingestion leaves. The pool is a local property of the
thread: it is set in each of them.

Source: seed document 002; Paimon runs compactions in a thread of the writer's task.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from stream_app.spark.task_errors import readable, storage_errors
from stream_app.table.compact_bucket import CompactRequest, CompactResult, compact_bucket
from stream_app.table.file_store_table import FileStoreTable

POOL = "compaction"
_POOL_PROPERTY = "spark.scheduler.pool"


class SparkCompactExecutor:
    """Implements `CompactExecutor` with as many jobs at a time as the table's option says."""

    def __init__(self, spark: SparkSession, table: FileStoreTable) -> None:
        self._context = spark.sparkContext
        self._table = table
        configured = table.options.optional_integer("compaction.max-parallelism")
        parallelism = configured or max(1, self._context.defaultParallelism // 2)
        self._threads = ThreadPoolExecutor(
            parallelism, thread_name_prefix="compaction", initializer=self._enter_pool
        )

    def submit(self, request: CompactRequest) -> Future[CompactResult]:
        """Queue one compaction."""
        return self._threads.submit(self._run, request)

    def close(self) -> None:
        """Drop what is queued and cancel what runs; uncommitted files are orphans then."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _enter_pool(self) -> None:
        self._context.setLocalProperty(_POOL_PROPERTY, POOL)

    def _run(self, request: CompactRequest) -> CompactResult:
        table = self._table
        unit = request.unit
        where = f"{table.paths.partition(request.partition)} bucket {request.bucket}".strip()
        self._context.setJobDescription(
            f"compact {where}: {len(unit.files)} files into level {unit.output_level} "
            f"({unit.reason})"
        )

        def compact(one: CompactRequest) -> Any:
            with storage_errors(table.location):
                return compact_bucket(table, one)

        try:
            [result] = self._context.parallelize([request], 1).map(compact).collect()
        except Exception as error:
            raise readable(error) from None
        assert isinstance(result, CompactResult)
        return result
