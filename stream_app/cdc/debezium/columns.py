"""Debezium records that look alike → rows, in columns from the bytes to the table's types.

The fast path of `debezium_json`. It never judges: a record with anything odd about it is named
as a suspect and its rows are left out, and `records` then reads it on its own.

1. Parse all values at once, as the kinds that the batch is known to have.
2. Put back unchanged TOAST values from the before-images.
3. Choose the rows of each record, and bring each column into the order of the rows.
4. Cast each column to the table's type.
5. Drop the rows of suspects.
6. Say what the rest wants to know of its Kafka keys, and of which source tables it tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.column_drift import Column, ColumnPolicy, Sighting
from stream_app.cdc.columns.arrow_buffers import (
    Bools,
    Int64s,
    bools_of,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    valid_of,
)
from stream_app.cdc.columns.column_cast import cast_column
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.debezium.drift_search import NO_CLASS, drift_in
from stream_app.cdc.debezium.placeholders import placeholders_in
from stream_app.cdc.debezium.record_reader import (
    DELETED_FIELD,
    HEARTBEAT_FIELDS,
    OP_FIELD,
)
from stream_app.cdc.debezium.record_shapes import RecordShape
from stream_app.cdc.key_proof import (
    WHOLE_IMAGES,
    KeyRules,
    Question,
    Questions,
    ReplicaIdentity,
    questions_of,
)
from stream_app.cdc.row_assembly import (
    CREATE,
    DELETE,
    READ,
    UPDATE,
    Ops,
    RowPlan,
    fill_invented,
    forget_invented,
    key_changes,
    plan_rows,
)
from stream_app.cdc.source_tables import TABLE_FIELDS, first_records

_ENVELOPE_OP = "op"
_WITH_BEFORE = np.uint8(0x80)
"""Added to a record's op, which is a letter of ASCII."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """What holds for every record of a table.

    Attributes:
        schema: of the rows, `change_batch.change_schema`.
        keep_update_before: whether every update gives -U too.
        policy: what becomes of records that have other columns than the table.
        key_rules: when it is certain which row a change means.
        reads_tables: whether the name of each record's source table is looked at.
    """

    schema: pa.Schema
    keep_update_before: bool
    policy: ColumnPolicy
    key_rules: KeyRules
    reads_tables: bool

    @property
    def before_has_key_only(self) -> bool:
        """Whether before-images hold nothing but the source's key."""
        return self.key_rules.identity is ReplicaIdentity.DEFAULT

    @property
    def source_fields(self) -> tuple[str, ...]:
        """The fields of an envelope's `source` that are looked at."""
        connector = ("connector",) if self.key_rules.reads_connector else ()
        return connector + (TABLE_FIELDS if self.reads_tables else ())


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows and, for each, the position of its record.

    Attributes:
        suspects: records that were left out.
        questions: what each record wants to know of its Kafka key.
        tables: name of a source table → its first record.
        columns: unknown and missing columns of the records that were not left out.
    """

    rows: pa.RecordBatch
    record: npt.NDArray[np.int64]
    suspects: Bools
    questions: Questions
    tables: dict[str, int]
    columns: Mapping[Column, Sighting]


@dataclass(slots=True)
class _Images:
    """Parsed records: a column for each of the table's, before and after the change."""

    ops: Ops
    has_before: Bools
    has_after: Bools
    before: list[pa.Array]
    after: list[pa.Array]
    suspects: Bools
    source: dict[str, pa.Array]
    is_op_told: bool = True


def decode_columns(
    values: pa.Array,
    readings: tuple[ColumnReading, ...],
    shape: RecordShape,
    settings: DecodeSettings,
) -> DecodedRows | None:
    """Decode the values in one go; None when they do not parse as this shape.

    Args:
        values: binary without nulls, each `json_lines.looks_like_object`.
    """
    parse = _parse_flat if shape.is_flat else _parse_envelopes
    images = parse(values, readings, shape, settings)
    if images is None or _holds_base64_beside_numbers(values, readings, shape):
        return None
    _restore_unchanged(images, readings, shape, settings)  # step 2
    wanted: Bools | bool = settings.keep_update_before
    if not wanted and bool((images.has_before & images.has_after).any()):
        wanted = key_changes(readings, images.before, images.after)
    plan = plan_rows(images.ops, images.has_before, images.has_after, wanted)  # step 3
    columns = [pa.array(plan.kinds)]
    for index, reading in enumerate(readings):
        wire = plan.take(images.before[index], images.after[index])
        columns.append(_cast(reading, shape.kinds[index], wire, plan, images, settings))
    rows = pa.RecordBatch.from_arrays(columns, schema=settings.schema)
    record = plan.record
    if images.suspects.any():  # step 5
        kept = ~images.suspects[record]
        rows, record = rows.filter(pa.array(kept)), record[kept]
    questions = _questions(images, settings.key_rules)
    tables = first_records(images.source, ~images.suspects)
    columns_seen = _drift(values, images, shape, settings) if settings.policy.looks else {}
    return DecodedRows(rows, record, images.suspects, questions, tables, columns_seen)


def _questions(images: _Images, rules: KeyRules) -> Questions:
    connector = images.source.get("connector")
    if connector is None or connector.null_count == len(connector):
        is_whole = np.zeros(len(images.ops), np.bool_)
    else:
        is_whole = bools_of(pc.is_in(connector, pa.array(WHOLE_IMAGES)))
    asked = questions_of(rules, images.ops, images.has_before, is_whole)
    if not images.is_op_told and rules.primary_key:
        asked[images.ops == CREATE] = Question.UPSERT
    asked[images.suspects] = Question.NONE
    return asked


def _inner_names(columns: Sequence[pa.Array], count: int) -> Int64s:
    """How many names of each record stand in values of columns that are parsed as objects."""
    names = np.zeros(count, np.int64)
    for column in columns:
        if pa.types.is_struct(column.type):
            names += column.type.num_fields * valid_of(column)
    return names


def _drift(
    values: pa.Array, images: _Images, shape: RecordShape, settings: DecodeSettings
) -> Mapping[Column, Sighting]:
    classes = np.where(images.has_before, images.ops | _WITH_BEFORE, images.ops)
    classes[images.suspects] = NO_CLASS
    found = drift_in(
        values,
        classes,
        images.after,
        images.has_after,
        _inner_names([*([] if shape.is_flat else images.before), *images.after], len(values)),
        columns=settings.policy.columns,
        is_flat=shape.is_flat,
    )
    return settings.policy.told(found)


def _parse_envelopes(
    values: pa.Array,
    readings: tuple[ColumnReading, ...],
    shape: RecordShape,
    settings: DecodeSettings,
) -> _Images | None:
    row = pa.struct(_row_fields(readings, shape))
    fields = [("op", pa.string()), ("before", row), ("after", row)]
    if settings.source_fields:
        source = pa.struct([(name, pa.string()) for name in settings.source_fields])
        fields.append(("source", source))
    columns = parse_objects(values, pa.schema(fields))
    if columns is None:
        return None
    op, before, after = columns[:3]
    source = _children(columns[3]) if columns[3:] else []
    told = dict(zip(settings.source_fields, source, strict=True))
    ops, has_before, has_after = _letters(op), valid_of(before), valid_of(after)
    is_upsert = (ops == CREATE) | (ops == READ) | (ops == UPDATE)
    suspects: Bools = ~((is_upsert & has_after) | ((ops == DELETE) & has_before))
    images = _children(before), _children(after)
    return _Images(ops, has_before, has_after, *images, suspects, told)


def _parse_flat(
    values: pa.Array,
    readings: tuple[ColumnReading, ...],
    shape: RecordShape,
    settings: DecodeSettings,
) -> _Images | None:
    names = {reading.name for reading in readings}
    of_table = [f"__{name}" for name in TABLE_FIELDS] if settings.reads_tables else []
    wanted = [(name, pa.string()) for name in (OP_FIELD, DELETED_FIELD, _ENVELOPE_OP, *of_table)]
    added = [field for field in wanted if field[0] not in names]
    columns = parse_objects(values, pa.schema([*_row_fields(readings, shape), *added]))
    # Of the same name as one of the table's columns, which has a type of its own.
    shared = [field for field in wanted if field[0] in names and field[0] != _ENVELOPE_OP]
    others = parse_objects(values, pa.schema(shared)) if shared else []
    if columns is None or others is None:
        return None
    rows = columns[: len(readings)]
    extra = dict(zip(dict(added + shared), [*columns[len(readings) :], *others], strict=True))
    ops: Ops = np.full(len(values), CREATE, np.uint8)
    suspects: Bools = np.zeros(len(values), np.bool_)
    is_op_told = extra[OP_FIELD].null_count < len(values)
    if is_op_told:
        ops = _letters(extra[OP_FIELD])
        suspects = ~np.isin(ops, (CREATE, READ, UPDATE, DELETE))
    else:
        # Without an op, a marker of the transaction topic could pass for a row with its "id".
        suspects = bools_of(pc.match_substring(values, '"data_collections":'))
        if HEARTBEAT_FIELDS.issuperset(reading.name for reading in readings if reading.is_key):
            suspects |= _without_row(values, rows, readings)
    suspects |= _like_envelopes(values, extra.get(_ENVELOPE_OP))
    is_deleted = bools_of(pc.equal(extra[DELETED_FIELD], "true"))
    ops = np.where(is_deleted, np.uint8(DELETE), ops)
    is_delete: Bools = ops == DELETE
    told = {name: extra[f"__{name}"] for name in TABLE_FIELDS if of_table}
    return _Images(
        ops, is_delete, ~is_delete, rows, list(rows), suspects, told, is_op_told=is_op_told
    )


def _like_envelopes(values: pa.Array, op: pa.Array | None) -> Bools:
    """Where a flattened record has an envelope's field `op`; None: it is a column of the table."""
    if op is not None:
        return valid_of(op)
    return bools_of(pc.match_substring_regex(values, '"(before|after|source|message)"'))


def _without_row(
    values: pa.Array, rows: list[pa.Array], readings: tuple[ColumnReading, ...]
) -> Bools:
    """Where no key tells that there is a row, and the message may be a heartbeat or the like."""
    suspects = bools_of(pc.match_substring(values, '"databaseName":'))
    present: Bools = np.zeros(len(values), np.bool_)
    for reading, column in zip(readings, rows, strict=True):
        if reading.name not in HEARTBEAT_FIELDS:
            present |= valid_of(column)
    return suspects | ~present


def _holds_base64_beside_numbers(
    values: pa.Array, readings: tuple[ColumnReading, ...], shape: RecordShape
) -> bool:
    """Whether text that has to be decoded would pass for digits.

    The parser takes text for a decimal as well as a number. Where it is base64 (a converter with
    ``decimal.format = NUMERIC`` sends numbers all the same), a second parse refuses all text.
    """
    bare = [
        pa.field(reading.name, pa.float64())
        for reading, kind in zip(readings, shape.kinds, strict=True)
        if kind is JsonKind.NUMBER
        and reading.family is Family.DECIMAL
        and reading.encoding is Encoding.BASE64
    ]
    if not bare:
        return False
    row = pa.struct(bare)
    images = [pa.field("before", row), pa.field("after", row)]
    return parse_objects(values, pa.schema(bare if shape.is_flat else images)) is None


def _row_fields(readings: tuple[ColumnReading, ...], shape: RecordShape) -> list[pa.Field]:
    return [
        pa.field(reading.name, reading.wire_type(kind))
        for reading, kind in zip(readings, shape.kinds, strict=True)
    ]


def _children(rows: pa.Array) -> list[pa.Array]:
    """Columns of a struct; the parser has put null into them where the struct is null."""
    return [rows.field(index) for index in range(rows.type.num_fields)]


def _letters(texts: pa.Array) -> Ops:
    """The byte of each one-letter string; 0 for null and for any other."""
    offsets, data, lengths = offsets_of(texts), bytes_of(texts), lengths_of(texts)
    single = lengths == 1
    if single.all():
        return data[offsets[:-1]]
    letters: Ops = np.zeros(len(texts), np.uint8)
    letters[single] = data[offsets[:-1][single]]
    return letters


def _restore_unchanged(
    images: _Images,
    readings: tuple[ColumnReading, ...],
    shape: RecordShape,
    settings: DecodeSettings,
) -> None:
    """Replace placeholders in after-images by the value before; without one: a suspect."""
    for index, reading in enumerate(readings):
        if not pa.types.is_string(reading.wire_type(shape.kinds[index])):
            continue
        before = images.before[index]
        unknown = placeholders_in(reading, before)
        if unknown is not None:
            before = images.before[index] = null_where(before, unknown)
        unchanged = placeholders_in(reading, images.after[index])
        if unchanged is None:
            continue
        if settings.before_has_key_only or shape.is_flat:
            images.suspects |= unchanged & images.has_after
        else:
            images.suspects |= unchanged & ~valid_of(before)
            images.after[index] = pc.if_else(pa.array(unchanged), before, images.after[index])


def _cast(
    reading: ColumnReading,
    kind: JsonKind,
    wire: pa.Array,
    plan: RowPlan,
    images: _Images,
    settings: DecodeSettings,
) -> pa.Array:
    """Steps 4: one column of the rows; records with a value that does not fit are suspects."""
    if settings.before_has_key_only:
        wire = forget_invented(reading, wire, plan)
    column, failed = cast_column(reading, kind, wire)
    if failed is not None:
        images.suspects[plan.record[failed]] = True
    if settings.before_has_key_only:
        column = fill_invented(reading, column, plan)
    if reading.required and column.null_count:
        images.suspects[plan.record[~valid_of(column)]] = True
    return column
