"""Debezium records of one shape → rows, in columns from the bytes to the table's types.

`debezium_json` calls it for records that `fast_decoding` declines. It parses all values at once, as
the JSON kinds of the group's shape; `parsed_images` makes the rows. It judges no record: it reports
an odd one as a suspect without rows, which `single_decoding` then reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, children_of, valid_of
from stream_app.cdc.column_drift import ColumnPolicy, DriftedColumn, Sighting
from stream_app.cdc.columns.column_reading import Encoding, Family, JsonKind
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.debezium.decoding.known_frames import FramedRecords
from stream_app.cdc.debezium.decoding.one_record import document_images_of
from stream_app.cdc.debezium.decoding.parsed_images import (
    ENVELOPE_OP,
    OPS_OF_LETTERS,
    DecodeSettings,
    ParsedImages,
    decode_images,
    flat_fields,
    flat_images,
    framed_images,
)
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES
from stream_app.cdc.json_records.batch_outcome import ColumnarResult
from stream_app.cdc.json_records.changed_columns import ops_of
from stream_app.cdc.json_records.drift_search import (
    NO_CLASS,
    SearchedRecords,
    classes_of,
    drift_in,
    first_and_last_nulls,
)
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.rows.images import Images, StackedImages
from stream_app.cdc.rows.row_assembly import lacks_image


def decode_as_shape(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> ColumnarResult | None:
    """Decode the values in one pass, or return None if they do not parse as this shape.

    Args:
        values: binary without nulls, each `json_lines.looks_like_object`.
    """
    parse = _parse_flat if shape.is_flat else _parse_envelopes
    parsed_images = parse(values, shape, settings)
    if parsed_images is None or _holds_base64_beside_numbers(values, shape, is_flat=shape.is_flat):
        return None
    return _result_by_names(values, values, parsed_images, shape, settings)


def decode_framed(
    values: pa.Array, framed_records: FramedRecords, shape: RecordShape, settings: DecodeSettings
) -> ColumnarResult | None:
    """Decode the images of framed records as `decode_as_shape` does; None also for a flat shape."""
    if shape.is_flat:
        return None
    columns = parse_objects(framed_records.images, pa.schema(shape.fields))
    if columns is None or _holds_base64_beside_numbers(framed_records.images, shape, is_flat=True):
        return None
    parsed_images = framed_images(
        framed_records.frames,
        framed_records.codes,
        framed_records.ops,
        framed_records.image_indices(),
        shape,
        columns,
        settings,
    )
    return _result_by_names(values, framed_records.joined_images(), parsed_images, shape, settings)


def _result_by_names(
    values: pa.Array,
    named_parts: pa.Array,
    parsed_images: ParsedImages,
    shape: RecordShape,
    settings: DecodeSettings,
) -> ColumnarResult:
    """Make the rows of parsed records, and find by their names the columns that differ.

    Args:
        named_parts: binary [n]; the part of each value whose names are counted.
    """
    images, image_rows, questions = decode_images(
        parsed_images, shape.readings, settings, is_flat=shape.is_flat
    )
    drift: Mapping[DriftedColumn, Sighting] = {}
    if settings.policy.reports_drift:
        drift = _find_drift(values, named_parts, images, image_rows.is_suspect, settings.policy)
    return ColumnarResult(image_rows, questions, drift)


def _inner_names(images: StackedImages) -> Int64s:
    """Count the names within each record's values that are parsed as objects: int64 [n]."""
    inner_names = np.zeros(len(images.ops), np.int64)
    for column in images.columns:
        if pa.types.is_struct(column.type):
            name_counts = np.append(column.type.num_fields * valid_of(column), 0)
            # The index -1 of a missing image is that of the last count, which is 0.
            inner_names += name_counts[images.before_indices] + name_counts[images.after_indices]
    return inner_names


def _find_drift(
    values: pa.Array,
    named_parts: pa.Array,
    images: StackedImages,
    is_suspect: Bools,
    policy: ColumnPolicy,
) -> Mapping[DriftedColumn, Sighting]:
    """Return the unknown and missing columns of the records that have rows."""
    classes = classes_of(images.ops, images.has_before)
    classes[is_suspect] = NO_CLASS
    records = SearchedRecords(
        values=values,
        named_parts=named_parts,
        classes=classes,
        null_rows=first_and_last_nulls(
            images.columns, np.where(classes != NO_CLASS, images.after_indices, -1)
        ),
        inner_names=_inner_names(images),
    )
    return policy.reported(drift_in(records, columns=policy.columns, images_of=document_images_of))


def _parse_envelopes(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> ParsedImages | None:
    """Parse envelopes; None if they do not parse as this shape."""
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
    has_whole_images = np.zeros(len(values), np.bool_)
    if "connector" in names:
        has_whole_images = bools_of(pc.is_in(names.pop("connector"), pa.array(WHOLE_IMAGES)))
    ops = ops_of(op, OPS_OF_LETTERS)
    images = Images(
        ops=ops,
        has_before=valid_of(before),
        has_after=valid_of(after),
        json_kinds=shape.json_kinds,
        before=children_of(before),
        after=children_of(after),
        is_suspect=lacks_image(ops, valid_of(before), valid_of(after)),
        table_names=tuple(names.values()),
    )
    return ParsedImages(images.stack(), has_whole_images)


def _parse_flat(
    values: pa.Array, shape: RecordShape, settings: DecodeSettings
) -> ParsedImages | None:
    """Parse flattened records; None if they do not parse as this shape."""
    readings = shape.readings
    names = {reading.name for reading in readings}
    field_names = flat_fields(settings)
    added_fields = [(name, pa.string()) for name in field_names if name not in names]
    columns = parse_objects(values, pa.schema([*shape.fields, *added_fields]))
    # A column of the table has the same name, and perhaps another type.
    shared_fields = [
        (name, pa.string()) for name in field_names if name in names and name != ENVELOPE_OP
    ]
    shared_columns = parse_objects(values, pa.schema(shared_fields)) if shared_fields else []
    if columns is None or shared_columns is None:
        return None
    text_names = [name for name, _ in added_fields + shared_fields]
    texts = dict(zip(text_names, [*columns[len(readings) :], *shared_columns], strict=True))
    return flat_images(values, columns[: len(readings)], texts, shape, settings)


def _holds_base64_beside_numbers(values: pa.Array, shape: RecordShape, *, is_flat: bool) -> bool:
    """Return whether the parser may have read base64 text of decimals as numbers.

    The parser takes text for a decimal as well as a number. Where it is base64 (a converter with
    ``decimal.format = NUMERIC`` sends numbers all the same), a second parse refuses all text.
    """
    decimals = [
        pa.field(reading.name, pa.float64())
        for reading, json_kind in zip(shape.readings, shape.json_kinds, strict=True)
        if json_kind is JsonKind.NUMBER
        and reading.family is Family.DECIMAL
        and reading.encoding is Encoding.BASE64
    ]
    if not decimals:
        return False
    row = pa.struct(decimals)
    images = [pa.field("before", row), pa.field("after", row)]
    return parse_objects(values, pa.schema(decimals if is_flat else images)) is None
