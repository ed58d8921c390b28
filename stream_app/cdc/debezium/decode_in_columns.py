"""Debezium records of one shape → rows, in columns from the bytes to the table's types.

Called by `debezium_json` for records that `decode_by_images` declines. That module, and those of
Debezium's Avro, share its steps from parsed images on. It never judges: it reports an odd record as
a suspect without rows, which `decode_one_by_one` then reads.

1. Parse all values at once, as the kinds that the batch is known to have.
2. Put back unchanged TOAST values from the before-images.
3. Make rows of the images (`images`).
4. List the questions to the Kafka keys of the others, and the source tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, children_of, valid_of
from stream_app.cdc.column_drift import ColumnPolicy, DriftedColumn, Sighting
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES, KeyQuestion, KeyRules, questions_of
from stream_app.cdc.debezium.known_frames import FramedRecords
from stream_app.cdc.debezium.one_record import (
    DELETED_FIELD,
    FLAT_FIELDS,
    HEARTBEAT_FIELDS,
    OP_FIELD,
    ROW_OPS,
    TABLE_FIELDS,
    images_of,
)
from stream_app.cdc.debezium.placeholders import Placeholder, restored_images
from stream_app.cdc.json_records.changed_columns import ops_of
from stream_app.cdc.json_records.drift_search import (
    NO_CLASS,
    SearchedRecords,
    classes_of,
    drift_in,
    first_and_last_nulls,
)
from stream_app.cdc.json_records.outcome import DecodedRecords, Questions
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.rows.images import ImageRows, Images, RowRules, StackedImages, rows_of
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, Ops, lacks_image

_ENVELOPE_OP = "op"
OPS = {letter: ord(letter) for letter in ROW_OPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """The settings of all records of a table.

    Attributes:
        rows: how images become rows.
        policy: what becomes of records that have other columns than the table.
        key_rules: when it is certain which row a change means.
        reads_tables: whether the name of each record's source table is read.
        placeholder: what stands for a value that the change left as it was.
        restored: columns whose value the table's writer finds; see `TableTraits.restored`.
    """

    rows: RowRules
    policy: ColumnPolicy
    key_rules: KeyRules
    reads_tables: bool
    placeholder: Placeholder
    restored: frozenset[str] = frozenset()

    @property
    def source_fields(self) -> tuple[str, ...]:
        """The fields of an envelope's `source` that are read."""
        connector = ("connector",) if self.key_rules.reads_connector else ()
        return connector + (TABLE_FIELDS if self.reads_tables else ())


@dataclass(frozen=True, slots=True)
class ParsedImages:
    """Images, and Debezium's other fields.

    Attributes:
        is_whole: bool [n]; where the connector is one of `WHOLE_IMAGES`, if that is asked.
        has_op: False: flattened records without ``__op``, which count as creates.
    """

    images: StackedImages
    is_whole: Bools
    has_op: bool = True


def decode_columns(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> DecodedRecords | None:
    """Decode the values in one go; None when they do not parse as this shape.

    Args:
        values: binary without nulls, each `json_lines.looks_like_object`.
    """
    parse = _parse_flat if shape.is_flat else _parse_envelopes
    parsed = parse(values, shape, settings)
    if parsed is None or _holds_base64_beside_numbers(values, shape, is_flat=shape.is_flat):
        return None
    return _decoded(values, values, parsed, shape, settings)


def decode_framed(
    values: pa.Array, framed: FramedRecords, shape: RecordShape, settings: DecodeSettings
) -> DecodedRecords | None:
    """Decode as `decode_columns` does, with images in `framed`; None also for a flat shape."""
    if shape.is_flat:
        return None
    columns = parse_objects(framed.images, pa.schema(shape.fields))
    if columns is None or _holds_base64_beside_numbers(framed.images, shape, is_flat=True):
        return None
    before_at, after_at = framed.image_places()
    whole = [frame.source["connector"] in WHOLE_IMAGES for frame in framed.frames]
    images = StackedImages(
        ops=framed.ops,
        before_at=before_at,
        after_at=after_at,
        kinds=shape.kinds,
        columns=columns,
        suspects=lacks_image(framed.ops, framed.has_before, framed.has_after),
        tables=[framed.texts(name) for name in TABLE_FIELDS] if settings.reads_tables else (),
    )
    parsed = ParsedImages(images, np.array(whole)[framed.codes])
    return _decoded(values, framed.joined_images(), parsed, shape, settings)


def _decoded(
    values: pa.Array,
    named: pa.Array,
    parsed: ParsedImages,
    shape: RecordShape,
    settings: DecodeSettings,
) -> DecodedRecords:
    """The rows of parsed values; `named` are the parts whose names are counted."""
    images, decoded, questions = decode_images(
        parsed, shape.readings, settings, is_flat=shape.is_flat
    )
    drift: Mapping[DriftedColumn, Sighting] = {}
    if settings.policy.reports_drift:
        drift = _drift(values, named, images, decoded.suspects, settings.policy)
    return DecodedRecords(decoded, questions, drift)


def decode_images(
    parsed: ParsedImages,
    readings: Sequence[ColumnReading],
    settings: DecodeSettings,
    *,
    is_flat: bool,
) -> tuple[StackedImages, ImageRows, Questions]:
    """The images with unchanged values restored, their rows, and questions to the keys."""
    has_old_values = not (settings.rows.before_has_key_only or is_flat)
    images = restored_images(  # step 2
        parsed.images,
        readings,
        settings.placeholder,
        restored=settings.restored,
        has_old_values=has_old_values,
    )
    decoded = rows_of(images, readings, settings.rows)  # step 3
    return images, decoded, _questions(parsed, decoded.suspects, settings.key_rules)


def _questions(parsed: ParsedImages, suspects: Bools, rules: KeyRules) -> Questions:
    images = parsed.images
    asked = questions_of(rules, images.ops, images.has_before, parsed.is_whole)
    if not parsed.has_op and rules.primary_key:
        asked[images.ops == CREATE] = KeyQuestion.UPSERT
    asked[suspects] = KeyQuestion.NONE
    return asked


def _inner_names(images: StackedImages) -> Int64s:
    """The number of names in each record's values of columns that are parsed as objects."""
    names = np.zeros(len(images.ops), np.int64)
    for column in images.columns:
        if pa.types.is_struct(column.type):
            of_image = np.append(column.type.num_fields * valid_of(column), 0)
            names += of_image[images.before_at] + of_image[images.after_at]  # -1: the last
    return names


def _drift(
    values: pa.Array,
    named: pa.Array,
    images: StackedImages,
    suspects: Bools,
    policy: ColumnPolicy,
) -> Mapping[DriftedColumn, Sighting]:
    classes = classes_of(images.ops, images.has_before)
    classes[suspects] = NO_CLASS
    records = SearchedRecords(
        values=values,
        named=named,
        classes=classes,
        nulls=first_and_last_nulls(
            images.columns, np.where(classes != NO_CLASS, images.after_at, -1)
        ),
        inner=_inner_names(images),
    )
    return policy.reported(drift_in(records, columns=policy.columns, images_of=images_of))


def _parse_envelopes(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> ParsedImages | None:
    row = pa.struct(shape.fields)
    fields = [("op", pa.string()), ("before", row), ("after", row)]
    if settings.source_fields:
        source = pa.struct([(name, pa.string()) for name in settings.source_fields])
        fields.append(("source", source))
    columns = parse_objects(values, pa.schema(fields))
    if columns is None:
        return None
    op, before, after = columns[:3]
    source = children_of(columns[3]) if columns[3:] else []
    names = dict(zip(settings.source_fields, source, strict=True))
    is_whole = np.zeros(len(values), np.bool_)
    if "connector" in names:
        is_whole = bools_of(pc.is_in(names.pop("connector"), pa.array(WHOLE_IMAGES)))
    ops = ops_of(op, OPS)
    images = Images(
        ops=ops,
        has_before=valid_of(before),
        has_after=valid_of(after),
        kinds=shape.kinds,
        before=children_of(before),
        after=children_of(after),
        suspects=lacks_image(ops, valid_of(before), valid_of(after)),
        tables=tuple(names.values()),
    )
    return ParsedImages(images.stacked(), is_whole)


def _parse_flat(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> ParsedImages | None:
    readings = shape.readings
    names = {reading.name for reading in readings}
    wanted = flat_fields(settings)
    added = [(name, pa.string()) for name in wanted if name not in names]
    columns = parse_objects(values, pa.schema([*shape.fields, *added]))
    # Of the same name as one of the table's columns, which has a type of its own.
    shared = [(name, pa.string()) for name in wanted if name in names and name != _ENVELOPE_OP]
    others = parse_objects(values, pa.schema(shared)) if shared else []
    if columns is None or others is None:
        return None
    texts = [name for name, _ in added + shared]
    extra = dict(zip(texts, [*columns[len(readings) :], *others], strict=True))
    return flat_images(values, columns[: len(readings)], extra, shape, settings)


def flat_fields(settings: DecodeSettings) -> tuple[str, ...]:
    """The texts that are read of a flattened record, beside the table's columns."""
    return (OP_FIELD, DELETED_FIELD, _ENVELOPE_OP, *(FLAT_FIELDS if settings.reads_tables else ()))


def flat_images(
    values: pa.Array,
    rows: Sequence[pa.Array],
    extra: Mapping[str, pa.Array],
    shape: RecordShape,
    settings: DecodeSettings,
) -> ParsedImages:
    """The images of flattened records, which are parsed.

    Args:
        values: binary [n].
        rows: for each of the table's columns an array [n].
        extra: the texts [n] of `flat_fields`; without `op` where that is a column of the table.
    """
    readings = shape.readings
    ops: Ops = np.full(len(values), CREATE, np.uint8)
    suspects: Bools = np.zeros(len(values), np.bool_)
    has_op = extra[OP_FIELD].null_count < len(values)
    if has_op:
        ops = ops_of(extra[OP_FIELD], OPS)
        suspects = ops == 0
    else:
        # Without an op, a marker of the transaction topic could pass for a row with its "id".
        suspects = bools_of(pc.match_substring(values, '"data_collections":'))
        if HEARTBEAT_FIELDS.issuperset(reading.name for reading in readings if reading.is_key):
            suspects |= _without_row(values, rows, readings)
    suspects |= _like_envelopes(values, extra.get(_ENVELOPE_OP))
    is_deleted = bools_of(pc.equal(extra[DELETED_FIELD], "true"))
    ops = np.where(is_deleted, np.uint8(DELETE), ops)
    is_delete: Bools = ops == DELETE
    at = np.arange(len(values))
    images = StackedImages(
        ops=ops,
        before_at=np.where(is_delete, at, -1),
        after_at=np.where(is_delete, -1, at),
        kinds=shape.kinds,
        columns=rows,
        suspects=suspects,
        tables=[extra[name] for name in FLAT_FIELDS] if settings.reads_tables else (),
    )
    return ParsedImages(images, np.zeros(len(values), np.bool_), has_op=has_op)


def _like_envelopes(values: pa.Array, op: pa.Array | None) -> Bools:
    """The mask of flattened records with an envelope's field `op`; None if `op` is a table's
    column.
    """
    if op is not None:
        return valid_of(op)
    return bools_of(pc.match_substring_regex(values, '"(before|after|source|message)"'))


def _without_row(
    values: pa.Array, rows: Sequence[pa.Array], readings: tuple[ColumnReading, ...]
) -> Bools:
    """The mask of messages that no key proves to be rows, and that may be heartbeats or similar."""
    suspects = bools_of(pc.match_substring(values, '"databaseName":'))
    present: Bools = np.zeros(len(values), np.bool_)
    for reading, column in zip(readings, rows, strict=True):
        if reading.name not in HEARTBEAT_FIELDS:
            present |= valid_of(column)
    return suspects | ~present


def _holds_base64_beside_numbers(values: pa.Array, shape: RecordShape, *, is_flat: bool) -> bool:
    """Whether the parser may have taken base64 text of decimals for numbers.

    The parser takes text for a decimal as well as a number. Where it is base64 (a converter with
    ``decimal.format = NUMERIC`` sends numbers all the same), a second parse refuses all text.
    """
    bare = [
        pa.field(reading.name, pa.float64())
        for reading, kind in zip(shape.readings, shape.kinds, strict=True)
        if kind is JsonKind.NUMBER
        and reading.family is Family.DECIMAL
        and reading.encoding is Encoding.BASE64
    ]
    if not bare:
        return False
    row = pa.struct(bare)
    images = [pa.field("before", row), pa.field("after", row)]
    return parse_objects(values, pa.schema(bare if is_flat else images)) is None
