"""Debezium's messages of MongoDB → row changes: the format ``debezium-bson``.

1. Messages are rewritten to those of a relational table (`plain_messages`).
2. `debezium_json` decodes them. The fields of a document are the columns.

Source: Paimon `format/debezium/DebeziumBsonRecordParser.java`: columns are STRING, and the key is
``_id``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import bools_of, children_of, valid_of
from stream_app.cdc.change_batch import DecodedBatch, present_values
from stream_app.cdc.columns.column_reading import Encoding, Family, family_of
from stream_app.cdc.debezium.bson.compiled_rewriter import CompiledRewriter
from stream_app.cdc.debezium.bson.nested_fields import with_variants
from stream_app.cdc.debezium.bson.plain_messages import CHANGE_OPS, plain_messages
from stream_app.cdc.debezium.bson.typed_values import TypedColumn
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON, DebeziumJson
from stream_app.cdc.debezium.debezium_options import (
    DECIMAL_MODE,
    JSON_OPTIONS,
    SECTION,
    DebeziumOptions,
    default_encoding,
    has_whole_before,
    parse_options,
)
from stream_app.cdc.debezium.schema_envelopes import split_messages
from stream_app.cdc.json_records.decoder_choice import compiled_layouts
from stream_app.cdc.json_records.json_options import COLUMN_ENCODING
from stream_app.cdc.json_records.origin_fields import FieldReader, NamedOrigins, OriginRule
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.source_tables import NO_TABLE, Origins
from stream_app.cdc.source_types.remarks import REPLACES_NULLS
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import JsonColumns, MappingOptions
from stream_app.model.source.source_table import SourceTable

_NAME = "debezium-bson"
_OPTIONS = tuple(
    option for option in JSON_OPTIONS if option.key not in (DECIMAL_MODE, REPLACES_NULLS)
)


def check(options: Mapping[str, str], columns: RowType) -> DebeziumOptions:
    """See `FormatDeclaration.check`. Numbers are not base64 here, and moments are milliseconds."""
    checked_options = parse_options(options, columns, _NAME, _OPTIONS)
    moments = {
        column.name: Encoding.EPOCH_MILLIS
        for column in columns
        if family_of(column.data_type) in (Family.DATE, Family.TIMESTAMP)
    }
    return replace(
        checked_options,
        values={**checked_options.values, DECIMAL_MODE: "string"},
        encodings={**moments, **checked_options.encodings},
    )


def typed_columns_of(
    options: Mapping[str, str], columns: RowType, checked_options: DebeziumOptions
) -> Mapping[str, TypedColumn]:
    """Return the columns, by name, in which some kinds of values have no meaning."""
    encoding_keys = {key for key in options if key.startswith("column.")}
    return {
        column.name: TypedColumn(
            name=column.name,
            data_type=column.data_type,
            encoding=checked_options.encodings.get(column.name)
            or default_encoding(column.data_type, checked_options.values),
            is_chosen=COLUMN_ENCODING.replace("NAME", column.name) in encoding_keys,
        )
        for column in columns
        if family_of(column.data_type) is not Family.STRING
    }


class DebeziumBson(DebeziumJson):
    """The message format ``debezium-bson``; implements `message_format.MessageFormat`."""

    def __init__(self, setup: FormatSetup) -> None:
        checked_options = check(setup.options, setup.columns)
        super().__init__(setup, checked_options)
        self._typed_columns = typed_columns_of(setup.options, setup.columns, checked_options)
        layouts = compiled_layouts(checked_options.decoder)
        self._compiled_rewriter = None
        if layouts is not None:
            self._compiled_rewriter = CompiledRewriter(layouts.documents, self._typed_columns)

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: see `DebeziumJson.decode`.
        """
        rewritten_messages = plain_messages(messages, self._typed_columns, self._compiled_rewriter)
        relational_messages = rewritten_messages.with_keys_and_values(messages)
        outcome = self._new_outcome(messages)
        outcome.refuse(rewritten_messages.unreadable_reasons)
        self._decode_values(*present_values(relational_messages), outcome)
        keyed_outcome = replace(outcome, messages=relational_messages)
        return outcome.decoded_batch(
            self._settings.row_rules.schema, self._uncertain_changes(keyed_outcome)
        )


def _survey(setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> SourceSurvey:
    typed_columns = typed_columns_of(
        setup.options, setup.columns, check(setup.options, setup.columns)
    )
    rewritten_messages = {
        topic: plain_messages(batch, typed_columns).with_keys_and_values(batch)
        for topic, batch in messages.items()
    }
    return DEBEZIUM_JSON.survey(setup, rewritten_messages)


def _origins(messages: pa.RecordBatch) -> Origins:
    """Return the source tables of messages, without parsing the images of usual messages."""
    reader = FieldReader(_ORIGINS.fields)
    for group in split_messages(messages):
        reader.read(group.payloads, group.message_indices)
    reader.unassigned_reasons.clear()
    origins = _ORIGINS.origins_of(reader, messages.num_rows)
    unread_indices = np.flatnonzero(
        valid_of(messages.column("value")) & (origins.codes == NO_TABLE)
    )
    if not len(unread_indices):
        return origins
    unread_messages = messages.take(pa.array(unread_indices))
    rewritten_messages = plain_messages(unread_messages)
    plain_origins = DEBEZIUM_JSON.make_source_extractor({}).find_origins(
        rewritten_messages.with_keys_and_values(unread_messages)
    )
    tables = dict.fromkeys((*origins.tables, *plain_origins.tables))
    code_of_table = {table: code for code, table in enumerate(tables)}
    codes = np.array(
        [*(code_of_table[table] for table in plain_origins.tables), NO_TABLE], np.int32
    )
    origins.codes[unread_indices] = codes[plain_origins.codes]
    reasons = {**plain_origins.unassigned_reasons, **rewritten_messages.unreadable_reasons}
    unassigned_reasons = {int(unread_indices[index]): reason for index, reason in reasons.items()}
    return Origins(tables=tuple(tables), codes=origins.codes, unassigned_reasons=unassigned_reasons)


def _named_origins(columns: Sequence[pa.Array]) -> NamedOrigins:
    op, source = columns
    database, table = children_of(source)
    is_named = bools_of(pc.greater(pc.binary_length(table), 0))
    has_row = bools_of(pc.is_in(op, CHANGE_OPS)) & is_named
    return NamedOrigins(database, table, has_row)


_ORIGINS = OriginRule(
    pa.schema(
        [
            ("op", pa.string()),
            ("source", pa.struct([(name, pa.string()) for name in ("db", "collection")])),
        ]
    ),
    _named_origins,
)


def _describe(messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
    rewritten_messages = plain_messages(messages).with_keys_and_values(messages)
    table = DEBEZIUM_JSON.make_source_extractor({}).describe(rewritten_messages, options)
    if table is None or options.json_columns is not JsonColumns.VARIANT:
        return table
    return with_variants(table, messages.column("value"))


def _source_extractor(_options: Mapping[str, str]) -> SourceExtractor:
    # Messages of MongoDB have the time of a change in the same field as other messages.
    find_change_times = DEBEZIUM_JSON.make_source_extractor({}).find_change_times
    return SourceExtractor(
        find_origins=_origins, describe=_describe, find_change_times=find_change_times
    )


DEBEZIUM_BSON = FormatDeclaration(
    name=_NAME,
    section=SECTION,
    introduction='for example `debezium."unknown-columns" = "evolve"`. '
    "[Other formats](setup/formats.md#mongodb) describes how the messages are read.",
    options=_OPTIONS,
    check=check,
    make=DebeziumBson,
    survey=_survey,
    make_source_extractor=_source_extractor,
    has_whole_before=has_whole_before,
    telltale_fields=(frozenset({"op", "after", "updateDescription"}),),
)
