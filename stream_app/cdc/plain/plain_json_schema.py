"""Rows as JSON with a schema of a registry: the format ``json-schema``.

Source: Confluent's "JSON Schema Serializer" and `JsonSchemaData.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import orjson
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.change_batch import schema_of_changes
from stream_app.cdc.column_drift import DriftReaction
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.json_message import load_document
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.dialect_format import DialectDecoder
from stream_app.cdc.json_records.json_options import (
    MISSING_COLUMNS,
    UNKNOWN_COLUMNS,
    CheckedOptions,
    texts_and_numbers,
)
from stream_app.cdc.message_format import FormatDeclaration, FormatSetup, MessageFormat
from stream_app.cdc.plain.key_options import KEY_COLUMNS, deletes_by_tombstones, has_text_keys
from stream_app.cdc.plain.plain_json import PlainDialect
from stream_app.cdc.plain.registered_declaration import RegisteredDeclaration
from stream_app.cdc.schema_registry_port import Registries, Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField, struct_columns
from stream_app.cdc.wire.headed_json import NO_SCHEMA, HeadedJsonFormat
from stream_app.cdc.wire.json_schemas import connect_struct
from stream_app.cdc.wire.row_schema import SchemaKey, split_by_schema
from stream_app.cdc.wire.wire_format import HEAD

_NAME = "json-schema"
_KEY_DRIFT_OPTIONS = dict.fromkeys((UNKNOWN_COLUMNS, MISSING_COLUMNS), DriftReaction.IGNORE.value)
"""Options for keys, which have only some of the table's columns, and may have others."""


@dataclass(frozen=True, slots=True)
class _JsonRowSchema:
    """A schema of rows in JSON. Implements `row_schema.DescribedRows`.

    Attributes:
        name: the only column of a value that is not an object.
    """

    fields: Mapping[str, ConnectField]
    name: str

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """See `DescribedRows`."""
        return self.fields

    def json_of(self, message: bytes) -> bytes:
        """See `DescribedRows`."""
        body = message[HEAD.size :]
        document = load_document(body)
        if self.name and not isinstance(document, dict):
            return b"{%b:%b}" % (orjson.dumps(self.name), body)
        return body


class _JsonSchemaLanguage:
    """The schemas of JSON Schema. Implements `row_schema.SchemaLanguage`."""

    def split(self, messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """See `SchemaLanguage`."""
        return split_by_schema(messages)

    def schema(self, schemas: Schemas, key: SchemaKey, name: str) -> _JsonRowSchema:
        """See `SchemaLanguage`."""
        [schema_number] = key
        return _JsonRowSchema(struct_columns(connect_struct(schemas, schema_number)), name)


def _headed_json(
    schemas: Schemas, setup: FormatSetup, checked_options: CheckedOptions
) -> HeadedJsonFormat:
    primary_key = frozenset(setup.primary_keys)
    deletes = deletes_by_tombstones(checked_options, setup.traits) and bool(primary_key)
    key_options = replace(checked_options, values={**checked_options.values, **_KEY_DRIFT_OPTIONS})
    row_dialect = PlainDialect(checked_options.values[KEY_COLUMNS])
    return HeadedJsonFormat(
        make=partial(_format, schemas, setup, checked_options, row_dialect),
        make_deletes=partial(_format, schemas, setup, key_options, PlainDialect(reads_deletes=True))
        if deletes
        else None,
        key_name=min(primary_key) if len(primary_key) == 1 else "",
        schema=schema_of_changes(setup.arrow_schema),
        text_keys=_key_name(checked_options, primary_key) if has_text_keys(checked_options) else "",
    )


def _key_name(checked_options: CheckedOptions, primary_key: frozenset[str]) -> str:
    """Return the column of a key that is one text; "text" for a key of several columns."""
    key_names = checked_options.values[KEY_COLUMNS] or primary_key
    return min(key_names) if len(key_names) == 1 else "text"


def _format(
    schemas: Schemas,
    setup: FormatSetup,
    checked_options: CheckedOptions,
    dialect: PlainDialect,
    schema_number: int,
) -> MessageFormat:
    fields = (
        {} if schema_number == NO_SCHEMA else struct_columns(connect_struct(schemas, schema_number))
    )
    encoding = partial(texts_and_numbers, binary=Encoding.BASE64)
    return DialectDecoder(dialect, _NAME, setup, checked_options, encoding, fields)


def plain_json_schema(registries: Registries) -> FormatDeclaration:
    """Return the format, which asks registries for schemas."""
    return RegisteredDeclaration(
        name=_NAME,
        registries=registries,
        language=_JsonSchemaLanguage(),
        make=_headed_json,
        extra_options=(DECODER_OPTION,),
    ).declaration()
