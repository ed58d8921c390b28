"""Debezium records → rows, their images parsed by machine code.

A way of `debezium_json` beside `columns`, and faster: hardly a byte is looked at twice. It takes
records with a known tail, and flattened ones. Messages that the machine code
declines stay for the other ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from stream_app.cdc.column_drift import Column, ColumnPolicy, Sighting, add_sighting
from stream_app.cdc.columns.arrow_buffers import Int64s, bytes_of, offsets_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, JsonKind
from stream_app.cdc.debezium.columns import (
    DecodeSettings,
    ParsedImages,
    decode_images,
    flat_fields,
    flat_images,
)
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES
from stream_app.cdc.debezium.record_frames import FramedTails, texts_of
from stream_app.cdc.debezium.record_reader import TABLE_FIELDS, images_of
from stream_app.cdc.json_records.dialect import DocumentImages
from stream_app.cdc.json_records.outcome import DecodedRecords
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.rows.images import StackedImages
from stream_app.cdc.rows.row_assembly import lacks_image
from stream_app.model.schema.data_type import STRING

if TYPE_CHECKING:
    from stream_app.cdc.compiled.image_columns import ImageLayout

_REST_SLICES = 16


@dataclass(slots=True)
class CompiledShape:
    """The layout of the last shape, and how long it rests.

    Attributes:
        shape: the shape that the layout is for.
        layout: None: machine code cannot parse this shape.
        rests: slices to be left to the other ways, as most messages were declined.
    """

    parser: type[ImageLayout]
    shape: RecordShape | None = None
    layout: ImageLayout | None = None
    rests: int = 0

    def decode(
        self,
        values: pa.Array,
        tails: FramedTails | None,
        shape: RecordShape,
        settings: DecodeSettings,
    ) -> tuple[Int64s, DecodedRecords] | None:
        """Decode the values that machine code takes.

        Args:
            tails: None: too few records have a known tail.

        Returns:
            The positions of these values, and what they give. None: it takes too few, or none of
            this shape.
        """
        if not shape.is_flat and tails is None:
            return None
        if shape is not self.shape:
            first = int(tails.rows[0]) if tails is not None and len(tails.rows) else 0
            self.shape, self.rests = shape, 0
            self.layout = self._made(values[first].as_py(), shape, settings)
        if self.rests:
            self.rests -= 1
            return None
        if self.layout is None:
            return None
        if shape.is_flat:
            result = _decoded_rows(values, self.layout, shape, settings)
        else:
            assert tails is not None
            result = _decoded(values, tails, (shape, self.layout), settings)
        if result is None:
            self.rests = _REST_SLICES
        return result

    def _made(
        self, first: bytes, shape: RecordShape, settings: DecodeSettings
    ) -> ImageLayout | None:
        readings, kinds = list(shape.readings), list(shape.kinds)
        if shape.is_flat:
            names = {reading.name for reading in readings}
            added = flat_fields(settings)
            if not names.isdisjoint(added):
                return None
            readings += map(_text_reading, added)
            kinds += [JsonKind.STRING] * len(added)
        shortest = min(map(len, settings.placeholder.binaries))
        return self.parser.of(
            readings,
            kinds,
            _names(first),
            reads_base64=shortest > self.parser.BASE64_MAX,
        )


def _text_reading(name: str) -> ColumnReading:
    return ColumnReading(
        name=name,
        data_type=STRING,
        arrow_type=pa.string(),
        encoding=Encoding.TEXT,
        scale=0,
        required=False,
        is_key=False,
    )


def _names(value: bytes) -> Sequence[str]:
    """The names of the columns of a record's first image, in their order."""
    images = _images(value)
    return () if images is None else tuple(next(iter((*images.befores, *images.afters)), {}))


def _images(value: bytes) -> DocumentImages | None:
    try:
        return images_of(orjson.loads(value))
    except orjson.JSONDecodeError:  # of a number that no double holds, in a column of no table
        return None


def _decoded(
    values: pa.Array,
    tails: FramedTails,
    layout: tuple[RecordShape, ImageLayout],
    settings: DecodeSettings,
) -> tuple[Int64s, DecodedRecords] | None:
    shape, of_images = layout
    starts = offsets_of(values)[tails.rows].astype(np.int64)
    heads = of_images.parse(bytes_of(values), starts, tails.lasts)
    if heads is None or 2 * np.count_nonzero(heads.parsed) < len(tails.rows):
        return None
    if not len(heads.columns[0]):
        return None
    kept = slice(None) if heads.parsed.all() else heads.parsed
    rows, ops, codes = tails.rows[kept], tails.ops[kept], tails.codes[kept]
    before_at, after_at = heads.before_at[kept], heads.after_at[kept]
    images = StackedImages(
        ops=ops,
        before_at=before_at,
        after_at=after_at,
        kinds=shape.kinds,
        columns=heads.columns,
        suspects=lacks_image(ops, before_at >= 0, after_at >= 0),
        tables=[texts_of(tails.frames, codes, name) for name in TABLE_FIELDS]
        if settings.reads_tables
        else (),
    )
    whole = np.array([frame.source["connector"] in WHOLE_IMAGES for frame in tails.frames])
    return rows, _records(
        values, (rows, heads.drift[kept]), ParsedImages(images, whole[codes]), shape, settings
    )


def _decoded_rows(
    values: pa.Array, layout: ImageLayout, shape: RecordShape, settings: DecodeSettings
) -> tuple[Int64s, DecodedRecords] | None:
    """The same of flattened records."""
    parsed = layout.parse_rows(bytes_of(values), offsets_of(values).astype(np.int64))
    if parsed is None or 2 * np.count_nonzero(parsed.parsed) < len(values):
        return None
    rows = np.flatnonzero(parsed.parsed)
    part = values if len(rows) == len(values) else values.take(pa.array(rows))
    count = len(shape.readings)
    extra = dict(zip(flat_fields(settings), parsed.columns[count:], strict=True))
    images = flat_images(part, parsed.columns[:count], extra, shape, settings)
    # A delete's image is that before the change, which may lack columns.
    numbers = np.where(images.images.has_before, parsed.drift[rows] * 3, parsed.drift[rows])
    return rows, _records(values, (rows, numbers), images, shape, settings)


def _records(
    values: pa.Array,
    marked: tuple[Int64s, Int64s],
    parsed: ParsedImages,
    shape: RecordShape,
    settings: DecodeSettings,
) -> DecodedRecords:
    """Rows of images.

    Args:
        marked: the positions of the records among the values, and their numbers of drift.
    """
    rows, numbers = marked
    _, decoded, questions = decode_images(parsed, shape.readings, settings, is_flat=shape.is_flat)
    drift: Mapping[Column, Sighting] = {}
    if settings.policy.looks:
        drift = _drift(values, rows, np.where(decoded.suspects, 0, numbers), settings.policy)
    return DecodedRecords(decoded, questions, drift)


def _drift(
    values: pa.Array, rows: Int64s, numbers: Int64s, policy: ColumnPolicy
) -> Mapping[Column, Sighting]:
    """The unknown and missing columns: of each number that is not 0, one record tells them.

    Args:
        rows: int64 [m]; the positions of the records among the values.
        numbers: int64 [m]; see `image_columns.ParsedHeads.drift`.
    """
    sightings: dict[Column, Sighting] = {}
    odd = np.flatnonzero(numbers)
    _, firsts, counts = np.unique(numbers[odd], return_index=True, return_counts=True)
    for first, count in zip(odd[firsts].tolist(), counts.tolist(), strict=True):
        images = _images(values[int(rows[first])].as_py())
        if images is not None:
            add_sighting(sightings, images.drift(policy.columns), Sighting(count, first))
    return policy.reported(sightings)
