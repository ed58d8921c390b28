"""``spark.read.format("stream_app")``: Paimon tables as a source of Spark, in Python.

Spark finds `pyspark_stream_app` by itself where this package is installed; otherwise call
`register`. Everything happens in processes that Spark starts: one makes the source and gets its
columns, another plans, and tasks read Arrow batches. Filters leave files out.

Source: Spark `pyspark/sql/datasource.py`, `pyspark/sql/worker/plan_data_source_read.py`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from stream_app.catalog.catalog_options import HEADER_PREFIX, SECRETS
from stream_app.catalog.catalogs_file import secret_by_reference
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.predicate.predicate import And
from stream_app.spark.driver.supported_versions import untried_warning
from stream_app.spark.read.pushed_filters import translate_filters
from stream_app.spark.read.scan_choice import start_option
from stream_app.spark.read.source_options import (
    CATALOG_PREFIX,
    PATH,
    READ_CHANGELOG,
    read_source_options,
)
from stream_app.spark.read.spark_arrow import spark_batch, spark_schema
from stream_app.spark.read.stream_reader import StreamReader, stream_reader, stream_schema
from stream_app.spark.read.table_scan import AUDIT_LOG, TableScan, table_scan
from stream_app.table.conditions.row_filter import predicate_filter
from stream_app.table.opening import open_named_table
from stream_app.table.read.system_tables import check_system_table
from stream_app.table.storage_errors import storage_errors
from stream_app.table.versions.read_refusals import warn_of_unknown

NAME = "stream_app"
_FILTERS = "spark.sql.python.filterPushdown.enabled"
_SYSTEM_MARK = "$"


class BatchReader(DataSourceReader):
    """A reader of some columns of a scan.

    Spark makes it and asks it on the driver, in a separate process, and pickles it to the tasks.
    """

    def __init__(self, scan: TableScan, columns: list[str]) -> None:
        self.scan = scan
        self.columns = columns

    @property
    def pushFilters(self) -> FilterPushDown:  # noqa: N802 - Spark's
        """Accepts filters, if Spark pushes them down."""
        return FilterPushDown(self)

    def push(self, filters: Iterable[Any]) -> list[Any]:
        """Read only rows that pass the filters, all of which must be true.

        Returns:
            Filters that Spark has to apply itself.
        """
        all_filters = list(filters)
        schema = self.scan.table.schema
        conditions, residual_filters = translate_filters(all_filters, schema.fields)
        if not conditions:
            return all_filters
        filtered_scan = self.scan.with_filter(predicate_filter(And(tuple(conditions)), schema))
        if filtered_scan is None:
            return all_filters
        self.scan = filtered_scan
        return residual_filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of the current version that tasks can read independently.

        Raises:
            StreamAppError: the version does not exist, or a manifest cannot be read.
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
    ``spark.sql.python.filterPushdown.enabled`` is set, so that no filter gets lost. `BatchReader`
    loses none, because Spark applies the filters that it does not push down. So this object poses
    as the inherited method, and works when Spark calls it. Spark 4.0 has no push-down.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        # Spark compares these two methods.
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        """Accept filters, and return those that Spark must apply itself."""
        return self._reader.push(filters)


class PaimonDataSource(DataSource):
    """A table at a path; ``path$name`` is one of its system tables.

    The table is opened once, when Spark makes the source: all reads of a data frame have the same
    columns. Each query looks up the latest version.

    Raises:
        StreamAppError: an option is wrong, or there is no table that stream_app can read.
    """

    def __init__(self, options: dict[str, str], clock: Clock | None = None) -> None:
        super().__init__(options)
        if (problem := untried_warning(pyspark.__version__)) is not None:
            warnings.warn(problem, stacklevel=2)  # a read may use these options; a job refuses them
        self._options = read_source_options(options)
        location, self._system_name = _split_path(options)
        start_option(self._options)
        files = self._options.of_file_system()
        self._table = open_named_table(
            location, clock, catalog=_catalog(options), file_io_options=files
        )
        warn_of_unknown(self._table)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns that are read: all columns, or those of ``read.columns``."""
        columns = self._options.columns()
        schema = self._arrow_schema()
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in _checked_names(columns, schema)])
        return spark_schema(schema, self._comments())

    def reader(self, schema: StructType) -> BatchReader:
        """Make a reader of the columns of `schema`, which may be fewer than the table has."""
        scan = table_scan(self._table, self._system_name, self._options)
        return BatchReader(scan, _column_names(schema, spark_schema(scan.schema)))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's
        """Make a reader that follows the columns of `schema`, as the table has them today."""
        if self._system_name not in ("", AUDIT_LOG):
            raise UsageError(
                f"system table {self._system_name!r} cannot be followed",
                fix=f"read it as a batch, or follow {AUDIT_LOG}",
            )
        columns = spark_schema(stream_schema(self._table, shows_row_kinds=self._shows_row_kinds))
        return stream_reader(
            self._table,
            _column_names(schema, columns),
            self._options,
            shows_row_kinds=self._shows_row_kinds,
        )

    @property
    def _shows_row_kinds(self) -> bool:
        return self._options[READ_CHANGELOG] or self._system_name == AUDIT_LOG

    def _arrow_schema(self) -> pa.Schema:
        try:
            return table_scan(self._table, self._system_name, self._options).schema
        except UsageError:
            # Spark does not say which kind of read it is, and a stream can begin at a snapshot that
            # is still to come.
            return stream_schema(self._table, shows_row_kinds=self._shows_row_kinds)

    def _comments(self) -> Mapping[str, str]:
        fields = () if self._system_name else self._table.schema.fields
        return {field.name: field.description for field in fields if field.description}


def register(spark: SparkSession) -> None:
    """Make the source known to a session, and let Spark 4.1 push filters down to the source.

    If the package is installed beside Spark, only the push-down needs this call.
    """
    try:
        spark.dataSource.register(PaimonDataSource)
    except AnalysisException as error:
        # Spark 4.0 does not register a source again that it has discovered.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    if not spark.version.startswith("4.0"):
        spark.conf.set(_FILTERS, "true")


def _split_path(options: Mapping[str, str]) -> tuple[str, str]:
    """Return the table's path, and the system table's name, which may be empty."""
    path = {key.lower(): value for key, value in options.items()}.get(PATH)
    if not path:
        raise UsageError(
            "the table's path is missing",
            fix='write .load("/warehouse/shop.db/orders") or .option("path", …)',
        )
    folder, slash, name = path.rstrip("/").rpartition("/")
    table_name, mark, system_name = name.partition(_SYSTEM_MARK)
    if mark:
        check_system_table(system_name)
    return folder + slash + table_name, system_name


def _catalog(options: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the options of the table's catalog, or None without one."""
    catalog_options = {
        key.lower().removeprefix(CATALOG_PREFIX): value
        for key, value in options.items()
        if key.lower().startswith(CATALOG_PREFIX)
    }
    for key in (key for key in catalog_options if key in SECRETS or key.startswith(HEADER_PREFIX)):
        catalog_options[key] = secret_by_reference(
            CATALOG_PREFIX + key, catalog_options[key], os.environ
        )
    return catalog_options or None


def _checked_names(names: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    unknown_names = [name for name in names if name not in schema.names]
    if unknown_names:
        raise UsageError(
            "; ".join(unknown_name("column", name, schema.names) for name in unknown_names),
            where="read.columns",
            fix=f"name columns of the table: {', '.join(schema.names)}",
        )
    return names


def _column_names(requested_type: StructType, read_type: StructType) -> list[str]:
    """Return the names of the wanted columns.

    Raises:
        UsageError: one is not there, or of another type.
    """
    types = {field.name: field.dataType.simpleString() for field in read_type}
    problems = [
        unknown_name("column", field.name, types)
        if field.name not in types
        else f"column {field.name!r} is {types[field.name]}, not {field.dataType.simpleString()}"
        for field in requested_type
        if types.get(field.name) != field.dataType.simpleString()
    ]
    if problems:
        raise UsageError(
            "; ".join(problems),
            where="the columns that were given to the read; without any, those of the version at "
            "which it begins",
            fix="give the columns with .schema(…): the table has "
            f"{', '.join(f'{name} {type_name}' for name, type_name in types.items())}",
        )
    return list(requested_type.fieldNames())
