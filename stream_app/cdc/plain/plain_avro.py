"""Rows as Avro of a schema registry: the format ``avro``.

Source: Confluent's "Wire format" and `AvroData.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.cdc.plain.registered_declaration import RegisteredDeclaration
from stream_app.cdc.plain.registered_row_decoder import RegisteredRowDecoder
from stream_app.cdc.schema_registry_port import Registries, Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor, cursor_over
from stream_app.cdc.wire.avro.avro_references import avro_text
from stream_app.cdc.wire.avro.avro_types import AvroType, avro_connect_field, parse_schema
from stream_app.cdc.wire.row_schema import SchemaKey, split_by_schema
from stream_app.cdc.wire.wire_format import avro_as_json


@dataclass(frozen=True, slots=True)
class _AvroRowSchema:
    """A schema of rows in Avro. Implements `row_schema.RowSchema`.

    Attributes:
        only_column: the only column, where the schema is not a record.
    """

    text: str
    root: AvroType
    only_column: str

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """See `RowSchema`."""
        if self.only_column:
            return {self.only_column: avro_connect_field(self.root)}
        docs = self.root.docs
        return {
            name: avro_connect_field(field_type, docs.get(name, ""))
            for name, field_type in self.root.fields
        }

    def values(self, messages: pa.Array) -> tuple[ValueCursor, Mapping[str, AvroValues]]:
        """See `RowSchema`."""
        cursor, value = cursor_over(messages, self.root)
        return cursor, {self.only_column: value} if self.only_column else value.fields

    def json_of(self, message: bytes) -> bytes:
        """See `RowSchema`."""
        text = avro_as_json(message, self.text)
        return b"{%b:%b}" % (orjson.dumps(self.only_column), text) if self.only_column else text


class _AvroLanguage:
    """The schemas of Avro. Implements `row_schema.SchemaLanguage`."""

    def split(self, messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """See `SchemaLanguage`."""
        return split_by_schema(messages)

    def schema(self, schemas: Schemas, key: SchemaKey, name: str) -> _AvroRowSchema:
        """See `SchemaLanguage`."""
        [schema_number] = key
        text = avro_text(schemas, schema_number)
        root = parse_schema(text)
        if root.kind == "record":
            return _AvroRowSchema(text, root, "")
        if not name:
            raise UnreadableRecordError(
                f"names schema {schema_number}, which is of type {root.kind}, not a record"
            )
        return _AvroRowSchema(text, root, name)


def plain_avro(registries: Registries) -> FormatDeclaration:
    """Return the format, which asks registries for schemas."""
    return RegisteredDeclaration(
        name="avro",
        registries=registries,
        language=_AvroLanguage(),
        make=partial(RegisteredRowDecoder, "avro", _AvroLanguage()),
    ).declaration()
