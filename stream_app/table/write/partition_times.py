"""Sets records aside whose partition tells no time (``partition.timestamp-format.strict``).

Wraps the format that reads the messages. Paimon's writer fails on such a row; here it is a bad
record like others, which stops the job unless the configuration has a place for it.

Source: Paimon `operation/AbstractFileStoreWrite.java#PartitionTimestampValidator`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.table.write.strict_partitions import StrictPartitions

_REASON = (
    "has a partition that tells no time as the options partition.timestamp-formatter and "
    "partition.timestamp-pattern say: "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPartitions:
    """Implements `message_format.MessageFormat`.

    Attributes:
        messages: reads the messages.
        partitions: tells which ones tell no time.
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
        found = np.flatnonzero(np.isin(partition_of, list(undated)))
        reasons = {
            int(decoded.changes.message_index[row]): _REASON + undated[int(partition_of[row])]
            for row in found
        }
        return decoded.setting_aside(messages, reasons) if reasons else decoded
