"""Debezium's JSON messages → row changes.

The format ``debezium-json``: change events of any Debezium connector through Kafka Connect's
JsonConverter, with and without the schema envelope, whole or flattened by ExtractNewRecordState.

Messages are grouped by their schema, and `json_records.decoder` decodes each group in three ways.
`fast_decoding` reads the images alone, and `whole_decoding` parses whole messages.
`single_decoding` reads the records that both decline.

Where no before-image proves the row of a change, its Kafka key must prove it (`key_proof`). A
change whose row is not certain stops the job or is a bad record.

A message with op c or r becomes +I, u becomes -U (if kept) and +U, and d becomes -D of the
before-image. A column that is missing in a message is null. Tombstones, heartbeats, transaction
markers, schema changes and logical messages (op m) are skipped. Flattened messages without
``__op`` count as creates.

Source: Debezium documentation, "Data change events" of the PostgreSQL, MySQL and MariaDB
connectors; tests/fixtures/cdc holds real messages of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int32s
from stream_app.cdc.change_batch import DecodedBatch, present_values, schema_of_changes
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.cdc.columns.connect_readings import apply_schema
from stream_app.cdc.ddl.ddl_messages import text_at
from stream_app.cdc.debezium.debezium_description import describe, versions
from stream_app.cdc.debezium.debezium_options import (
    DECIMAL_MODE,
    JSON_OPTIONS,
    SECTION,
    DebeziumOptions,
    default_encoding,
    has_whole_before,
    keeps_nulls,
    key_rules,
    parse_options,
)
from stream_app.cdc.debezium.debezium_origins import change_times, debezium_origins
from stream_app.cdc.debezium.decoding.fast_decoding import FastGroup, decode_group_fast
from stream_app.cdc.debezium.decoding.one_record import document_images_of
from stream_app.cdc.debezium.decoding.parsed_images import DecodeSettings
from stream_app.cdc.debezium.decoding.single_decoding import read_values
from stream_app.cdc.debezium.decoding.whole_decoding import decode_as_shape
from stream_app.cdc.debezium.key_proof import KeyCheck, ReplicaIdentity
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.cdc.debezium.schema_envelopes import SCHEMAS_MAX, split_envelopes
from stream_app.cdc.debezium.source_survey import survey
from stream_app.cdc.json_records.batch_outcome import BatchOutcome, ColumnarPart, ColumnarResult
from stream_app.cdc.json_records.decoder import PlacedValues, ShapeDecoder
from stream_app.cdc.json_records.decoder_choice import compiled_layouts
from stream_app.cdc.json_records.json_options import column_readings
from stream_app.cdc.json_records.layout_chooser import LayoutChooser
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.message_format import FormatDeclaration, FormatSetup, SourceExtractor
from stream_app.cdc.rows.images import RowRules
from stream_app.cdc.source_types.connect_fields import ConnectField, connect_fields


class DebeziumJson:
    """The message format ``debezium-json``; implements `MessageFormat` and `ValueDecoder`."""

    def __init__(
        self,
        setup: FormatSetup,
        checked_options: DebeziumOptions | None = None,
        fields: Mapping[str, ConnectField] | None = None,
    ) -> None:
        """Use the setup's options, unless others are given.

        Args:
            fields: the columns of messages without a schema of their own; None if unknown.
        """
        self._checked_options = checked_options or parse_options(setup.options, setup.columns)
        self._readings = column_readings(
            setup,
            self._checked_options.encodings,
            partial(default_encoding, modes=self._checked_options.values),
        )
        rules = key_rules(self._checked_options, setup.primary_keys, setup.traits)
        policy = self._checked_options.column_policy(setup.columns)
        self._settings = DecodeSettings(
            row_rules=RowRules(
                schema=schema_of_changes(setup.arrow_schema),
                keeps_update_before=setup.keeps_update_before,
                before_has_key_only=rules.identity is ReplicaIdentity.DEFAULT,
                base64_reason=f": {DECIMAL_MODE} = precise writes decimals as base64",
                cut_reaction=policy.cut_reaction,
            ),
            policy=policy,
            key_rules=rules,
            reads_tables=not setup.traits.merges_shards,
            placeholder=self._checked_options.placeholder,
            restored_columns=setup.traits.restored_columns
            if self._checked_options.looks_up
            else frozenset(),
        )
        self._keys = KeyCheck(rules, self._checked_options.quarantines_uncertain)
        self._fields = fields or {}
        self._schemas: dict[bytes, Mapping[str, ConnectField]] = {}
        self._groups: dict[bytes, FastGroup] = {}

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: a TRUNCATE, where ``truncate = error``,
                or a change whose row is not certain, unless ``unproven-keys = quarantine``.
        """
        outcome = self._new_outcome(messages)
        self._decode_values(*present_values(messages), outcome)
        return outcome.decoded_batch(
            self._settings.row_rules.schema, self._uncertain_changes(outcome)
        )

    def _decode_values(
        self, values: pa.Array, message_indices: Int32s, outcome: BatchOutcome
    ) -> None:
        """Decode the values at these indices, each group of one schema by itself."""
        if len(self._groups) > SCHEMAS_MAX:
            self._groups.clear()
            self._schemas.clear()
        for payloads in split_envelopes(values, self._schemas):
            group = self._group(payloads.prefix)
            if payloads.prefix:
                first_index = int(message_indices[payloads.message_indices[0]])
                outcome.learn_schemas({group.fingerprint: first_index})
            decoder = ShapeDecoder(self, document_images_of, self._settings.policy, group, outcome)
            decoder.decode(payloads.payloads, message_indices[payloads.message_indices])

    def _new_outcome(self, messages: pa.RecordBatch) -> BatchOutcome:
        return BatchOutcome(
            messages=messages,
            section=SECTION,
            policy=self._settings.policy,
            on_truncate=self._checked_options.on_truncate,
            skipped_count=messages.column("value").null_count,
        )

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` reads the messages' keys."""
        return self._keys.reads_keys

    def _uncertain_changes(self, outcome: BatchOutcome) -> dict[int, str]:
        """Return index → reason, for the changes whose row nothing proves."""
        if not outcome.question_parts:
            return {}
        message_indices, questions = (
            np.concatenate(parts) for parts in zip(*outcome.question_parts, strict=True)
        )
        return self._keys.uncertain_reasons(outcome.messages, message_indices, questions)

    def _readings_for(self, fields: Mapping[str, ConnectField]) -> tuple[ColumnReading, ...]:
        checked_options = self._checked_options
        return apply_schema(
            self._readings,
            fields,
            checked_options.encodings,
            sends_bytes=checked_options.sends_bytes,
            writes_times=checked_options.writes_times,
        )

    def _group(self, prefix: bytes) -> FastGroup:
        if prefix not in self._groups:
            readings = self._readings_for(self._schemas.get(prefix, self._fields))
            fingerprint = hashlib.sha256(prefix).hexdigest()
            layouts = compiled_layouts(self._checked_options.decoder)
            self._groups[prefix] = FastGroup(
                readings,
                fingerprint=fingerprint,
                layout_chooser=None if layouts is None else LayoutChooser(layouts.images),
            )
        return self._groups[prefix]

    def decode_fast(self, placed_values: PlacedValues, group: FastGroup) -> ColumnarPart | None:
        """Decode values by their images alone; see `ValueDecoder.decode_fast`."""
        return decode_group_fast(placed_values.values, group, self._settings)

    def decode_whole(
        self, placed_values: PlacedValues, shape: RecordShape
    ) -> ColumnarResult | None:
        """See `ValueDecoder.decode_whole`."""
        return decode_as_shape(placed_values.values, shape, self._settings)

    def decode_one_by_one(
        self, placed_values: PlacedValues, group: FastGroup, outcome: BatchOutcome
    ) -> None:
        """See `ValueDecoder.decode_one_by_one`. Envelopes may have schemas of their own."""
        result = read_values(placed_values.values, group.readings, self._settings)
        outcome.add_one_by_one(result, placed_values.message_indices)
        for value_index, record in result.enveloped_records:
            readings = self._readings_for(connect_fields(record.schema))
            payload = pa.array([record.payload], pa.binary())
            record_result = read_values(payload, readings, self._settings)
            if record_result.enveloped_records:
                record_result.reasons[0] = "is an envelope within an envelope"
            outcome.add_one_by_one(
                record_result, placed_values.message_indices[value_index : value_index + 1]
            )


def _source_extractor(options: Mapping[str, str]) -> SourceExtractor:
    return SourceExtractor(
        find_origins=debezium_origins,
        describe=partial(describe, keeps_nulls=keeps_nulls(options)),
        find_versions=versions,
        find_change_times=change_times,
        ddl_of=partial(text_at, database_field="databaseName", text_field="ddl"),
        find_transactions=debezium_transactions,
    )


DEBEZIUM_JSON = FormatDeclaration(
    name="debezium-json",
    section=SECTION,
    introduction='for example `debezium."time.precision.mode" = "connect"`. They repeat the '
    "connector's configuration, which a message with the schema envelope contains. "
    "[Change messages](setup/cdc.md) explains each of them.",
    options=JSON_OPTIONS,
    check=parse_options,
    make=DebeziumJson,
    survey=survey,
    make_source_extractor=_source_extractor,
    has_transactions=True,
    has_whole_before=has_whole_before,
    telltale_fields=(
        frozenset({"op", "after"}),
        frozenset({"op", "before"}),
        frozenset({"__op"}),
        frozenset({"__table"}),
    ),
)
