"""Sets records aside whose partition can have no folder, because its name would be too long.

Wraps the format that reads the messages. One such value, which anybody may send, would else end
the task that writes it, and the job at each start anew.

Source: Paimon `utils/PartitionPathUtils.java` for names; 255 bytes is the limit of ext4, xfs and,
by default, HDFS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from stream_app.format.partition_path import partition_component

NAME_BYTES_MAX = 255
_ESCAPED_BYTES_MAX = 3
"""What one byte of a value takes in a name at most."""


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
    found = np.flatnonzero(pc.is_in(column, pa.array(refused, column.type)).to_numpy(False))
    reason = (
        f"has a value of the partition column {name!r} whose folder would have a name of more than "
        f"{NAME_BYTES_MAX} bytes"
    )
    return {int(index): reason for index in decoded.changes.message_index[found]}
