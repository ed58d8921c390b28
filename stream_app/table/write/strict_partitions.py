"""How a table's partitions tell their time, and whether each written partition must.

Source: Paimon `partition/PartitionTimeExtractor.java`,
`operation/AbstractFileStoreWrite.java#PartitionTimestampValidator`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.format.binary_row import deserialize_row
from stream_app.format.partition_path import value_texts
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.expire_options import (
    PARTITION_TIMESTAMP_FORMAT_STRICT,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.upkeep.partition_time import PartitionTime, partition_time

_WAYS = (PARTITION_TIMESTAMP_PATTERN, PARTITION_TIMESTAMP_FORMATTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictPartitions:
    """Partitions that all tell their time (``partition.timestamp-format.strict``)."""

    partition_type: RowType
    time: PartitionTime

    def undated(self, partition: bytes) -> str | None:
        """The partition's text when it tells no time; else None."""
        names, types = self.partition_type.names, self.partition_type.types
        texts = value_texts(deserialize_row(partition, types), self.partition_type)
        if self.time.millis(names, texts) is not None:
            return None
        return ", ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))


def time_of_partitions(options: CoreOptions) -> PartitionTime:
    """The parser of partition times.

    Raises:
        UsageError: the formatter has an unsupported letter.
    """
    pattern, formatter = (options[option] or None for option in _WAYS)
    return partition_time(pattern, formatter)


def strict_partitions(schema: TableSchema) -> StrictPartitions | None:
    """The rule for a table's partitions; None: the table takes any partition.

    Raises:
        UsageError: the formatter has an unsupported letter.
    """
    options = schema.core_options
    is_strict = options[PARTITION_TIMESTAMP_FORMAT_STRICT]
    if not (is_strict and schema.partition_keys and any(options[option] for option in _WAYS)):
        return None
    return StrictPartitions(partition_type=schema.partition_type, time=time_of_partitions(options))
