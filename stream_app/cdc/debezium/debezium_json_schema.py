"""Debezium's messages as JSON with a schema of a registry: the format ``debezium-json-schema``.

`HeadedJsonFormat` cuts the heads off, and `debezium_json` decodes the rest, by the types of the
schema.

Source: Confluent's `JsonSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import orjson
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import present_values, schema_of_changes
from stream_app.cdc.debezium.debezium_description import describe, versions_of_schemas
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON, DebeziumJson
from stream_app.cdc.debezium.debezium_options import (
    JSON_OPTIONS,
    SECTION,
    DebeziumOptions,
    has_whole_before,
    keeps_nulls,
    parse_options,
)
from stream_app.cdc.debezium.debezium_origins import change_times, debezium_origins
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    MessageFormat,
    SeenTableVersion,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.schema_registry_port import Registries, Schemas
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.source_types.connect_fields import connect_fields
from stream_app.cdc.wire.headed_json import HeadedJsonFormat, without_heads
from stream_app.cdc.wire.json_schemas import connect_struct
from stream_app.cdc.wire.registry_options import (
    REGISTRY_OPTIONS,
    check_urls,
    registry_schemas,
    without_registry,
)
from stream_app.cdc.wire.wire_format import groups_by_value, schema_numbers_of
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_NAME = "debezium-json-schema"
_OPTIONS = (*REGISTRY_OPTIONS, *JSON_OPTIONS)


def _parse_options(
    registries: Registries, options: Mapping[str, str], columns: RowType
) -> DebeziumOptions:
    checked_options = parse_options(options, columns, _NAME, _OPTIONS)
    check_urls(_NAME, SECTION, registries, options)
    return checked_options


def _headed_json(registries: Registries, setup: FormatSetup) -> HeadedJsonFormat:
    checked_options = _parse_options(registries, setup.options, setup.columns)
    schemas = registry_schemas(_NAME, SECTION, registries, setup.options)
    return HeadedJsonFormat(
        make=partial(_format, schemas, setup, checked_options),
        make_deletes=None,
        key_name="",
        schema=schema_of_changes(setup.arrow_schema),
    )


def _format(
    schemas: Schemas, setup: FormatSetup, checked_options: DebeziumOptions, schema_number: int
) -> MessageFormat:
    return DebeziumJson(
        setup, checked_options, connect_fields(connect_struct(schemas, schema_number))
    )


@dataclass(frozen=True, slots=True)
class _JsonSchemaSourceExtractor:
    """The functions of a `SourceExtractor`, by the schemas of a registry."""

    schemas: Schemas
    keeps_nulls: bool

    def find_origins(self, messages: pa.RecordBatch) -> Origins:
        """See `message_format.SourceExtractor`; each message names its table."""
        return debezium_origins(without_heads(messages))

    def find_change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceExtractor`."""
        return change_times(without_heads(messages))

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceExtractor`.

        Raises:
            SourceError: the schema registry does not answer.
        """
        texts: list[bytes | None] = [None] * messages.num_rows
        bodies = without_heads(messages)
        column = bodies.column("value")
        for schema, rows in self._by_schema(messages):
            for row_index in rows.tolist():
                texts[row_index] = b'{"schema":%b,"payload":%b}' % (
                    schema,
                    column[row_index].as_py(),
                )
        column_index = bodies.schema.get_field_index("value")
        enveloped_messages = bodies.set_column(
            column_index, pa.field("value", pa.binary()), pa.array(texts, pa.binary())
        )
        return describe(enveloped_messages, options, keeps_nulls=self.keeps_nulls)

    def find_versions(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Sequence[SeenTableVersion]:
        """See `message_format.SourceExtractor`. One message shows the columns of its schema.

        Raises:
            SourceError: the schema registry does not answer.
        """
        indices_of_schemas = (rows for _, rows in self._by_schema(messages))
        return versions_of_schemas(
            messages, indices_of_schemas, partial(self.describe, options=options)
        )

    def _by_schema(self, messages: pa.RecordBatch) -> Iterator[tuple[bytes, Int64s]]:
        """Yield the schemas in Connect's form, with their messages: int64 [m]."""
        values, message_indices = present_values(messages)
        for schema_number, rows in groups_by_value(schema_numbers_of(values)):
            try:
                struct = connect_struct(self.schemas, schema_number)
            except UnreadableRecordError:
                continue
            yield orjson.dumps(struct), message_indices[rows].astype(np.int64)


def _source_extractor(registries: Registries, options: Mapping[str, str]) -> SourceExtractor:
    schemas = registry_schemas(_NAME, SECTION, registries, options)
    extractor = _JsonSchemaSourceExtractor(schemas, keeps_nulls(options))
    return SourceExtractor(
        find_origins=extractor.find_origins,
        describe=extractor.describe,
        find_versions=extractor.find_versions,
        find_change_times=extractor.find_change_times,
    )


def _survey(
    registries: Registries, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]
) -> SourceSurvey:
    """Look at the messages without their heads."""
    _parse_options(registries, setup.options, setup.columns)
    return DEBEZIUM_JSON.survey(
        replace(setup, options=without_registry(setup.options)),
        {topic: without_heads(batch) for topic, batch in messages.items()},
    )


def debezium_json_schema(registries: Registries) -> FormatDeclaration:
    """Return the format, which looks up schemas in registries."""
    return FormatDeclaration(
        name=_NAME,
        section=SECTION,
        introduction='for example `debezium."schema.registry.url" = "http://registry:8081"`. '
        "[Other formats](setup/formats.md#json-schema) describes how the messages are read.",
        options=_OPTIONS,
        check=partial(_parse_options, registries),
        make=partial(_headed_json, registries),
        survey=partial(_survey, registries),
        make_source_extractor=partial(_source_extractor, registries),
        has_whole_before=has_whole_before,
    )
