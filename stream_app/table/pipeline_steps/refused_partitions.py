"""Quarantines records whose partition cannot be written.

There are two reasons. The folder's name would exceed 255 bytes, the limit of ext4, xfs and HDFS. Or
``partition.timestamp-format.strict`` requires a time, which its values do not give. Without this
step such a record would fail the writing task, and the job at each start.

Source: Paimon `utils/PartitionPathUtils.java`,
`operation/AbstractFileStoreWrite.java#PartitionTimestampValidator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.format.binary_row import deserialize_row, serialize_arrow_row
from stream_app.format.partition_path import partition_component, value_texts
from stream_app.model.options.expire_options import (
    PARTITION_TIMESTAMP_FORMAT_STRICT,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.upkeep.partition_time import PartitionTimeReader, partition_time_reader
from stream_app.table.write.bucket_assigner import row_codes

NAME_BYTES_MAX = 255
_ESCAPED_BYTES_MAX = 3
"""Bytes that one byte of a value takes in a folder's name at most."""
_UNDATED_REASON = (
    "has a partition without a time as the options partition.timestamp-formatter and "
    "partition.timestamp-pattern say: "
)
"""The prefix of a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameablePartitionStep:
    """A step that quarantines partitions with too long names. Implements `pipeline.Step`.

    Attributes:
        partition_keys: the columns whose values name folders.
    """

    partition_keys: tuple[str, ...]

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        reasons: dict[int, str] = {}
        for name in self.partition_keys:
            column = decoded_batch.changes.rows.column(name)
            if pa.types.is_string(column.type):
                reasons |= _name_length_reasons(name, column, decoded_batch)
        return decoded_batch.with_bad_records(messages, reasons)


def nameable_partition_step(schema: TableSchema) -> NameablePartitionStep | None:
    """Return the step of a table; None without partitions."""
    keys = schema.partition_keys
    return NameablePartitionStep(partition_keys=keys) if keys else None


def _name_length_reasons(
    name: str, column: pa.Array, decoded_batch: DecodedBatch
) -> dict[int, str]:
    """Return the reasons by message for partition values whose folders would have long names."""
    length_max = NAME_BYTES_MAX - len(partition_component(name, "").encode())
    value_length = pc.max(pc.binary_length(column)).as_py()
    if value_length is None or value_length * _ESCAPED_BYTES_MAX <= length_max:
        return {}
    # The loop is over partition values, of which there are few.
    long_values = [
        text
        for text in column.unique().to_pylist()
        if text is not None and len(partition_component(name, text).encode()) > NAME_BYTES_MAX
    ]
    indices = np.flatnonzero(pc.is_in(column, pa.array(long_values, column.type)).to_numpy(False))
    reason = (
        f"has a value of the partition column {name!r} whose folder would have a name of more than "
        f"{NAME_BYTES_MAX} bytes"
    )
    return {int(index): reason for index in decoded_batch.changes.message_indices[indices]}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPartitionStep:
    """A step that quarantines partitions without a time. Implements `pipeline.Step`."""

    partition_type: RowType
    time_reader: PartitionTimeReader

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """Test each partition once, and quarantine all records of one without a time."""
        columns = [decoded_batch.changes.rows.column(name) for name in self.partition_type.names]
        if not len(columns[0]):
            return decoded_batch
        codes = row_codes(columns, len(columns[0]))
        _, first_indices, partition_of = np.unique(codes, return_index=True, return_inverse=True)
        # The loop is over partitions, of which there are few.
        texts = [self._undated_partition(columns, index) for index in first_indices.tolist()]
        reasons = (
            {
                int(message): _UNDATED_REASON + text
                for message, partition in zip(
                    decoded_batch.changes.message_indices, partition_of, strict=True
                )
                if (text := texts[partition]) is not None
            }
            if any(text is not None for text in texts)
            else {}
        )
        return decoded_batch.with_bad_records(messages, reasons)

    def _undated_partition(self, columns: Sequence[pa.Array], row_index: int) -> str | None:
        """Return a row's partition as text if its values give no time; else None."""
        names, types = self.partition_type.names, self.partition_type.types
        values = deserialize_row(serialize_arrow_row(columns, types, row_index), types)
        texts = value_texts(values, self.partition_type)
        if self.time_reader.time_ms(names, texts) is not None:
            return None
        return ", ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))


def dated_partition_step(schema: TableSchema) -> DatedPartitionStep | None:
    """Return the step of a table; None if it accepts any partition.

    Raises:
        UsageError: the formatter has an unsupported letter.
    """
    options = schema.core_options
    has_pattern = options[PARTITION_TIMESTAMP_PATTERN] or options[PARTITION_TIMESTAMP_FORMATTER]
    if not (options[PARTITION_TIMESTAMP_FORMAT_STRICT] and schema.partition_keys and has_pattern):
        return None
    return DatedPartitionStep(
        partition_type=schema.partition_type, time_reader=partition_time_reader(options)
    )
