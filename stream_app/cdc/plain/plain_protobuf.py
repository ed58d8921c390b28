"""Rows as Protobuf of a schema registry: the format ``protobuf``.

Messages are read in columns (`wire.protobuf.protobuf_cursor`). Google's library reads the others:
those with repeated fields, maps or other messages in a column of the table.

Source: Confluent's "Wire format" and `ProtobufData.java`; Protobuf's "ProtoJSON Format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.json_records.json_options import CheckedOptions
from stream_app.cdc.message_format import FormatDeclaration, FormatSetup
from stream_app.cdc.plain.protobuf_values import protobuf_document
from stream_app.cdc.plain.registered_declaration import RegisteredDeclaration
from stream_app.cdc.plain.registered_row_decoder import RegisteredRowDecoder
from stream_app.cdc.schema_registry_port import HEADERS, HeaderKind, Registries, Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.avro.avro_cursor import AvroValues
from stream_app.cdc.wire.protobuf.protobuf_cursor import ProtobufCursor, protobuf_cursor
from stream_app.cdc.wire.protobuf.protobuf_fields import (
    ProtobufField,
    protobuf_connect_field,
    protobuf_fields_of,
)
from stream_app.cdc.wire.protobuf.protobuf_schemas import check_protoc, message_class
from stream_app.cdc.wire.registry_options import header_kind
from stream_app.cdc.wire.row_schema import SchemaKey
from stream_app.cdc.wire.wire_format import groups_by_value, schema_numbers_of
from stream_app.errors import UsageError

_NAME = "protobuf"


@dataclass(frozen=True, slots=True)
class _ProtobufRowSchema:
    """A schema of rows in Protobuf. Implements `row_schema.RowSchema`.

    Attributes:
        message_class: Google's class of the messages.
    """

    schema_number: int
    message_class: Any
    fields: tuple[ProtobufField, ...]

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """See `RowSchema`."""
        return {field.name: protobuf_connect_field(field) for field in self.fields}

    def values(self, messages: pa.Array) -> tuple[ProtobufCursor, Mapping[str, AvroValues]]:
        """See `RowSchema`."""
        cursor = protobuf_cursor(messages)
        cursor.read_paths()
        return cursor, cursor.read_fields(self.fields)

    def json_of(self, message: bytes) -> bytes:
        """See `RowSchema`."""
        cursor = protobuf_cursor(pa.array([message], pa.binary()))
        cursor.read_paths()
        document = protobuf_document(
            self.message_class, message[int(cursor.positions[0]) :], self.schema_number
        )
        return json.dumps(document, ensure_ascii=False).encode()


class _ProtobufLanguage:
    """The schemas of Protobuf. Implements `row_schema.SchemaLanguage`."""

    def split(self, messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """See `SchemaLanguage`; the key has the indices of the message's type."""
        for schema_number, rows in groups_by_value(schema_numbers_of(messages)):
            if schema_number < 0:
                yield (schema_number,), rows
                continue
            paths = protobuf_cursor(messages.take(pa.array(rows))).read_paths()
            if (paths == paths[0]).all():
                yield (schema_number, *_path(paths[0])), rows
                continue
            distinct_paths, type_indices = np.unique(paths, axis=0, return_inverse=True)
            # The loop is over types.
            for type_index, type_rows in groups_by_value(type_indices.reshape(-1)):
                yield (schema_number, *_path(distinct_paths[type_index])), rows[type_rows]

    def schema(self, schemas: Schemas, key: SchemaKey, name: str) -> _ProtobufRowSchema:
        """See `SchemaLanguage`; each message is a record, whatever the name."""
        del name
        schema_number, *path = key
        message = message_class(schemas, schema_number, path)
        return _ProtobufRowSchema(schema_number, message, _fields(message))


@lru_cache(maxsize=256)
def _fields(message: Any) -> tuple[ProtobufField, ...]:
    return tuple(protobuf_fields_of(message.DESCRIPTOR))


def _path(padded_path: Int64s) -> list[int]:
    path: list[int] = padded_path[padded_path >= 0].tolist()
    return path


def _format(
    schemas: Schemas, setup: FormatSetup, checked_options: CheckedOptions
) -> RegisteredRowDecoder:
    check_protoc(_NAME)
    if header_kind(setup.options) is HeaderKind.APICURIO:
        raise UsageError(
            f"options of {_NAME} are wrong: {HEADERS}: Apicurio's messages of Protobuf do not say "
            "of which type they are as others do",
            where=f"source.{_NAME}",
            fix="let the serializer write numbers into the messages "
            "(apicurio.registry.headers.enabled = false)",
        )
    return RegisteredRowDecoder(_NAME, _ProtobufLanguage(), schemas, setup, checked_options)


def plain_protobuf(registries: Registries) -> FormatDeclaration:
    """Return the format, which asks registries for schemas."""
    return RegisteredDeclaration(
        name=_NAME, registries=registries, language=_ProtobufLanguage(), make=_format
    ).declaration()
