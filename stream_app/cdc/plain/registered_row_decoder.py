"""Rows whose schema is in a registry → row changes, for every language of schemas.

Each message is an insert of its row; in a table with a primary key that is an upsert. A tombstone
deletes the row of its key.

1. Messages are grouped by the number of their schema. Where the value lacks key columns, the
   number of the key's schema divides the group again.
2. Messages of a group are read in columns (`wire.avro_columns`).
3. Other messages are read one by one, as the JSON that Kafka Connect would have written.

Source: Confluent's "Wire format"; Paimon `format/json/JsonRecordParser.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, Int64s, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import DecodedBatch, present_values, schema_of_changes
from stream_app.cdc.column_drift import (
    NO_DRIFT,
    ColumnPolicy,
    Drift,
    DriftedColumn,
    Sighting,
    drift_of,
)
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding
from stream_app.cdc.columns.connect_readings import apply_schema
from stream_app.cdc.json_message import image_of, load_document
from stream_app.cdc.json_records.batch_outcome import BatchOutcome, ColumnarResult, OneByOneResult
from stream_app.cdc.json_records.dialect import Change
from stream_app.cdc.json_records.json_options import (
    CheckedOptions,
    OnTruncate,
    column_readings,
    texts_and_numbers,
)
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.plain.key_options import KEY_COLUMNS, deletes_by_tombstones, has_text_keys
from stream_app.cdc.rows.images import RowRules, StackedImages, rows_of_images
from stream_app.cdc.rows.record_images import Cell, Image, RecordImages
from stream_app.cdc.rows.row_assembly import CREATE, DELETE
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.wire.avro.avro_columns import wire_column
from stream_app.cdc.wire.row_schema import RowSchema, SchemaKey, SchemaLanguage
from stream_app.cdc.wire.text_keys import TextKeyLanguage
from stream_app.model.schema.data_type import DataType

_SLICE_ROWS_MAX = 32_768
_NO_KEY = (-1, -1)
"""Stands for the schema of a key that is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyOrValue:
    """The columns that one part of a message gives: its value or its key."""

    schema: RowSchema
    reads_key: bool
    columns: frozenset[str]

    def image(self, key: bytes | None, value: bytes | None) -> Image:
        """Return the cells of one message.

        Raises:
            UnreadableRecordError: the bytes are not a value of the schema.
        """
        message = key if self.reads_key else value
        document = load_document(self.schema.json_of(message or b""))
        return image_of(document, "key" if self.reads_key else "record", self.columns) or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The way to read messages of the same schemas.

    Attributes:
        readings: the readings of the table's columns, as the schemas describe them.
        drift: the columns by which the schemas differ from the table.
    """

    op: int
    parts: tuple[_KeyOrValue, ...]
    readings: tuple[ColumnReading, ...]
    drift: Drift


@dataclass(frozen=True, slots=True, kw_only=True)
class _Messages:
    """Messages of one plan.

    Attributes:
        values, keys: binary [n].
        message_indices: int32 [n]; their indices in the batch.
    """

    values: pa.Array
    keys: pa.Array
    message_indices: Int32s

    def take(self, indices: Int64s) -> _Messages:
        """Return the messages at these indices."""
        taken_indices = pa.array(indices)
        return _Messages(
            values=self.values.take(taken_indices),
            keys=self.keys.take(taken_indices),
            message_indices=self.message_indices[indices],
        )


class RegisteredRowDecoder:
    """A decoder of rows whose schema is in a registry. Implements `MessageFormat`."""

    def __init__(
        self,
        section: str,
        language: SchemaLanguage[RowSchema],
        schemas: Schemas,
        setup: FormatSetup,
        checked_options: CheckedOptions,
    ) -> None:
        self._section = section
        self._language = language
        self._key_language: SchemaLanguage[RowSchema] = (
            TextKeyLanguage() if has_text_keys(checked_options) else language
        )
        self._schemas = schemas
        self._encodings = checked_options.encodings
        self._policy: ColumnPolicy = checked_options.column_policy(setup.columns)
        self._readings = column_readings(setup, checked_options.encodings, _encoding)
        self._key_columns: frozenset[str] = checked_options.values[KEY_COLUMNS]
        self._primary_key = frozenset(setup.primary_keys)
        self._deletes = deletes_by_tombstones(checked_options, setup.traits) and bool(
            self._primary_key
        )
        self._reads_tables = not setup.traits.merges_shards
        rules = RowRules(
            schema=schema_of_changes(setup.arrow_schema),
            keeps_update_before=setup.keeps_update_before,
            cut_reaction=self._policy.cut_reaction,
        )
        self._rules = {CREATE: rules, DELETE: replace(rules, before_has_key_only=True)}
        self._plans: dict[tuple[int, SchemaKey, SchemaKey], _Plan | str] = {}

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` reads the messages' keys."""
        return bool(self._key_columns) or self._deletes

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            SourceError: the schema registry does not answer.
            WrongSourceError: the registry refuses the login; or a record has other columns than
                the table, where options say so.
        """
        keys = _keys_of(messages)
        is_delete = ~valid_of(messages.column("value")) & valid_of(keys) & self._deletes
        deleted_indices: Int32s = np.flatnonzero(is_delete).astype(np.int32)
        values, message_indices = present_values(messages)
        outcome = BatchOutcome(
            messages=messages,
            section=self._section,
            policy=self._policy,
            on_truncate=OnTruncate.IGNORE,
            skipped_count=messages.num_rows - len(message_indices) - len(deleted_indices),
        )
        row_keys = keys.take(pa.array(message_indices))
        deleted_keys = keys.take(pa.array(deleted_indices))
        rows = _Messages(values=values, keys=row_keys, message_indices=message_indices)
        deletes = _Messages(values=deleted_keys, keys=deleted_keys, message_indices=deleted_indices)
        for messages_of_op, op in ((rows, CREATE), (deletes, DELETE)):
            for plan, group in self._groups(messages_of_op, op, outcome):
                self._decode(group, plan, outcome)
        return outcome.decoded_batch(self._rules[CREATE].schema, {})

    def _groups(
        self, messages: _Messages, op: int, outcome: BatchOutcome
    ) -> Iterator[tuple[_Plan, _Messages]]:
        """Yield the messages of each group (step 1), and refuse the groups that cannot be read."""
        reads_keys = bool(self._key_columns) and op == CREATE
        language = self._key_language if op == DELETE else self._language
        for schema_key, schema_indices in language.split(messages.values):
            key_groups: list[tuple[SchemaKey, Int64s]] = [((), np.arange(len(schema_indices)))]
            if reads_keys:
                key_groups = [*self._split_keys(messages.keys.take(pa.array(schema_indices)))]
            for schema_key_of_key, key_indices in key_groups:
                plan = self._plan(op, schema_key, schema_key_of_key)
                group_indices = schema_indices[key_indices]
                if isinstance(plan, str):
                    outcome.refuse(
                        dict.fromkeys(messages.message_indices[group_indices].tolist(), plan)
                    )
                    continue
                if op == CREATE:
                    outcome.schemas.setdefault(
                        str(schema_key[0]), int(messages.message_indices[group_indices[0]])
                    )
                for start in range(0, len(group_indices), _SLICE_ROWS_MAX):
                    yield plan, messages.take(group_indices[start : start + _SLICE_ROWS_MAX])

    def _split_keys(self, keys: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """Yield the keys of each schema, by index, and those that are null."""
        is_present = valid_of(keys)
        present_indices = np.flatnonzero(is_present)
        for schema_key, key_indices in self._key_language.split(keys.drop_null()):
            yield schema_key, present_indices[key_indices]
        if not is_present.all():
            yield _NO_KEY, np.flatnonzero(~is_present)

    def _plan(self, op: int, schema_key: SchemaKey, schema_key_of_key: SchemaKey) -> _Plan | str:
        """Return the plan for messages of these schemas, or the reason why they cannot be read."""
        plan = self._plans.get((op, schema_key, schema_key_of_key))
        if plan is not None:
            return plan
        try:
            plan = (
                self._plan_of_deletes(schema_key)
                if op == DELETE
                else self._plan_of_rows(schema_key, schema_key_of_key)
            )
        except UnreadableRecordError as problem:
            return str(problem)  # not kept: the registry may learn of the schema later
        self._plans[op, schema_key, schema_key_of_key] = plan
        return plan

    def _plan_of_rows(self, schema_key: SchemaKey, schema_key_of_key: SchemaKey) -> _Plan:
        """Return the plan for two schemas; columns that the value lacks come from the key."""
        row_schema = self._language.schema(self._schemas, schema_key, "")
        missing_names = self._key_columns.difference(row_schema.columns)
        parts = [
            _KeyOrValue(schema=row_schema, reads_key=False, columns=frozenset(row_schema.columns))
        ]
        if missing_names:
            if schema_key_of_key == _NO_KEY:
                raise UnreadableRecordError(f"has no key, from which {min(missing_names)!r} comes")
            schema_of_key = self._schema_of_key(schema_key_of_key, missing_names)
            columns = missing_names & schema_of_key.columns.keys()
            parts.append(_KeyOrValue(schema=schema_of_key, reads_key=True, columns=columns))
        fields = {name: part.schema.columns[name] for part in parts for name in part.columns}
        if self._policy.columns.isdisjoint(fields):
            raise UnreadableRecordError("has no column of the table")
        return _Plan(
            op=CREATE,
            parts=tuple(parts),
            readings=apply_schema(self._readings, fields, self._encodings),
            drift=drift_of(self._policy.columns, None, fields),
        )

    def _plan_of_deletes(self, schema_key: SchemaKey) -> _Plan:
        schema_of_key = self._schema_of_key(schema_key, self._primary_key)
        missing_columns = self._primary_key.difference(schema_of_key.columns)
        if missing_columns:
            raise UnreadableRecordError(
                f"is a tombstone whose key lacks {min(missing_columns)!r} of the primary key"
            )
        return _Plan(
            op=DELETE,
            parts=(_KeyOrValue(schema=schema_of_key, reads_key=True, columns=self._primary_key),),
            readings=apply_schema(self._readings, schema_of_key.columns, self._encodings),
            drift=NO_DRIFT,
        )

    def _schema_of_key(self, schema_key: SchemaKey, names: frozenset[str]) -> RowSchema:
        try:
            return self._key_language.schema(
                self._schemas, schema_key, min(names) if len(names) == 1 else ""
            )
        except UnreadableRecordError as problem:
            raise UnreadableRecordError(f"has a key that {problem}") from None

    def _decode(self, messages: _Messages, plan: _Plan, outcome: BatchOutcome) -> None:
        """Decode messages of a group in columns (step 2), and the others one by one."""
        if self._policy.refusal(plan.drift) is not None:
            self._decode_one_by_one(messages, plan, outcome)
            return
        images, readings, is_intact = self._images(messages, plan)
        image_rows = rows_of_images(images, readings, self._rules[plan.op])
        drift = self._sightings(plan.drift, ~image_rows.is_suspect)
        outcome.add_columnar(
            ColumnarResult(image_rows, None, drift), messages.message_indices[is_intact]
        )
        is_suspect = ~is_intact
        is_suspect[is_intact] = image_rows.is_suspect
        if is_suspect.any():
            self._decode_one_by_one(messages.take(np.flatnonzero(is_suspect)), plan, outcome)

    def _images(
        self, messages: _Messages, plan: _Plan
    ) -> tuple[StackedImages, list[ColumnReading], Bools]:
        """Return the images of the messages that are not broken, and their mask: bool [n]."""
        value_indices = np.arange(len(messages.message_indices))
        part_values = [
            (part, *part.schema.values(messages.keys if part.reads_key else messages.values))
            for part in plan.parts
        ]
        value_cursor = part_values[0][1]
        is_intact = ~np.logical_or.reduce([cursor.is_broken() for _, cursor, _ in part_values])
        sources = {
            name: (cursor, fields[name])
            for part, cursor, fields in part_values
            for name in part.columns
        }
        wire_columns = []
        for reading in plan.readings:
            cursor, values = sources.get(reading.name, (value_cursor, None))
            wire_columns.append(wire_column(reading, [(values, value_indices)], cursor, is_intact))
        count = int(is_intact.sum())
        indices, no_images = np.arange(count), np.full(count, -1, np.int64)
        images = StackedImages(
            ops=np.full(count, plan.op, np.uint8),
            before_indices=indices if plan.op == DELETE else no_images,
            after_indices=no_images if plan.op == DELETE else indices,
            json_kinds=[column.json_kind for column in wire_columns],
            columns=[column.values for column in wire_columns],
            is_suspect=np.logical_or.reduce([column.is_suspect for column in wire_columns]),
            table_names=(pa.nulls(count, pa.string()),) if self._reads_tables else (),
        )
        return images, [column.reading for column in wire_columns], is_intact

    def _sightings(self, drift: Drift, is_row: Bools) -> Mapping[DriftedColumn, Sighting]:
        """Return the unknown and missing columns, which all records with a row share."""
        count = int(is_row.sum())
        sighting = Sighting(count, int(is_row.argmax())) if count else None
        return self._policy.reported(
            {column: sighting for column in drift.columns() if sighting is not None}
        )

    def _decode_one_by_one(self, messages: _Messages, plan: _Plan, outcome: BatchOutcome) -> None:
        """Read each message as the JSON that Kafka Connect would have written (step 3)."""
        keys = messages.keys.to_pylist()

        def read(value_index: int, value: bytes) -> Change:
            image: dict[str, Cell] = {}
            for part in plan.parts:
                image |= part.image(keys[value_index], value)
            before, after = (image, None) if plan.op == DELETE else (None, image)
            return Change((RecordImages(chr(plan.op), before, after),), drift=plan.drift)

        result = OneByOneResult()
        changes = result.read_changes(messages.values, read, self._policy)
        result.add_rows(
            changes, plan.readings, self._rules[plan.op], reads_tables=self._reads_tables
        )
        outcome.add_one_by_one(result, messages.message_indices)


def _encoding(data_type: DataType) -> Encoding:
    return texts_and_numbers(data_type, Encoding.BASE64)


def _keys_of(messages: pa.RecordBatch) -> pa.Array:
    if "key" not in messages.schema.names:
        return pa.nulls(messages.num_rows, pa.binary())
    return messages.column("key").cast(pa.binary())
