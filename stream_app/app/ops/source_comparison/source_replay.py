"""Decodes the messages of a job's table again, as the job does, into sorted runs on local disk.

A table's latest snapshot of an epoch records the epoch's end offsets, where the source replay ends.
`topic_messages` reads the messages. `topic_comparison` and `app.ops.backfill` compare the runs with
the table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.source.topic_messages import Ends
from stream_app.app.table_setup.table_pipeline import LEFT_OUT_BY_CHECK, RowSettings
from stream_app.cdc.change_batch import concat_rows
from stream_app.cdc.pipeline import Pipeline
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE, SourceFilter
from stream_app.epochs.stages.epoch_plan import MessageSplitter
from stream_app.epochs.stages.incomplete_changes import bad_records_of_refused, with_messages
from stream_app.errors import UsageError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_end
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.pipeline_steps.narrowed_columns import column_times

CHUNK_ROWS_MAX = 200_000
"""The number of changes in memory that are written together to the buckets' sorted runs."""


class SourceReplay:
    """A second decoding of a table's messages, into sorted runs beside the table.

    Attributes:
        count: the number of changes so far.
        buffered_row_count: the number of changes in memory.
    """

    def __init__(
        self,
        source_check: SourceCheck,
        source_config: SourceConfig,
        table_config: TableConfig,
        omissions: Omissions,
        source_filter: SourceFilter = EVERY_SOURCE,
    ) -> None:
        """Begin a source replay.

        Args:
            omissions: receives the bad records and other omissions.
            source_filter: the source tables whose records the table accepts; other records are bad.
        """
        self._pipeline = source_replay_pipeline(
            source_check.table, source_config, table_config, source_filter
        )
        self._assigner = source_check.assigner
        self._source_check = source_check
        self._omissions = omissions
        self._buffer: list[pa.RecordBatch] = []
        self.count = self.buffered_row_count = 0

    def add_messages(self, messages: pa.RecordBatch) -> None:
        """Decode messages of the table, which arrive in offset order for each Kafka partition."""
        decoded_batch = self._pipeline.decode(messages)
        self._omissions.add_batch(messages, decoded_batch)
        changes = decoded_batch.changes
        if decoded_batch.last_truncate is not None:  # the source truncated its table
            self._buffer, self.buffered_row_count = [], 0
            self._source_check.source_rows.empty()
            changes = changes.changes_after(decoded_batch.last_truncate)
        rows = with_messages(changes, messages)
        self._buffer.append(rows)
        self.buffered_row_count += rows.num_rows
        self.count += rows.num_rows

    def flush(self) -> None:
        """Write the changes in memory to a sorted run of each bucket."""
        if self.buffered_row_count:
            self._source_check.source_rows.add(self._assigner.assign(concat_rows(self._buffer)))
        self._buffer, self.buffered_row_count = [], 0

    def finish(self) -> None:
        """Write the remaining changes, and record rows that the writer refuses as bad records."""
        self.flush()
        if refused_batches := self._source_check.source_rows.refused_batches:
            self._omissions.add_bad(bad_records_of_refused(refused_batches))


def source_replay_pipeline(
    table: FileStoreTable,
    source_config: SourceConfig,
    table_config: TableConfig,
    source_filter: SourceFilter,
) -> Pipeline:
    """Return the pipeline that decodes a table's messages again, as its job does."""
    return RowSettings(
        source_config=source_config,
        table_config=table_config,
        schema=table.schema,
        left_out_steps=LEFT_OUT_BY_CHECK,
        source_filter=None if source_filter == EVERY_SOURCE else source_filter,
        restores_values=True,
        keeps_update_before=False,
        read_column_times=functools.partial(column_times, table),
    ).pipeline()


def replay_source(
    source_check: SourceCheck,
    messages: Iterable[pa.RecordBatch],
    source_config: SourceConfig,
    table_config: TableConfig,
    omissions: Omissions,
    source_filter: SourceFilter = EVERY_SOURCE,
) -> int:
    """Decode all messages of a table by a `SourceReplay`, and return the number of changes."""
    replay = SourceReplay(source_check, source_config, table_config, omissions, source_filter)
    for batch in messages:
        replay.add_messages(batch)
        if replay.buffered_row_count >= CHUNK_ROWS_MAX:
            replay.flush()
    replay.finish()
    return replay.count


def table_end(table: FileStoreTable, source_config: SourceConfig) -> tuple[Snapshot, Ends]:
    """Return the latest snapshot, and the offsets up to which its newest epoch has read.

    Compactions of other jobs after the newest epoch change no rows.
    """
    latest_snapshot = table.snapshots.latest()
    epochs = newest_epochs(table.snapshots).values()
    names = source_config.topic_names
    for epoch in sorted(epochs, key=lambda epoch: epoch.time_ms, reverse=True):
        ends = {
            (topic, int(partition_number)): int(end)
            for topic, topic_offsets in offsets_of_end(epoch.source_end).items()
            if not names or topic in names
            for partition_number, end in topic_offsets.items()
        }
        if ends and latest_snapshot is not None:
            return latest_snapshot, ends
    raise UsageError(
        f"no snapshot records how far a job has read {', '.join(names) or 'its topics'}",
        where=table.location,
        fix="give the topic that the table is written from",
    )


def own_messages(
    batches: Iterable[pa.RecordBatch], splitter: MessageSplitter
) -> Iterator[pa.RecordBatch]:
    """Yield the messages that the splitter assigns to index 0."""
    for messages in batches:
        yield from (part.messages for part in splitter.split(messages) if part.table_index == 0)
