"""What Debezium's messages of Avro tell of their source: table, columns, key, time of the change.

Implements what `message_format.SourceReader` declares, with a schema registry.

1. Origins and times are read in columns, all messages of a schema together (`walk`).
2. Messages that do not tell so are read one by one, as the JSON that Kafka Connect would have
   written: heartbeats, transaction markers, broken ones.
3. A table's columns are described by `debezium.description`. It gets a few messages as JSON, in the
   envelope of a schema that is made of the one in the registry.

Source: Paimon `format/debezium/DebeziumAvroRecordParser.java`, `DebeziumSchemaUtils.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import (
    Bools,
    Int64s,
    bools_of,
    bytes_of,
    offsets_of,
    valid_of,
)
from stream_app.cdc.debezium.avro.avro_columns import texts_of
from stream_app.cdc.debezium.avro.avro_json import json_of
from stream_app.cdc.debezium.avro.avro_schema import AvroType, connect_field, parse_schema
from stream_app.cdc.debezium.avro.walk import Values, Walk
from stream_app.cdc.debezium.avro.wire_format import HEAD, by_number, schema_number, schema_numbers
from stream_app.cdc.debezium.description import describe
from stream_app.cdc.debezium.origins import time_of
from stream_app.cdc.debezium.record_reader import ADDED_PREFIX, TABLE_FIELDS, origin_in
from stream_app.cdc.message_format import ToldTable
from stream_app.cdc.record_images import UnreadableRecordError
from stream_app.cdc.schemas import Schemas
from stream_app.cdc.source_tables import Origins, origins_of
from stream_app.model.schema.mapping_options import MappingOptions
from stream_app.model.schema.source_table import SourceTable

SLICE_ROWS = 32_768
"""So many messages are read together, at most."""
_TIME = "ts_ms"
_FLAT_TIME = f"{ADDED_PREFIX}source_{_TIME}"
_OPS = pa.array(["c", "r", "u", "d", "t"])
_MILLIS = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class AvroSource:
    """What messages tell of their source, by the schemas of a registry.

    Attributes:
        keeps_nulls: as in `description.describe`.
    """

    registry: Schemas
    keeps_nulls: bool = False

    def origins(self, messages: pa.RecordBatch) -> Origins:
        """See `message_format.SourceReader`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, index = _present(messages)
        told = [_Texts(messages.num_rows) for _ in TABLE_FIELDS]
        unreadable: dict[int, str] = {}
        for rows, schema in self._by_schema(values):
            if not isinstance(schema, _Schema):
                unreadable |= dict.fromkeys(index[rows].tolist(), schema)
                continue
            for some in _slices(rows):
                part = values.take(pa.array(some))
                names, sure = schema.tables(part)
                for text, name in zip(told, names, strict=True):
                    text.put(index[some[sure]], name.filter(pa.array(sure)))
                odd = np.flatnonzero(~sure)
                for at, message in zip(
                    index[some[odd]].tolist(), part.take(pa.array(odd)).to_pylist(), strict=True
                ):  # step 2
                    try:
                        origin = origin_in(json_of(message, schema.text))
                    except UnreadableRecordError as problem:
                        unreadable[at] = str(problem)
                        continue
                    if origin is not None:
                        parts = (origin.database, origin.schema, origin.table)
                        for text, one in zip(told, parts, strict=True):
                            text.put(np.array([at]), pa.array([one]))
        database, schema_name, table = (text.column() for text in told)
        return origins_of(database, schema_name, table, unreadable)

    def change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceReader`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, index = _present(messages)
        millis = np.zeros(messages.num_rows, np.int64)
        known = np.zeros(messages.num_rows, np.bool_)
        for rows, schema in self._by_schema(values):
            for some in _slices(rows) if isinstance(schema, _Schema) else ():
                assert isinstance(schema, _Schema)
                part = values.take(pa.array(some))
                found, numbers, odd = schema.times(part)
                places = index[some[found]]
                millis[places], known[places] = numbers, True
                for at in odd.tolist():  # step 2
                    told = schema.time_of(part[at].as_py())
                    if told is not None:
                        millis[index[some[at]]], known[index[some[at]]] = told, True
        return pa.array(millis, mask=~known).view(_MILLIS)

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceReader`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        as_json = self.as_json(messages, with_schema=True)
        return describe(as_json, options, keeps_nulls=self.keeps_nulls)

    def versions(self, messages: pa.RecordBatch, options: MappingOptions) -> Sequence[ToldTable]:
        """See `message_format.SourceReader`. One message tells the columns of its schema.

        Raises:
            SourceError: the schema registry does not answer.
        """
        values, index = _present(messages)
        found: list[ToldTable] = []
        for rows, _ in self._by_schema(values):  # a loop over schemas
            at = index[rows]
            each = (self.describe(messages.slice(first, 1), options) for first in at.tolist())
            if (table := next(filter(None, each), None)) is not None:
                found.append(ToldTable(at, table))
        return found

    def as_json(self, messages: pa.RecordBatch, *, with_schema: bool) -> pa.RecordBatch:
        """A few messages as JSON; null where a value cannot be read. Other keys stay as they are.

        Args:
            with_schema: whether values get the envelope of their schema.
        """
        keys = [self._json(each) or each for each in messages.column("key").to_pylist()]
        values = [
            self._json(each, with_schema=with_schema)
            for each in messages.column("value").to_pylist()
        ]
        for name, texts in (("key", keys), ("value", values)):
            at = messages.schema.get_field_index(name)
            column = pa.array(texts, pa.binary())
            messages = messages.set_column(at, pa.field(name, pa.binary()), column)
        return messages

    def _json(self, message: bytes | None, *, with_schema: bool = False) -> bytes | None:
        try:
            if message is None:
                return None
            text = self.registry.schema(schema_number(message))
            payload = json_of(message, text)
            return _enveloped(payload, parse_schema(text)) if with_schema else payload
        except UnreadableRecordError:
            return None

    def _by_schema(self, values: pa.Array) -> Iterator[tuple[Int64s, _Schema | str]]:
        """The messages of each schema, or why they cannot be read."""
        for number, rows in by_number(schema_numbers(values)):
            found: _Schema | str
            try:
                text = self.registry.schema(number)
                found = _Schema(text, parse_schema(text))
            except UnreadableRecordError as problem:
                found = str(problem)
            yield rows, found


@dataclass(frozen=True, slots=True)
class _Schema:
    text: str
    root: AvroType

    def tables(self, values: pa.Array) -> tuple[list[pa.Array], Bools]:
        """Strings [n] of database, schema and table; bool [n]: which messages tell so."""
        walk, found = self._walked(values)
        kept = ~walk.broken()
        source = self._source(found)
        prefix = "" if source is not None else ADDED_PREFIX
        told = found.fields if source is None else source.fields
        names = [texts_of(told.get(f"{prefix}{name}"), walk, kept) for name in TABLE_FIELDS]
        sure = kept & bools_of(pc.greater(pc.binary_length(names[-1]), 0))
        if source is not None:
            sure &= bools_of(pc.is_in(texts_of(found.fields.get("op"), walk, kept), _OPS))
        return names, sure

    def times(self, values: pa.Array) -> tuple[Int64s, Int64s, Int64s]:
        """When changes were made.

        Returns:
            Messages that tell it, the milliseconds, both int64 [m]; and messages to read alone.
        """
        walk, found = self._walked(values)
        source = self._source(found)
        told = found.fields.get(_FLAT_TIME) if source is None else source.fields.get(_TIME)
        broken = walk.broken()
        odd = np.flatnonzero(broken)
        if told is None or told.of is None or told.of.kind != "long" or told.numbers is None:
            return odd[:0], odd[:0], odd
        kept = ~broken[told.rows]
        return told.rows[kept], told.numbers[kept].astype(np.int64), odd

    def time_of(self, message: bytes) -> int | None:
        """Step 2."""
        try:
            return time_of(json_of(message, self.text))
        except UnreadableRecordError:
            return None

    def _walked(self, values: pa.Array) -> tuple[Walk, Values]:
        """Step 1."""
        offsets = offsets_of(values).astype(np.int64)
        walk = Walk(bytes_of(values)[: offsets[-1]], offsets[:-1] + HEAD.size, offsets[1:])
        return walk, walk.read(self.root, np.arange(len(values)))

    def _source(self, found: Values) -> Values | None:
        """The field `source` of whole messages; None: they are flattened, or no rows."""
        names = {name for name, _ in self.root.fields}
        is_envelope = "op" in names and not names.isdisjoint({"before", "after"})
        return found.fields.get("source") if is_envelope else None


def _present(messages: pa.RecordBatch) -> tuple[pa.Array, Int64s]:
    values = messages.column("value")
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    return values.drop_null(), np.flatnonzero(valid_of(values))


def _slices(rows: Int64s) -> Iterator[Int64s]:
    for at in range(0, len(rows), SLICE_ROWS):
        yield rows[at : at + SLICE_ROWS]


class _Texts:
    """A text for some of n messages."""

    def __init__(self, count: int) -> None:
        self._places = np.full(count, -1, np.int64)
        self._parts = [pa.array([], pa.string())]
        self._count = 0

    def put(self, rows: Int64s, texts: pa.Array) -> None:
        """Note the texts of these messages."""
        self._places[rows] = self._count + np.arange(len(rows))
        self._parts.append(texts)
        self._count += len(rows)

    def column(self) -> pa.Array:
        """Strings [n]."""
        wanted = pa.array(np.maximum(self._places, 0), mask=self._places < 0)
        return pa.concat_arrays(self._parts).take(wanted)


def _enveloped(payload: bytes, root: AvroType) -> bytes:
    return b'{"schema":%b,"payload":%b}' % (orjson.dumps(_connect_struct(root, 1)), payload)


def _connect_struct(record: AvroType, depth: int) -> dict[str, Any]:
    """A record's schema as Kafka Connect writes it; fields of fields down to `depth`."""
    docs, defaults = record.docs, record.defaults
    fields = []
    for name, declared in record.fields:
        told = connect_field(declared, docs.get(name, ""))
        inner = declared.without_null()
        is_struct = inner.kind == "record"
        field: dict[str, Any] = {
            "field": name,
            "type": "struct" if is_struct else told.literal,
            "optional": told.optional,
            "name": told.semantic,
            "parameters": told.parameters,
            "doc": told.comment,
            "default": defaults.get(name, inner.told.get("connect.default")),
        }
        if is_struct and depth:
            field |= _connect_struct(inner, depth - 1)
        fields.append(field)
    return {"type": "struct", "fields": fields}
