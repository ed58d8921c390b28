"""A format whose batches tell what the table does not have: for tables that follow their source.

Wraps a format where ``unknown-columns`` is ``evolve``. Of a batch it describes the first message of
each schema that messages bring, the first with each unknown column, and the bad records. That is
little beside the batch. It tells only what differs from the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch, whole_messages
from stream_app.cdc.column_drift import DriftKind
from stream_app.cdc.message_format import MessageFormat
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.mapping_options import MappingOptions
from stream_app.model.schema.source_table import SourceTable

BAD_DESCRIBED_MAX = 100
"""Bad records of a batch that are looked at for types which the column does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDecode:
    """Implements `message_format.MessageFormat`.

    Attributes:
        messages: reads the messages.
        describe: as in `message_format.Format`.
        columns: the table's.
    """

    messages: MessageFormat
    describe: Callable[[pa.RecordBatch, MappingOptions], SourceTable | None]
    options: MappingOptions
    columns: RowType

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.messages.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`."""
        decoded = self.messages.decode(messages)
        samples = self._samples(messages, decoded)
        told = self.describe(samples, self.options) if samples.num_rows else None
        if told is None or not differs(told, self.columns):
            return decoded
        return replace(decoded, told=told)

    def _samples(self, messages: pa.RecordBatch, decoded: DecodedBatch) -> pa.RecordBatch:
        first = {
            sighting.first
            for (kind, _), sighting in decoded.columns.items()
            if kind is DriftKind.UNKNOWN
        }
        positions = sorted(first.union(decoded.schemas.values()))
        found = whole_messages(messages.take(pa.array(positions, pa.int32())))
        bad = decoded.bad.slice(0, BAD_DESCRIBED_MAX).select(MESSAGE_SCHEMA.names)
        return pa.concat_batches([found, bad]) if bad.num_rows else found


def differs(told: SourceTable, columns: RowType) -> bool:
    """Whether a source's table has anything that the table may have to follow."""
    there = {column.name: column for column in columns}
    for source in told.columns:
        column = there.get(source.name)
        if column is None:
            return True
        has_other_type = source.data_type.as_nullable() != column.data_type.as_nullable()
        may_be_null = source.data_type.nullable and not column.data_type.nullable
        if source.is_typed and (has_other_type or may_be_null):
            return True
        if source.comment is not None and source.comment != column.description:
            return True
    return told.is_typed and any(
        not column.data_type.nullable and told.column(column.name) is None for column in columns
    )
