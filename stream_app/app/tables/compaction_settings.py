"""The settings of a run of `stream-app compact`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.app.config.stream_config import StreamConfig
from stream_app.model.files.compact_request import RowOrder
from stream_app.table.compact.compacted_buckets import CompactionChoice
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """The tables and settings of a compaction job.

    Attributes:
        table: as the job sees it: with the options of the command line, and never write-only.
        full: merge whole buckets; else what the table's triggers ask for.
        follow: run until stopped.
        spark: settings.
        stream: the stream of the job that writes the table.
        metrics_port: the port of the endpoint for Prometheus; None: there is none.
        row_order: in which the rows of each partition come; None: files are only merged.
        terminal_width: characters of the terminal on which it all appears; 0: there is none.
    """

    table: FileStoreTable
    choice: CompactionChoice
    full: bool
    follow: bool
    spark: Mapping[str, str]
    metrics_port: int | None = None
    terminal_width: int = 0
    stream: StreamConfig = field(default_factory=StreamConfig)
    row_order: RowOrder | None = None
