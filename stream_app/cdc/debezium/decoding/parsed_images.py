"""Turns parsed images of Debezium's records into rows, and into questions to the Kafka keys.

`fast_decoding`, `whole_decoding` and Debezium's Avro share these steps:

1. Put back unchanged TOAST values from the before-images.
2. Make rows of the images (`images`).
3. List the questions to the Kafka keys of records whose row the images do not prove.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, valid_of
from stream_app.cdc.column_drift import ColumnPolicy
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.cdc.debezium.decoding.known_frames import RecordFrame, known_texts
from stream_app.cdc.debezium.decoding.one_record import (
    DELETED_FIELD,
    FLAT_FIELDS,
    HEARTBEAT_FIELDS,
    OP_FIELD,
    ROW_OPS,
    TABLE_FIELDS,
)
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES, KeyQuestion, KeyRules, questions_of
from stream_app.cdc.debezium.placeholders import Placeholder, restore_images
from stream_app.cdc.json_records.batch_outcome import KeyQuestions
from stream_app.cdc.json_records.changed_columns import ops_of
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.rows.images import ImageRows, RowRules, StackedImages, rows_of_images
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, Ops, lacks_image

ENVELOPE_OP = "op"
OPS_OF_LETTERS = {letter: ord(letter) for letter in ROW_OPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """The settings of all records of a table.

    Attributes:
        row_rules: how images become rows.
        policy: the reaction to records whose columns differ from the table's.
        key_rules: decides when the row of a change is certain.
        reads_tables: whether the name of each record's source table is read.
        placeholder: the stand-in for a value that the change did not modify.
        restored_columns: the columns whose unchanged values the writer can look up in the table.
    """

    row_rules: RowRules
    policy: ColumnPolicy
    key_rules: KeyRules
    reads_tables: bool
    placeholder: Placeholder
    restored_columns: frozenset[str] = frozenset()

    @property
    def source_fields(self) -> tuple[str, ...]:
        """The fields of an envelope's `source` that are read."""
        connector = ("connector",) if self.key_rules.reads_connector else ()
        return connector + (TABLE_FIELDS if self.reads_tables else ())


@dataclass(frozen=True, slots=True)
class ParsedImages:
    """Images, and Debezium's other fields.

    Attributes:
        has_whole_images: bool [n]; whether the connector is one of `WHOLE_IMAGES`; false if its
            name is not read.
        has_op: False for flattened records without ``__op``, which count as creates.
    """

    images: StackedImages
    has_whole_images: Bools
    has_op: bool = True


def decode_images(
    parsed_images: ParsedImages,
    readings: Sequence[ColumnReading],
    settings: DecodeSettings,
    *,
    is_flat: bool,
) -> tuple[StackedImages, ImageRows, KeyQuestions]:
    """Return the images with unchanged values restored, their rows, and questions to the keys."""
    has_old_values = not (settings.row_rules.before_has_key_only or is_flat)
    # step 1
    images = restore_images(
        parsed_images.images,
        readings,
        settings.placeholder,
        restored_columns=settings.restored_columns,
        has_old_values=has_old_values,
    )
    image_rows = rows_of_images(images, readings, settings.row_rules)  # step 2
    questions = _questions(parsed_images, image_rows.is_suspect, settings.key_rules)  # step 3
    return images, image_rows, questions


def _questions(parsed_images: ParsedImages, is_suspect: Bools, rules: KeyRules) -> KeyQuestions:
    images = parsed_images.images
    questions = questions_of(rules, images.ops, images.has_before, parsed_images.has_whole_images)
    if not parsed_images.has_op and rules.primary_key:
        questions[images.ops == CREATE] = KeyQuestion.UPSERT
    questions[is_suspect] = KeyQuestion.NONE
    return questions


def framed_images(
    frames: Sequence[RecordFrame],
    codes: Int64s,
    ops: Ops,
    image_indices: tuple[Int64s, Int64s],
    shape: RecordShape,
    columns: Sequence[pa.Array],
    settings: DecodeSettings,
) -> ParsedImages:
    """Return the parsed images of n records with known frames.

    Args:
        codes: int64 [n]; the index of each record's frame in `frames`.
        image_indices: int64 [n], [n]; the row of each record's image before and after, or -1.
        columns: for each of the table's columns an array of all images.
    """
    before_indices, after_indices = image_indices
    images = StackedImages(
        ops=ops,
        before_indices=before_indices,
        after_indices=after_indices,
        json_kinds=shape.json_kinds,
        columns=columns,
        is_suspect=lacks_image(ops, before_indices >= 0, after_indices >= 0),
        table_names=[known_texts(frames, codes, name) for name in TABLE_FIELDS]
        if settings.reads_tables
        else (),
    )
    has_whole_images = np.array([frame.source["connector"] in WHOLE_IMAGES for frame in frames])
    return ParsedImages(images, has_whole_images[codes])


def flat_fields(settings: DecodeSettings) -> tuple[str, ...]:
    """Return the texts to read of a flattened record, in addition to the table's columns."""
    return (OP_FIELD, DELETED_FIELD, ENVELOPE_OP, *(FLAT_FIELDS if settings.reads_tables else ()))


def flat_images(
    values: pa.Array,
    columns: Sequence[pa.Array],
    texts: Mapping[str, pa.Array],
    shape: RecordShape,
    settings: DecodeSettings,
) -> ParsedImages:
    """Return the images of parsed flattened records.

    Args:
        values: binary [n].
        columns: for each of the table's columns an array [n].
        texts: the texts [n] of `flat_fields`; without `op` where that is a column of the table.
    """
    readings = shape.readings
    ops: Ops = np.full(len(values), CREATE, np.uint8)
    is_suspect: Bools = np.zeros(len(values), np.bool_)
    has_op = texts[OP_FIELD].null_count < len(values)
    if has_op:
        ops = ops_of(texts[OP_FIELD], OPS_OF_LETTERS)
        is_suspect = ops == 0
    else:
        # Without an op, a marker of the transaction topic could pass for a row with its "id".
        is_suspect = bools_of(pc.match_substring(values, '"data_collections":'))
        if HEARTBEAT_FIELDS.issuperset(reading.name for reading in readings if reading.is_key):
            is_suspect |= _may_lack_row(values, columns, readings)
    is_suspect |= _may_be_envelopes(values, texts.get(ENVELOPE_OP))
    is_deleted = bools_of(pc.equal(texts[DELETED_FIELD], "true"))
    ops = np.where(is_deleted, np.uint8(DELETE), ops)
    is_delete: Bools = ops == DELETE
    image_indices = np.arange(len(values))
    images = StackedImages(
        ops=ops,
        before_indices=np.where(is_delete, image_indices, -1),
        after_indices=np.where(is_delete, -1, image_indices),
        json_kinds=shape.json_kinds,
        columns=columns,
        is_suspect=is_suspect,
        table_names=[texts[name] for name in FLAT_FIELDS] if settings.reads_tables else (),
    )
    return ParsedImages(images, np.zeros(len(values), np.bool_), has_op=has_op)


def _may_be_envelopes(values: pa.Array, op: pa.Array | None) -> Bools:
    """Return the mask of flattened records that may be envelopes: bool [n].

    Args:
        op: the field `op` as text; None if the table has a column of that name.
    """
    if op is not None:
        return valid_of(op)
    return bools_of(pc.match_substring_regex(values, '"(before|after|source|message)"'))


def _may_lack_row(
    values: pa.Array, columns: Sequence[pa.Array], readings: tuple[ColumnReading, ...]
) -> Bools:
    """Return the mask of messages without a proven row, such as heartbeats."""
    is_suspect = bools_of(pc.match_substring(values, '"databaseName":'))
    has_value: Bools = np.zeros(len(values), np.bool_)
    for reading, column in zip(readings, columns, strict=True):
        if reading.name not in HEARTBEAT_FIELDS:
            has_value |= valid_of(column)
    return is_suspect | ~has_value
