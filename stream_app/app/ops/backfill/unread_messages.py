"""Finds the keys in the messages that a table's job has not read yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.recorded_tables import recorded_splitter, source_filter_of
from stream_app.app.ops.source_comparison.source_replay import (
    own_messages,
    source_replay_pipeline,
    table_end,
)
from stream_app.app.source.kafka_reader import end_offsets
from stream_app.app.source.topic_checks import RECREATED_FIX
from stream_app.app.source.topic_messages import open_topic_reader
from stream_app.cdc.pipeline_steps.own_message_decoder import SourceFilter
from stream_app.checkpoint.job_state import JobState
from stream_app.epochs.stages.epoch_plan import MessageSplitter
from stream_app.errors import WrongSourceError
from stream_app.format.row_hash.key_groups import key_texts
from stream_app.format.row_hash.row_texts import PlacedColumn
from stream_app.kafka.next_offsets import vanished_partitions
from stream_app.kafka.offset_ranges import ranges_between
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadMessages:
    """The messages after the newest epoch of a table.

    Attributes:
        source_config, table_config: the configuration of the table's job.
        topics: the topics with the table's messages; empty means all topics of the job.
        splitter: assigns the table's messages to index 0.
        source_filter: the source tables whose records the table accepts.
    """

    table: FileStoreTable
    source_config: SourceConfig
    table_config: TableConfig
    topics: Collection[str]
    splitter: MessageSplitter
    source_filter: SourceFilter

    @classmethod
    def of_job(
        cls,
        table: FileStoreTable,
        job_tables: JobTables,
        state: JobState,
        source_config: SourceConfig,
    ) -> UnreadMessages:
        """Return the messages that a job has not read into one of its tables.

        Args:
            state: what the job's checkpoint remembers.

        Raises:
            UsageError: the job has not seen the table yet, or only Spark can read its checkpoint.
        """
        return cls(
            table=table,
            source_config=source_config,
            table_config=job_tables.table_config(table.name, table.schema.fields),
            topics=state.source_tables_of(job_tables.state_key(table.name)),
            splitter=recorded_splitter(job_tables, table),
            source_filter=source_filter_of(job_tables),
        )

    def key_texts(self, keys: Sequence[PlacedColumn]) -> set[bytes]:
        """Return the texts of the messages' keys, before and after each change.

        Raises:
            SourceError: the broker does not respond.
            WrongSourceError: a topic was deleted or recreated after the job had read it.
            UsageError: only Spark can read the topics, or no job has read them into the table.
        """
        pipeline = source_replay_pipeline(
            self.table, self.source_config, self.table_config, self.source_filter
        )
        texts: set[bytes] = set()
        for messages in own_messages(self._messages(), self.splitter):
            texts.update(key_texts(pipeline.decode(messages).changes.rows, keys).to_pylist())
        return texts

    def _messages(self) -> Iterator[pa.RecordBatch]:
        """Yield the messages between the end of the table's newest epoch and the topics' ends."""
        _, starts = table_end(self.table, self.source_config)
        start_offsets: dict[str, dict[str, int]] = {}
        for (topic, partition_number), start in starts.items():
            if self._has_messages(topic):
                start_offsets.setdefault(topic, {})[str(partition_number)] = start
        with open_topic_reader(self.source_config) as reader:
            newest_offsets = end_offsets(self.source_config, reader.settings)
            ends = {
                topic: topic_offsets
                for topic, topic_offsets in newest_offsets.items()
                if self._has_messages(topic)
            }
            if lost_partitions := vanished_partitions(start_offsets, ends):
                raise WrongSourceError(
                    f"the topics lack what the table has read: {'; '.join(lost_partitions)}",
                    where=self.table.location,
                    fix=RECREATED_FIX,
                )
            yield from reader.read(ranges_between(start_offsets, ends))

    def _has_messages(self, topic: str) -> bool:
        """Return whether a topic may have messages of the table."""
        return not self.topics or topic in self.topics
