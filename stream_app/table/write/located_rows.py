"""Wraps a message format, where a change need not name its row's partition, and where it must.

`NamedPartitions` is for tables whose changes find their rows by an index of keys. `LookupHints` is
for those that could have one: it tells so beside the reason of a record that lacks its partition.

Source: none. Paimon's Flink jobs expect whole before-images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.cdc.change_batch import ROW_KIND, DecodedBatch
from stream_app.cdc.columns.arrow_buffers import valid_of
from stream_app.cdc.message_format import MessageFormat
from stream_app.model.options.cross_partition_options import PARTITION_LOOKUP
from stream_app.model.schema.index_problems import index_problems
from stream_app.model.schema.table_schema import TableSchema

_LACKS = re.compile(r"primary key column '(?P<name>[^']+)' is (?:null|missing) in the before-image")
_HINT = f"; with the option {PARTITION_LOOKUP.key} = true the rest of the key finds the row"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """Implements `message_format.MessageFormat`: a row that stays names its whole partition.

    Attributes:
        messages: reads the messages, and lets partition columns be null.
        required: partition columns that are NOT NULL in the table.
    """

    messages: MessageFormat
    required: tuple[str, ...]

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.messages.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`."""
        decoded = self.messages.decode(messages)
        rows, reasons = decoded.changes.rows, dict[int, str]()
        for name in self.required:
            column = rows.column(name)
            if column.null_count:
                stays = (rows.column(ROW_KIND).to_numpy() & 1) == 0
                lacking = decoded.changes.message_index[stays & ~valid_of(column)]
                reasons |= dict.fromkeys(lacking.tolist(), f"NOT NULL column {name!r} is null")
        return decoded.setting_aside(messages, reasons) if reasons else decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupHints:
    """Implements `message_format.MessageFormat`: reasons tell of the option that would help.

    Attributes:
        partition_keys: columns of the partition, all of them in the primary key.
    """

    messages: MessageFormat
    partition_keys: frozenset[str]

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.messages.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`."""
        decoded = self.messages.decode(messages)
        if not decoded.bad.num_rows:
            return decoded
        at = decoded.bad.schema.get_field_index("reason")
        texts = [self._told(text) for text in decoded.bad.column(at).to_pylist()]
        bad = decoded.bad.set_column(at, decoded.bad.schema.field(at), pa.array(texts, pa.string()))
        return replace(decoded, bad=bad)

    def _told(self, reason: str) -> str:
        match = _LACKS.match(reason)
        return reason + _HINT if match and match["name"] in self.partition_keys else reason


def could_look_up(schema: TableSchema) -> bool:
    """Whether a table can have the option that finds rows without their partition."""
    options = {**schema.options, PARTITION_LOOKUP.key: "true"}
    return not [*index_problems(schema.primary_keys, schema.partition_keys, options)]


def required_partition_keys(schema: TableSchema) -> tuple[str, ...]:
    """The partition columns that cannot be null."""
    fields = schema.partition_type
    return tuple(field.name for field in fields if not field.data_type.nullable)
