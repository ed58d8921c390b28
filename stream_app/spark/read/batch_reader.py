"""Spark's batch read: the driver plans, tasks read Arrow batches, filters leave files out.

Source: Spark `pyspark/sql/datasource.py#DataSourceReader`,
`pyspark/sql/worker/plan_data_source_read.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from stream_app.predicate.predicate import And
from stream_app.spark.read.pushed_filters import translated
from stream_app.spark.read.spark_arrow import spark_batch
from stream_app.spark.read.table_scan import TableScan
from stream_app.table.storage_errors import storage_errors
from stream_app.table.versions.row_filter import predicate_filter


class BatchReader(DataSourceReader):
    """Reads some columns of a scan.

    Spark makes it and asks it on the driver, in a separate process, and pickles it to the tasks.
    """

    def __init__(self, scan: TableScan, columns: list[str]) -> None:
        self.scan = scan
        self.columns = columns

    @property
    def pushFilters(self) -> FilterPushDown:  # noqa: N802 - Spark's
        """Takes filters, if Spark hands them down."""
        return FilterPushDown(self)

    def take(self, filters: Iterable[Any]) -> list[Any]:
        """Read only rows that pass the filters, all of which must be true.

        Returns:
            Filters that Spark has to apply itself.
        """
        everything = list(filters)
        schema = self.scan.table.schema
        conditions, left = translated(everything, schema.fields)
        if not conditions:
            return everything
        filtered = self.scan.filtered(predicate_filter(And(tuple(conditions)), schema))
        if filtered is None:
            return everything
        self.scan = filtered
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """The parts of the current version that tasks can read independently.

        Raises:
            StreamAppError: there is no such version, or a manifest cannot be read.
        """
        return [InputPartition(part) for part in self.scan.parts(self.columns)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part, in a task; without any part Spark passes None.

        Raises:
            CorruptFileError: a file cannot be read.
            StorageError: the file system refuses.
        """
        if partition is None:
            return
        with storage_errors(self.scan.table.location):
            for batch in self.scan.read(partition.value, self.columns):
                yield spark_batch(batch, self.columns)


class FilterPushDown:
    """`DataSourceReader.pushFilters` of a reader, which need not be called.

    Spark 4.1 refuses a reader that overrides the method unless
    ``spark.sql.python.filterPushdown.enabled`` is set, so that no filter gets lost. Ours loses
    none, because Spark applies what is not pushed down. So this poses as the inherited method, and
    works when it is called. Spark 4.0 has no push-down.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        # Spark compares these two methods.
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        """Take filters; return those that Spark must apply."""
        return self._reader.take(filters)
