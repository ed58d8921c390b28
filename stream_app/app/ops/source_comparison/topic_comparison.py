"""Compares tables with their topics, and reads each topic only once for all tables.

1. `Comparison.add` registers each table with the end offsets of its newest epoch.
2. `Comparison.read` reads the topics and passes each table its messages up to these offsets. It
   writes each table's changes to sorted runs on local disk.
3. `ComparedTable.findings` merges a table's runs, and compares them with its rows.

Memory does not grow with the number of messages. Step 2 holds one fetch from the broker, and
`CHUNK_ROWS_MAX` changes of all tables together. Beyond that, the table with the most changes writes
them to a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.ops.source_comparison.source_replay import (
    CHUNK_ROWS_MAX,
    SourceReplay,
    table_end,
)
from stream_app.app.source.topic_messages import Ends, topic_messages
from stream_app.app.table_setup.comparable_rows import why_incomparable
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE, SourceFilter
from stream_app.epochs.stages.epoch_plan import MessageSplitter
from stream_app.errors import SourceError, StreamAppError, WrongSourceError
from stream_app.message_format_registry import format_named
from stream_app.model.finding import Finding
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.check.table_check import CheckReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_counts import basis_of
from stream_app.table.versions.read_refusals import check_readable


@dataclass(slots=True, kw_only=True)
class ComparedTable:
    """A table that is compared with its messages.

    Attributes:
        snapshot: the latest snapshot, with whose rows the changes are compared.
        ends: the offsets up to which the table's job has read.
        source_replay: decodes the messages; None if the table cannot be compared, for the reason in
            `omissions`.
    """

    snapshot: Snapshot
    ends: Ends
    omissions: Omissions
    source_check: SourceCheck
    source_replay: SourceReplay | None

    def add_messages(self, messages: pa.RecordBatch) -> None:
        """Add the messages of one Kafka partition, up to the offset that the table has."""
        topic, partition_number = (
            messages.column(name)[0].as_py() for name in ("topic", "partition")
        )
        offsets = messages.column("offset").to_numpy()
        count = int(np.searchsorted(offsets, self.ends.get((topic, partition_number), 0)))
        if count:
            self.run_step(lambda replay: replay.add_messages(messages.slice(0, count)))

    def run_step(self, step: Callable[[SourceReplay], None]) -> None:
        """Run a step of reading. An error in it ends only this table's comparison.

        Raises:
            SourceError: the source does not respond, which affects all tables.
        """
        if self.source_replay is None:
            return
        try:
            step(self.source_replay)
        except StreamAppError as error:
            if isinstance(error, SourceError) and not isinstance(error, WrongSourceError):
                raise
            self.omissions.add(
                f"the table was not compared with its source: {error.problem}", error.fix
            )
            self.source_replay = None

    @property
    def buffered_row_count(self) -> int:
        """The number of changes in memory."""
        return 0 if self.source_replay is None else self.source_replay.buffered_row_count

    def findings(self, report: CheckReport) -> Iterator[Finding]:
        """Yield findings about differences, and about rows that were not compared.

        Args:
            report: the report that receives the extent of the comparison.
        """
        if self.source_replay is not None:
            yield from self.source_check.findings(self.snapshot)
            if len(self.omissions.key_names) == 1:
                yield from self.source_check.repeated_key_findings(
                    self.snapshot, *self.omissions.key_names.values()
                )
            topics_text = ", ".join(sorted({topic for topic, _ in self.ends}))
            report.replayed_changes.append(
                f"{self.source_replay.count} changes of {topics_text}, up to where the table is"
            )
        yield from self.omissions.findings()


@dataclass(slots=True)
class Comparison:
    """The comparison of one job's tables with their topics.

    Attributes:
        folder: an empty folder on local disk, which the caller deletes.
        loaded_locations: the folders of tables whose first rows came from a database.
        chunk_row_count: the maximum number of changes in memory, of all tables together.
    """

    folder: str
    progress: Progress
    loaded_locations: frozenset[str] = frozenset()
    chunk_row_count: int = CHUNK_ROWS_MAX
    _source_config: SourceConfig = field(init=False, default_factory=SourceConfig)
    _tables: list[ComparedTable] = field(init=False, default_factory=list)

    def add(
        self,
        table: FileStoreTable,
        source_config: SourceConfig,
        table_config: TableConfig,
        source_filter: SourceFilter = EVERY_SOURCE,
    ) -> ComparedTable:
        """Step 1: register a table.

        For the splitter of `read`, the table's index is the number of earlier calls.

        Args:
            table_config: the job's configuration with the table's made columns and filter.
            source_filter: the source tables whose records the table accepts.

        Raises:
            UsageError: no snapshot of the table records offsets of these topics.
            UnsupportedTableError: stream_app cannot merge the table's rows.
        """
        omissions = Omissions(table.location, format_named(source_config.format))
        snapshot, ends = table_end(table, source_config)
        folder = f"{self.folder}/{len(self._tables)}"
        source_check = SourceCheck(table, folder, basis_of(table, snapshot))
        source_replay = None
        fix = "leave --conf and --source-kafka out for such a table"
        reason = why_incomparable(table.schema, table_config)
        if table.location in self.loaded_locations:
            reason = "its first rows came from the database, and the topics lack them"
            fix = "compare it with the database: --source"
        if reason:
            omissions.add(
                f"{snapshot.total_record_count} records of the table were not compared with the "
                f"source: {reason}",
                fix,
            )
        else:
            check_readable(table, merges_rows=True)
            for topic in sorted(set(source_config.topic_names) - {topic for topic, _ in ends}):
                problem = f"the topic {topic} was not read by the table's job"
                omissions.add(problem, "let the job read it")
            source_replay = SourceReplay(
                source_check, source_config, table_config, omissions, source_filter
            )
        compared_table = ComparedTable(
            snapshot=snapshot,
            ends=ends,
            omissions=omissions,
            source_check=source_check,
            source_replay=source_replay,
        )
        self._source_config = source_config
        self._tables.append(compared_table)
        return compared_table

    def read(self, splitter: MessageSplitter) -> None:
        """Step 2: read the topics, and pass each table its own messages.

        Raises:
            SourceError: the broker does not respond.
        """
        readers = [(table.ends, table.omissions) for table in self._tables if table.source_replay]
        if not readers:
            return
        for messages in topic_messages(self._source_config, readers, self.progress):
            for part in splitter.split(messages):
                if part.table_index >= 0 and part.messages.num_rows:
                    self._tables[part.table_index].add_messages(part.messages)
            while sum(table.buffered_row_count for table in self._tables) >= self.chunk_row_count:
                fullest_table = max(self._tables, key=lambda table: table.buffered_row_count)
                fullest_table.run_step(SourceReplay.flush)
        for table in self._tables:
            table.run_step(SourceReplay.finish)
