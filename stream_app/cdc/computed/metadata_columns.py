"""Declares metadata columns: a message's place in Kafka, and facts about its source.

Source: Paimon `flink/action/cdc/CdcMetadataConverter.java`, `kafka/KafkaMetadataConverter.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import values_at
from stream_app.cdc.message_format import SourceExtractor
from stream_app.model.schema.data_type import STRING, DataType, TypeRoot

_TIME_TYPE = DataType(root=TypeRoot.TIMESTAMP_LTZ, precision=3)
_MILLIS_TYPE = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A metadata column.

    Attributes:
        read: messages, columns of `MESSAGE_SCHEMA` → the column [n].
        is_stable: whether all changes of one row have the same value, so that it may be in a key.
        needs_time: whether the messages must have the time of a change.
    """

    data_type: DataType
    read: Callable[[pa.RecordBatch, SourceExtractor], pa.Array]
    is_stable: bool = False
    needs_time: bool = False


def _kafka(name: str, messages: pa.RecordBatch, _: SourceExtractor) -> pa.Array:
    return messages.column(name)


def _timestamp(messages: pa.RecordBatch, _: SourceExtractor) -> pa.Array:
    times_ms = messages.column("timestamp").cast(_MILLIS_TYPE, safe=False)
    # Kafka counts -1 where a message has no time.
    is_unknown = pc.less(times_ms.view(pa.int64()), 0)
    return pc.if_else(is_unknown, pa.scalar(None, _MILLIS_TYPE), times_ms)


def _origin(field: str, messages: pa.RecordBatch, source_extractor: SourceExtractor) -> pa.Array:
    origins = source_extractor.find_origins(messages)
    names = pa.array([getattr(table, field) or None for table in origins.tables], pa.string())
    return values_at(names, origins.codes)


def _op_ts(messages: pa.RecordBatch, source_extractor: SourceExtractor) -> pa.Array:
    find_change_times = source_extractor.find_change_times
    assert find_change_times is not None, "a configuration's check refuses such formats"
    return find_change_times(messages)


METADATA: Mapping[str, MetadataColumn] = {
    "database_name": MetadataColumn(
        STRING.not_null(), partial(_origin, "database"), is_stable=True
    ),
    "table_name": MetadataColumn(STRING.not_null(), partial(_origin, "table"), is_stable=True),
    "schema_name": MetadataColumn(STRING.not_null(), partial(_origin, "schema"), is_stable=True),
    "op_ts": MetadataColumn(_TIME_TYPE.not_null(), _op_ts, needs_time=True),
    "topic": MetadataColumn(STRING, partial(_kafka, "topic"), is_stable=True),
    "partition": MetadataColumn(DataType(root=TypeRoot.INT), partial(_kafka, "partition")),
    "offset": MetadataColumn(DataType(root=TypeRoot.BIGINT), partial(_kafka, "offset")),
    "timestamp": MetadataColumn(_TIME_TYPE, _timestamp),
}
