"""Finds quarantined records that are overtaken: the table has a newer change of their row.

`record_replay` calls it. It reads the topics again, from each record up to the offsets that the
table's jobs have read, and compares rows by key. It skips the other quarantined records, because
the table does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.topic_messages import open_topic_reader
from stream_app.arrow_buffers import Bools, bools_of
from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import UsageError
from stream_app.kafka.offset_ranges import KafkaPartition, OffsetRange

ReadRange = Callable[[KafkaPartition, int, int], Iterator[pa.RecordBatch]]
"""Reads the messages of a partition between two offsets, excluding the second."""

_ROW, _OFFSET, _RECORD_OFFSET = "\0row", "\0offset", "\0record offset"


@dataclass(frozen=True, slots=True)
class LaterChangeCheck:
    """A check of quarantined changes for later changes of the same rows.

    Attributes:
        read_range: reads the messages of a partition between two offsets.
        message_format: decodes messages without the table's filter, because a row that the filter
            drops is a newer state too.
        ends: partition → the offset up to which jobs have read it.
        unresolved_offsets: partition → offsets of the unresolved records.
        merges_by_key: whether a newer change replaces a row; if not, only a TRUNCATE overtakes it.
    """

    read_range: ReadRange
    message_format: MessageFormat
    primary_keys: tuple[str, ...]
    ends: Mapping[KafkaPartition, int]
    unresolved_offsets: Mapping[KafkaPartition, Collection[int]]
    merges_by_key: bool = True

    def is_overtaken(
        self, kafka_partition: KafkaPartition, rows: pa.RecordBatch, offsets: pa.Array
    ) -> Bools:
        """Return which of one partition's rows have a newer change or a later TRUNCATE: bool [n].

        Args:
            rows: rows in columns of the table.
            offsets: int64 [n], the offset of each row's message.

        Raises:
            UsageError: a later message cannot be read, so a newer change cannot be ruled out.
            SourceError: the topic has deleted some of the messages.
        """
        is_overtaken = np.zeros(rows.num_rows, np.bool_)
        if not rows.num_rows:
            return is_overtaken
        record_rows = pa.table(
            [*(rows.column(name) for name in self.primary_keys), np.arange(rows.num_rows), offsets],
            [*self.primary_keys, _ROW, _RECORD_OFFSET],
        )
        start = pc.min(offsets).as_py() + 1
        for batch in self.read_range(kafka_partition, start, self.ends[kafka_partition]):
            messages = self._without_unresolved(kafka_partition, batch)
            decoded_batch = self._decode(kafka_partition, messages)
            if decoded_batch.last_truncate is not None:
                emptied_at = messages.column("offset")[decoded_batch.last_truncate]
                is_overtaken |= bools_of(pc.less(offsets, emptied_at))
            later_keys = self._changes(messages, decoded_batch)
            if self.merges_by_key and later_keys.num_rows:
                newest_changes = later_keys.group_by(self.primary_keys).aggregate(
                    [(_OFFSET, "max")]
                )
                row_pairs = record_rows.join(
                    newest_changes, list(self.primary_keys), join_type="inner"
                )
                newer_pairs = row_pairs.filter(
                    pc.greater(row_pairs.column(f"{_OFFSET}_max"), row_pairs.column(_RECORD_OFFSET))
                )
                is_overtaken[newer_pairs.column(_ROW).to_numpy()] = True
        return is_overtaken

    def _without_unresolved(
        self, kafka_partition: KafkaPartition, messages: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the messages that do not wait in the quarantine."""
        offsets = pa.array(sorted(self.unresolved_offsets.get(kafka_partition, ())), pa.int64())
        return messages.filter(pc.invert(pc.is_in(messages.column("offset"), offsets)))

    def _decode(self, kafka_partition: KafkaPartition, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode messages whose changes the table has already."""
        decoded_batch = self.message_format.decode(messages)
        if decoded_batch.bad_records.num_rows:
            topic, partition_number = kafka_partition
            raise UsageError(
                "a message after the record cannot be decoded "
                f"({decoded_batch.bad_records.column('reason')[0]}), so it is not certain which "
                "rows have newer changes",
                where=f"topic {topic}, partition {partition_number}, offset "
                f"{decoded_batch.bad_records.column('offset')[0]}",
                fix="give the job the configuration with which it has read that message",
            )
        return decoded_batch

    def _changes(self, messages: pa.RecordBatch, decoded_batch: DecodedBatch) -> pa.Table:
        """Return the key and the message's offset of each row in these messages."""
        changes = decoded_batch.changes
        message_offsets = messages.column("offset").take(pa.array(changes.message_indices))
        keys = [changes.rows.column(name) for name in self.primary_keys]
        return pa.table([*keys, message_offsets], [*self.primary_keys, _OFFSET])


def topic_reader(source_config: SourceConfig) -> ReadRange:
    """Return a reader of topic ranges, with the settings of the job's reader."""

    def read_range(
        kafka_partition: KafkaPartition, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        if start >= end:
            return
        with open_topic_reader(source_config) as reader:
            oldest_offset, newest_offset = reader.offset_bounds(*kafka_partition)
            if oldest_offset > start:
                raise _lost_error(kafka_partition, start, oldest_offset)
            if newest_offset < end:
                raise _recreated_error(kafka_partition, newest_offset, end)
            yield from reader.read([OffsetRange(*kafka_partition, start, end)])

    return read_range


def _recreated_error(kafka_partition: KafkaPartition, newest_offset: int, end: int) -> UsageError:
    topic, partition_number = kafka_partition
    return UsageError(
        f"the topic ends at {newest_offset}, and the table has read up to {end}: it was recreated",
        where=f"topic {topic}, partition {partition_number}",
        fix="drop the records; correct their rows at the source, whose next change brings them",
    )


def _lost_error(kafka_partition: KafkaPartition, start: int, oldest_offset: int) -> UsageError:
    topic, partition_number = kafka_partition
    return UsageError(
        f"the topic has dropped its offsets {start} to {oldest_offset - 1}, so it is not certain "
        "which rows have newer changes in the table",
        where=f"topic {topic}, partition {partition_number}",
        fix=f"choose records from offset {oldest_offset - 1} on (--offset); correct older rows at "
        "their source, whose next change brings them",
    )
