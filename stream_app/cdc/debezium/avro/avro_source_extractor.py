"""Extracts the source's facts from Debezium's Avro messages: table, columns, key, change time.

Implements what `message_format.SourceExtractor` declares, with a schema registry.

1. Origins and times are read in columns, all messages of a schema together (`avro_cursor`).
2. Other messages are read one by one, as the JSON that Kafka Connect would have written:
   heartbeats, transaction markers, broken ones.
3. `debezium_description` describes a table's columns. It gets a few messages as JSON, in an
   envelope whose schema is made of the one in the registry.

Source: Paimon `format/debezium/DebeziumAvroRecordParser.java`, `DebeziumSchemaUtils.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int32s, Int64s, bools_of, gathered_array
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import present_values
from stream_app.cdc.debezium.debezium_description import describe, versions_of_schemas
from stream_app.cdc.debezium.debezium_origins import time_of
from stream_app.cdc.debezium.decoding.one_record import (
    ADDED_PREFIX,
    FLAT_FIELDS,
    TABLE_FIELDS,
    origin_in,
)
from stream_app.cdc.message_format import SeenTableVersion
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.source_tables import Origins, origins_of
from stream_app.cdc.wire.avro.avro_columns import avro_texts
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, cursor_over
from stream_app.cdc.wire.avro.avro_references import avro_text
from stream_app.cdc.wire.avro.avro_types import AvroType, avro_connect_field, parse_schema
from stream_app.cdc.wire.wire_format import (
    avro_as_json,
    groups_by_value,
    schema_number_of,
    schema_numbers_of,
)
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable

SLICE_ROWS_MAX = 32_768
"""The most messages that are read together."""
_TIME = "ts_ms"
_FLAT_TIME = f"{ADDED_PREFIX}source_{_TIME}"
_OPS = pa.array(["c", "r", "u", "d", "t"])
_MILLIS = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class AvroSourceExtractor:
    """The functions of a `SourceExtractor` for messages of Avro, by the schemas of a registry.

    Attributes:
        keeps_nulls: whether the connector's converter keeps nulls, instead of sending the DEFAULT.
    """

    schemas: Schemas
    keeps_nulls: bool = False

    def find_origins(self, messages: pa.RecordBatch) -> Origins:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, message_indices = present_values(messages)
        parts: list[list[tuple[Int32s, pa.Array]]] = [[] for _ in TABLE_FIELDS]
        unreadable_reasons: dict[int, str] = {}
        for indices, schema in self._by_schema(values):
            if not isinstance(schema, _SchemaReader):
                unreadable_reasons |= dict.fromkeys(message_indices[indices].tolist(), schema)
                continue
            for slice_indices in _slices(indices):
                part = values.take(pa.array(slice_indices))
                names, is_named = schema.tables(part)
                for name_parts, name in zip(parts, names, strict=True):
                    name_parts.append(
                        (message_indices[slice_indices[is_named]], name.filter(pa.array(is_named)))
                    )
                single_origins, reasons = schema.origins_one_by_one(
                    part.filter(pa.array(~is_named)), message_indices[slice_indices[~is_named]]
                )
                unreadable_reasons |= reasons
                single_indices = np.array(list(single_origins), np.int32)
                for name_parts, field in zip(parts, ("database", "schema", "table"), strict=True):
                    texts = [getattr(origin, field) for origin in single_origins.values()]
                    name_parts.append((single_indices, pa.array(texts, pa.string())))
        database, schema_name, table = (
            gathered_array(name_parts, messages.num_rows, pa.string()) for name_parts in parts
        )
        return origins_of(database, schema_name, table, unreadable_reasons)

    def find_change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, message_indices = present_values(messages)
        parts: list[tuple[Int32s, pa.Array]] = []
        for indices, schema in self._by_schema(values):
            if not isinstance(schema, _SchemaReader):
                continue
            for slice_indices in _slices(indices):
                part = values.take(pa.array(slice_indices))
                timed_indices, times, broken_indices = schema.times(part)
                parts.append((message_indices[slice_indices[timed_indices]], pa.array(times)))
                # step 2: a loop over broken messages.
                single_times = [
                    schema.time_of(part[message_index].as_py())
                    for message_index in broken_indices.tolist()
                ]
                broken_messages = message_indices[slice_indices[broken_indices]]
                parts.append((broken_messages, pa.array(single_times, pa.int64())))
        return gathered_array(parts, messages.num_rows, pa.int64()).view(_MILLIS)

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        as_json = self.as_json(messages, adds_envelope=True)
        return describe(as_json, options, keeps_nulls=self.keeps_nulls)

    def find_versions(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Sequence[SeenTableVersion]:
        """See `message_format.SourceExtractor`. One message shows the columns of its schema.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, message_indices = present_values(messages)
        indices_of_schemas = (
            message_indices[indices].astype(np.int64) for indices, _ in self._by_schema(values)
        )
        return versions_of_schemas(
            messages, indices_of_schemas, partial(self.describe, options=options)
        )

    def as_json(self, messages: pa.RecordBatch, *, adds_envelope: bool) -> pa.RecordBatch:
        """Return a few messages as JSON; null where a value cannot be read.

        Keys in another format stay as they are.

        Args:
            adds_envelope: whether values get the envelope of their schema.
        """
        keys = [self._json(key) or key for key in messages.column("key").to_pylist()]
        values = [
            self._json(value, adds_envelope=adds_envelope)
            for value in messages.column("value").to_pylist()
        ]
        for name, texts in (("key", keys), ("value", values)):
            column_index = messages.schema.get_field_index(name)
            column = pa.array(texts, pa.binary())
            messages = messages.set_column(column_index, pa.field(name, pa.binary()), column)
        return messages

    def _json(self, message: bytes | None, *, adds_envelope: bool = False) -> bytes | None:
        try:
            if message is None:
                return None
            text = avro_text(self.schemas, schema_number_of(message))
            payload = avro_as_json(message, text)
            return _wrap_in_envelope(payload, parse_schema(text)) if adds_envelope else payload
        except UnreadableRecordError:
            return None

    def _by_schema(self, values: pa.Array) -> Iterator[tuple[Int64s, _SchemaReader | str]]:
        """Yield the messages of each schema, or the reason why they cannot be read."""
        for schema_number, indices in groups_by_value(schema_numbers_of(values)):
            schema: _SchemaReader | str
            try:
                text = avro_text(self.schemas, schema_number)
                schema = _SchemaReader(text, parse_schema(text))
            except UnreadableRecordError as problem:
                schema = str(problem)
            yield indices, schema


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    """A reader of the source's facts in the messages of one schema."""

    text: str
    root: AvroType

    def tables(self, values: pa.Array) -> tuple[list[pa.Array], Bools]:
        """Return database, schema and table, strings [n], and the mask of messages with a table."""
        cursor, message = cursor_over(values, self.root)
        is_intact = ~cursor.is_broken()
        source = self._source(message)
        fields = message.fields if source is None else source.fields
        field_names = FLAT_FIELDS if source is None else TABLE_FIELDS
        names = [avro_texts(fields.get(name), cursor, is_intact) for name in field_names]
        is_named = is_intact & bools_of(pc.greater(pc.binary_length(names[-1]), 0))
        if source is not None:
            is_named &= bools_of(
                pc.is_in(avro_texts(message.fields.get("op"), cursor, is_intact), _OPS)
            )
        return names, is_named

    def origins_one_by_one(
        self, values: pa.Array, message_indices: Int32s
    ) -> tuple[dict[int, Origin], dict[int, str]]:
        """Step 2: return index → source table, and index → why a message is unreadable."""
        origins: dict[int, Origin] = {}
        reasons: dict[int, str] = {}
        for message_index, message in zip(
            message_indices.tolist(), values.to_pylist(), strict=True
        ):
            try:
                origin = origin_in(avro_as_json(message, self.text))
            except UnreadableRecordError as problem:
                reasons[message_index] = str(problem)
            else:
                if origin is not None:
                    origins[message_index] = origin
        return origins, reasons

    def times(self, values: pa.Array) -> tuple[Int64s, Int64s, Int64s]:
        """Return the times at which changes were made.

        Returns:
            The messages with a time, and the milliseconds, both int64 [m]; and the messages to
            read by step 2.
        """
        cursor, message = cursor_over(values, self.root)
        source = self._source(message)
        time = message.fields.get(_FLAT_TIME) if source is None else source.fields.get(_TIME)
        is_broken = cursor.is_broken()
        broken_indices = np.flatnonzero(is_broken)
        if (
            time is None
            or time.avro_type is None
            or time.avro_type.kind != "long"
            or time.numeric_values is None
        ):
            return broken_indices[:0], broken_indices[:0], broken_indices
        is_intact = ~is_broken[time.indices]
        return (
            time.indices[is_intact],
            time.numeric_values[is_intact].astype(np.int64),
            broken_indices,
        )

    def time_of(self, message: bytes) -> int | None:
        """Return the change time of one message; step 2."""
        try:
            return time_of(avro_as_json(message, self.text))
        except UnreadableRecordError:
            return None

    def _source(self, message: AvroValues) -> AvroValues | None:
        """Return the field `source` of envelopes; None for flattened messages."""
        names = {name for name, _ in self.root.fields}
        is_envelope = "op" in names and not names.isdisjoint({"before", "after"})
        return message.fields.get("source") if is_envelope else None


def _slices(indices: Int64s) -> Iterator[Int64s]:
    for start in range(0, len(indices), SLICE_ROWS_MAX):
        yield indices[start : start + SLICE_ROWS_MAX]


def _wrap_in_envelope(payload: bytes, root: AvroType) -> bytes:
    return b'{"schema":%b,"payload":%b}' % (orjson.dumps(_connect_struct(root, 1)), payload)


def _connect_struct(record: AvroType, depth: int) -> dict[str, Any]:
    """Return a record's schema as Kafka Connect writes it, with nested fields down to `depth`."""
    docs, defaults = record.docs, record.defaults
    fields = []
    for name, field_type in record.fields:
        column = avro_connect_field(field_type, docs.get(name, ""))
        non_null_type = field_type.without_null()
        is_struct = non_null_type.kind == "record"
        field: dict[str, Any] = {
            "field": name,
            "type": "struct" if is_struct else column.literal,
            "optional": column.optional,
            "name": column.semantic,
            "parameters": column.parameters,
            "doc": column.comment,
            "default": defaults.get(name, non_null_type.attributes.get("connect.default")),
        }
        if is_struct and depth:
            field |= _connect_struct(non_null_type, depth - 1)
        fields.append(field)
    return {"type": "struct", "fields": fields}
