"""The settings of one run of `stream-app compact`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.app.config.stream_config import StreamConfig
from stream_app.model.files.row_order import RowOrder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.partition_filter import PartitionFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """The table and the settings of a compaction job.

    Attributes:
        table: the table with the options of the command line; never write-only.
        partition_filter: the partitions to compact.
        is_full: whether to merge whole buckets, rather than what the table's triggers demand.
        follows: whether to run until stopped.
        spark_settings: settings of Spark.
        stream_config: the stream of the job that writes the table.
        metrics_port: the port of the Prometheus endpoint, or None without one.
        row_order: the order in which to sort each partition's rows, or None to only merge files.
        terminal_width: the width of the output's terminal in characters; 0 without a terminal.
    """

    table: FileStoreTable
    partition_filter: PartitionFilter
    is_full: bool
    follows: bool
    spark_settings: Mapping[str, str]
    metrics_port: int | None = None
    terminal_width: int = 0
    stream_config: StreamConfig = field(default_factory=StreamConfig)
    row_order: RowOrder | None = None
