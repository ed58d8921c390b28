"""Wraps a message format, and sets aside the records whose partition cannot be written.

There are two reasons. The folder's name would exceed 255 bytes, the limit of ext4, xfs and HDFS. Or
the partition tells no time, although ``partition.timestamp-format.strict`` demands it. Without the
wrapper such a record would end the writing task, and the job at each start.

Source: Paimon `utils/PartitionPathUtils.java`,
`operation/AbstractFileStoreWrite.java#PartitionTimestampValidator`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.partition_path import partition_component
from stream_app.table.write.strict_partitions import StrictPartitions

NAME_BYTES_MAX = 255
_ESCAPED_BYTES_MAX = 3
"""Bytes that one byte of a value takes in a folder's name at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameablePartitions:
    """Implements `message_format.MessageFormat`.

    Attributes:
        messages: reads the messages.
        partition_keys: columns whose values name folders.
    """

    messages: MessageFormat
    partition_keys: tuple[str, ...]

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.messages.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`."""
        decoded = self.messages.decode(messages)
        reasons: dict[int, str] = {}
        for name in self.partition_keys:
            column = decoded.changes.rows.column(name)
            if pa.types.is_string(column.type):
                reasons |= _too_long(name, column, decoded)
        return decoded.setting_aside(messages, reasons) if reasons else decoded


def _too_long(name: str, column: pa.Array, decoded: DecodedBatch) -> dict[int, str]:
    room = NAME_BYTES_MAX - len(partition_component(name, "").encode())
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is None or longest * _ESCAPED_BYTES_MAX <= room:
        return {}
    # A loop over the values of partitions, of which there are few.
    refused = [
        text
        for text in column.unique().to_pylist()
        if text is not None and len(partition_component(name, text).encode()) > NAME_BYTES_MAX
    ]
    rows = np.flatnonzero(pc.is_in(column, pa.array(refused, column.type)).to_numpy(False))
    reason = (
        f"has a value of the partition column {name!r} whose folder would have a name of more than "
        f"{NAME_BYTES_MAX} bytes"
    )
    return {int(index): reason for index in decoded.changes.message_index[rows]}


_REASON = (
    "has a partition that tells no time as the options partition.timestamp-formatter and "
    "partition.timestamp-pattern say: "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPartitions:
    """Implements `message_format.MessageFormat`.

    Attributes:
        messages: reads the messages.
        partitions: finds the partitions that tell no time.
    """

    messages: MessageFormat
    partitions: StrictPartitions

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.messages.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`."""
        decoded = self.messages.decode(messages)
        row_type = self.partitions.partition_type
        columns = [decoded.changes.rows.column(name) for name in row_type.names]
        if not len(columns[0]):
            return decoded
        codes = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        _, first, partition_of = np.unique(codes, return_index=True, return_inverse=True)
        # A loop over partitions, of which there are few.
        undated = {
            number: text
            for number, row in enumerate(first.tolist())
            if (text := self.partitions.undated(serialize_arrow_row(columns, row_type.types, row)))
            is not None
        }
        rows = np.flatnonzero(np.isin(partition_of, list(undated)))
        reasons = {
            int(decoded.changes.message_index[row]): _REASON + undated[int(partition_of[row])]
            for row in rows
        }
        return decoded.setting_aside(messages, reasons) if reasons else decoded
