"""Debezium's messages as Avro of a schema registry → row changes: the format ``debezium-avro``.

A message is Confluent's wire format: a zero, the number of its schema, and the value.

1. Messages are grouped by the number of their schema, which the registry gives.
2. Whole messages are read in columns, all of a group together (`avro_cursor`).
3. Flattened and all other messages are read one by one: each becomes the JSON that Kafka Connect
   would have written, which `debezium_json` decodes.
4. Keys in Avro become JSON objects with the columns of their schema.

Source: Confluent's "Wire format"; Paimon `format/debezium/DebeziumAvroRecordParser.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int32s, Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import DecodedBatch, present_values
from stream_app.cdc.column_drift import Drift, DriftedColumn, DriftKind, Sighting, drift_of
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.cdc.columns.connect_readings import apply_schema
from stream_app.cdc.debezium.avro.avro_source_extractor import SLICE_ROWS_MAX, AvroSourceExtractor
from stream_app.cdc.debezium.avro.compiled_avro_reader import (
    IMAGES,
    AvroImages,
    CompiledAvroReader,
    MessageTexts,
    avro_images,
)
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON, DebeziumJson
from stream_app.cdc.debezium.debezium_options import (
    JSON_OPTIONS,
    SECTION,
    DebeziumOptions,
    has_whole_before,
    keeps_nulls,
    parse_options,
)
from stream_app.cdc.debezium.decoding.one_record import TABLE_FIELDS
from stream_app.cdc.debezium.decoding.parsed_images import decode_images
from stream_app.cdc.debezium.decoding.single_decoding import read_values
from stream_app.cdc.json_records.batch_outcome import BatchOutcome, ColumnarResult
from stream_app.cdc.json_records.decoder_choice import compiled_layouts
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.schema_registry_port import Registries, Schemas
from stream_app.cdc.wire.avro.avro_columns import avro_texts, wire_column
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor, cursor_over
from stream_app.cdc.wire.avro.avro_references import avro_text
from stream_app.cdc.wire.avro.avro_types import AvroType, avro_connect_field, parse_schema
from stream_app.cdc.wire.registry_options import (
    REGISTRY_OPTIONS,
    check_urls,
    registry_schemas,
    without_registry,
)
from stream_app.cdc.wire.wire_format import avro_as_json, groups_by_value, schema_numbers_of
from stream_app.model.schema.data_type import RowType

_NAME = "debezium-avro"
_OPTIONS = (*REGISTRY_OPTIONS, *JSON_OPTIONS)


@dataclass(frozen=True, slots=True)
class _SchemaPlan:
    """The plan by which the messages of one schema are read.

    Attributes:
        text: the text of the schema.
        readings: the readings of the table's columns, as the schema describes them.
        drift: the columns by which the schema differs from the table.
        is_envelope: whether the messages are envelopes, not flattened.
        compiled_reader: reads the messages by machine code; None if machine code cannot.
    """

    text: str
    root: AvroType
    readings: tuple[ColumnReading, ...]
    drift: Drift
    is_envelope: bool
    compiled_reader: CompiledAvroReader | None


class DebeziumAvro(DebeziumJson):
    """The message format ``debezium-avro``; implements `message_format.MessageFormat`."""

    def __init__(self, registries: Registries, setup: FormatSetup) -> None:
        checked_options = _parse_options(registries, setup.options, setup.columns)
        super().__init__(setup, checked_options)
        self._registry = _schemas(registries, setup.options)
        layouts = compiled_layouts(checked_options.decoder)
        self._layout_class = None if layouts is None else layouts.avro
        self._plans: dict[int, _SchemaPlan | str] = {}

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            SourceError: the schema registry does not answer.
            WrongSourceError: see `DebeziumJson.decode`; or the registry refuses the login.
        """
        values, message_indices = present_values(messages)
        outcome = self._new_outcome(messages)
        for schema_number, indices in groups_by_value(schema_numbers_of(values)):  # step 1
            schema_plan = self._plan(schema_number)
            if isinstance(schema_plan, _SchemaPlan):
                outcome.learn_schemas({str(schema_number): int(message_indices[indices[0]])})
            schema_values = (
                values if len(indices) == len(values) else values.take(pa.array(indices))
            )
            for start in range(0, len(indices), SLICE_ROWS_MAX):
                part = schema_values.slice(start, SLICE_ROWS_MAX)
                part_indices = message_indices[indices[start : start + SLICE_ROWS_MAX]]
                if isinstance(schema_plan, str):
                    outcome.refuse(dict.fromkeys(part_indices.tolist(), schema_plan))
                else:
                    self._decode_slice(part, part_indices, schema_plan, outcome)
        keyed_outcome = replace(outcome, messages=self._with_json_keys(messages))  # step 4
        return outcome.decoded_batch(
            self._settings.row_rules.schema, self._uncertain_changes(keyed_outcome)
        )

    def _plan(self, schema_number: int) -> _SchemaPlan | str:
        """Return the plan for a schema's messages, or the reason why they cannot be read."""
        if schema_number not in self._plans:
            try:
                text = avro_text(self._registry, schema_number)
            except UnreadableRecordError as problem:
                return str(problem)  # not stored: the registry may learn of the schema
            try:
                self._plans[schema_number] = self._plan_of_schema(text)
            except UnreadableRecordError as problem:
                self._plans[schema_number] = str(problem)
        return self._plans[schema_number]

    def _plan_of_schema(self, text: str) -> _SchemaPlan:
        """Plan how the messages of a schema are read.

        Raises:
            UnreadableRecordError: they cannot be read.
        """
        root = parse_schema(text)
        rows = _rows_of(root)
        is_envelope = bool(rows) and root.field("op") is not None
        after, before = (rows[0], rows[-1]) if is_envelope else (root, root)
        fields = dict(after.fields)
        readings = self._readings_of({**dict(before.fields), **fields})
        before_readings = self._readings_of({**fields, **dict(before.fields)})
        for reading, before_reading in zip(readings, before_readings, strict=True):
            if reading != before_reading:
                raise UnreadableRecordError(
                    f"has a schema by which {reading.name!r} is another before a change than after"
                )
        return _SchemaPlan(
            text=text,
            root=root,
            readings=readings,
            drift=drift_of(self._settings.policy.columns, fields, fields),
            is_envelope=is_envelope,
            compiled_reader=CompiledAvroReader.for_schema(
                root, readings, self._layout_class, reads_tables=self._settings.reads_tables
            )
            if is_envelope
            else None,
        )

    def _readings_of(self, fields: Mapping[str, AvroType]) -> tuple[ColumnReading, ...]:
        """Return the readings of the table's columns, as these fields describe them."""
        return apply_schema(
            self._readings,
            {name: avro_connect_field(field_type) for name, field_type in fields.items()},
            self._checked_options.encodings,
            writes_times=self._checked_options.writes_times,
        )

    def _decode_slice(
        self,
        values: pa.Array,
        message_indices: Int32s,
        schema_plan: _SchemaPlan,
        outcome: BatchOutcome,
    ) -> None:
        """Step 2: read whole messages of one schema in columns."""
        if (
            not schema_plan.is_envelope
            or self._settings.policy.refusal(schema_plan.drift) is not None
        ):
            self._decode_as_json(values, message_indices, schema_plan, outcome)
            return
        parsed_images = (
            None
            if schema_plan.compiled_reader is None
            else schema_plan.compiled_reader.read(values)
        )
        if parsed_images is not None:
            is_undecoded = self._decode_images(parsed_images, message_indices, schema_plan, outcome)
            if not is_undecoded.any():
                return
            values = values.filter(pa.array(is_undecoded))
            message_indices = message_indices[is_undecoded]
        cursor, message = cursor_over(values, schema_plan.root)
        parsed_images = self._images(message, cursor, ~cursor.is_broken(), schema_plan)
        is_undecoded = self._decode_images(parsed_images, message_indices, schema_plan, outcome)
        if is_undecoded.any():
            self._decode_as_json(
                values.filter(pa.array(is_undecoded)),
                message_indices[is_undecoded],
                schema_plan,
                outcome,
            )

    def _decode_images(
        self,
        parsed_images: AvroImages,
        message_indices: Int32s,
        schema_plan: _SchemaPlan,
        outcome: BatchOutcome,
    ) -> Bools:
        """Decode the parsed messages, and return the mask of the remaining ones."""
        images, image_rows, questions = decode_images(
            parsed_images.images, parsed_images.readings, self._settings, is_flat=False
        )
        drift = self._drift_sightings(schema_plan.drift, images.has_after, ~image_rows.is_suspect)
        result = ColumnarResult(image_rows, questions, drift)
        outcome.add_columnar(result, message_indices[parsed_images.is_parsed])
        is_undecoded = ~parsed_images.is_parsed
        is_undecoded[parsed_images.is_parsed] = image_rows.is_suspect
        return is_undecoded

    def _images(
        self, message: AvroValues, cursor: ValueCursor, is_intact: Bools, schema_plan: _SchemaPlan
    ) -> AvroImages:
        """Read the images of the intact messages, column by column."""
        sides = [message.fields.get(name) for name in IMAGES]
        indices = [np.empty(0, np.int64) if side is None else side.indices for side in sides]
        fields: list[Mapping[str, AvroValues]] = [
            {} if side is None else side.fields for side in sides
        ]
        wire_columns = [
            wire_column(
                reading,
                [
                    (image.get(reading.name), image_indices)
                    for image, image_indices in zip(fields, indices, strict=True)
                ],
                cursor,
                is_intact,
            )
            for reading in schema_plan.readings
        ]
        before_indices, count = _image_indices(indices[0], is_intact, 0)
        after_indices, _ = _image_indices(indices[1], is_intact, count)
        source = message.fields.get("source")
        source_fields = {} if source is None else source.fields
        ops, connectors, *tables = (
            avro_texts(values, cursor, is_intact).filter(pa.array(is_intact))
            for values in (
                message.fields.get("op"),
                *(source_fields.get(name) for name in ("connector", *TABLE_FIELDS)),
            )
        )
        tables = tables if self._settings.reads_tables else []
        texts = MessageTexts(ops=ops, connectors=connectors, tables=tables)
        return avro_images(is_intact, texts, (before_indices, after_indices), wire_columns)

    def _drift_sightings(
        self, drift: Drift, has_after: Bools, has_row: Bools
    ) -> dict[DriftedColumn, Sighting]:
        """Return the unknown and missing columns that all records with rows share."""
        sightings: dict[DriftedColumn, Sighting] = {}
        for column in drift.columns():
            record_indices = np.flatnonzero(
                has_row & has_after if column[0] is DriftKind.MISSING else has_row
            )
            if len(record_indices):
                sightings[column] = Sighting(len(record_indices), int(record_indices[0]))
        return self._settings.policy.reported(sightings)

    def _decode_as_json(
        self,
        values: pa.Array,
        message_indices: Int32s,
        schema_plan: _SchemaPlan,
        outcome: BatchOutcome,
    ) -> None:
        """Step 3: read each message as the JSON that Kafka Connect would have written."""
        texts: list[bytes] = []
        read_indices: list[int] = []
        for value_index, value in enumerate(values.to_pylist()):
            try:
                texts.append(avro_as_json(value, schema_plan.text))
                read_indices.append(value_index)
            except UnreadableRecordError as problem:
                outcome.refuse({int(message_indices[value_index]): str(problem)})
        result = read_values(pa.array(texts, pa.binary()), schema_plan.readings, self._settings)
        outcome.add_one_by_one(result, message_indices[read_indices])

    def _with_json_keys(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Step 4: convert Avro keys to JSON objects with the names of their columns."""
        if not self.reads_keys or "key" not in messages.schema.names:
            return messages
        keys = messages.column("key").cast(pa.binary())
        if keys.null_count == len(keys):
            return messages
        key_objects = [b""]
        object_indices = np.zeros(len(keys), np.int64)
        for schema_number, indices in groups_by_value(schema_numbers_of(keys.fill_null(b""))):
            try:
                fields = parse_schema(avro_text(self._registry, schema_number)).fields
            except UnreadableRecordError:
                continue  # a key that stays Avro proves nothing
            object_indices[indices] = len(key_objects)
            key_objects.append(orjson.dumps(dict.fromkeys(dict(fields), 0)))
        objects = pa.array(key_objects, pa.binary()).take(pa.array(object_indices))
        keys = pc.if_else(pa.array(object_indices > 0), objects, keys)
        column_index = messages.schema.get_field_index("key")
        return messages.set_column(column_index, pa.field("key", pa.binary()), keys)


def _rows_of(root: AvroType) -> list[AvroType]:
    """Return the types of the images after and before a change; omit other types than records."""
    image_types = filter(None, map(root.field, ("after", "before")))
    return [
        row for image_type in image_types if (row := image_type.without_null()).kind == "record"
    ]


def _image_indices(indices: Int64s, is_intact: Bools, first_index: int) -> tuple[Int64s, int]:
    """Return the index of each intact message's image, or -1; and the next free index."""
    image_indices: Int64s = np.full(len(is_intact), -1, np.int64)
    indices = indices[is_intact[indices]]
    image_indices[indices] = first_index + np.arange(len(indices))
    return image_indices[is_intact], first_index + len(indices)


def _parse_options(
    registries: Registries, options: Mapping[str, str], columns: RowType
) -> DebeziumOptions:
    checked_options = parse_options(options, columns, _NAME, _OPTIONS)
    check_urls(_NAME, SECTION, registries, options)
    return checked_options


def _schemas(registries: Registries, options: Mapping[str, str]) -> Schemas:
    return registry_schemas(_NAME, SECTION, registries, options)


def _survey(
    registries: Registries, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]
) -> SourceSurvey:
    """Look at the messages as JSON."""
    _parse_options(registries, setup.options, setup.columns)
    extractor = AvroSourceExtractor(_schemas(registries, setup.options))
    other_options = without_registry(setup.options)
    return DEBEZIUM_JSON.survey(
        replace(setup, options=other_options),
        {topic: extractor.as_json(batch, adds_envelope=False) for topic, batch in messages.items()},
    )


def _source_extractor(registries: Registries, options: Mapping[str, str]) -> SourceExtractor:
    extractor = AvroSourceExtractor(_schemas(registries, options), keeps_nulls=keeps_nulls(options))
    return SourceExtractor(
        find_origins=extractor.find_origins,
        describe=extractor.describe,
        find_versions=extractor.find_versions,
        find_change_times=extractor.find_change_times,
    )


def debezium_avro(registries: Registries) -> FormatDeclaration:
    """Return the format, which looks up schemas in registries."""
    return FormatDeclaration(
        name=_NAME,
        section=SECTION,
        introduction='for example `debezium."schema.registry.url" = "http://registry:8081"`. '
        "[Other formats](setup/formats.md#avro) describes how the messages are read.",
        options=_OPTIONS,
        check=partial(_parse_options, registries),
        make=partial(DebeziumAvro, registries),
        survey=partial(_survey, registries),
        make_source_extractor=partial(_source_extractor, registries),
        has_whole_before=has_whole_before,
    )
