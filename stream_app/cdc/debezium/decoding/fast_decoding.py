"""Debezium records → rows by their images alone, without a parse of whole messages.

`debezium_json` tries this way first, because it is the fastest. Of records with a known frame
(`known_frames`), machine code or the columnar parser reads the images. Machine code reads flattened
records too. `whole_decoding` and `single_decoding` take the messages that this way declines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s, bytes_of, offsets_of
from stream_app.cdc.column_drift import ColumnPolicy, DriftedColumn, Sighting, add_sighting
from stream_app.cdc.columns.column_reading import JsonKind
from stream_app.cdc.columns.json_lines import may_be_misread
from stream_app.cdc.columns.nesting_limit import NESTING_MAX, are_too_deep
from stream_app.cdc.debezium.decoding.known_frames import FramedTails, KnownFrames
from stream_app.cdc.debezium.decoding.one_record import document_images_of
from stream_app.cdc.debezium.decoding.parsed_images import (
    DecodeSettings,
    ParsedImages,
    decode_images,
    flat_fields,
    flat_images,
    framed_images,
)
from stream_app.cdc.debezium.decoding.whole_decoding import decode_framed
from stream_app.cdc.json_records.batch_outcome import ColumnarPart, ColumnarResult
from stream_app.cdc.json_records.decoder import SAMPLE_ROW_COUNT, SchemaGroup
from stream_app.cdc.json_records.dialect import DocumentImages
from stream_app.cdc.json_records.layout_chooser import LayoutChooser, objects_in
from stream_app.cdc.json_records.message_fields import text_reading
from stream_app.cdc.json_records.record_shapes import RecordShape

if TYPE_CHECKING:
    from stream_app.cdc.compiled.image_columns import ImageLayout

_BEFORE_FACTOR = 3
"""Separates the drift hashes of images before a change from those of images after it.

Because it is odd, different hashes of 64 bits stay different, and only 0 stays 0.
"""


@dataclass(slots=True)
class FastGroup(SchemaGroup):
    """Messages of one schema, with their most recent frames.

    Attributes:
        fingerprint: a hash of the schema.
        frames: the most recent frames.
        layout_chooser: the machine-code decoder, or None if machine code does not run.
    """

    fingerprint: str = ""
    frames: KnownFrames = field(default_factory=KnownFrames)
    layout_chooser: LayoutChooser | None = None

    def learn_shape_at(
        self, values: pa.Array, indices: Int64s, policy: ColumnPolicy
    ) -> RecordShape:
        """Return the shape of the group, and learn it from the first values at these indices."""
        return self.learn_shape(
            values.take(pa.array(indices[:SAMPLE_ROW_COUNT])), policy, document_images_of
        )


class LaidOutShape(NamedTuple):
    """A shape of records, and the layout by which machine code parses their images."""

    shape: RecordShape
    layout: ImageLayout


class DriftHashes(NamedTuple):
    """Hashes of how the columns of parsed records differ from the table's.

    Attributes:
        indices: int64 [m]; the indices of the records among the values.
        hashes: int64 [m]; see `image_columns.ImageColumns.drift_hashes`.
    """

    indices: Int64s
    hashes: Int64s


def decode_group_fast(
    values: pa.Array, group: FastGroup, settings: DecodeSettings
) -> ColumnarPart | None:
    """Decode the values that have a known frame; None if they are too few, or of another shape."""
    columnar_part = None
    if group.layout_chooser is not None:
        columnar_part = _decode_by_machine_code(values, group, group.layout_chooser, settings)
    return columnar_part or _decode_by_frames(values, group, settings)


def _decode_by_frames(
    values: pa.Array, group: FastGroup, settings: DecodeSettings
) -> ColumnarPart | None:
    """Decode the values with a known frame: parse all their images at once."""
    framed_records = group.frames.find_framed(values)
    if framed_records is None:
        return None
    shape = group.learn_shape_at(values, framed_records.indices, settings.policy)
    may_misread = are_too_deep(framed_records.images, NESTING_MAX - 1)
    may_misread |= may_be_misread(framed_records.images, has_decimals=shape.parses_decimals())
    if may_misread.any():
        framed_records = framed_records.without_images(may_misread)
    indices = framed_records.indices
    if len(indices) == 0:
        return None
    framed_values = values if len(indices) == len(values) else values.take(pa.array(indices))
    result = decode_framed(framed_values, framed_records, shape, settings)
    return None if result is None else ColumnarPart(indices, result)


def _decode_by_machine_code(
    values: pa.Array, group: FastGroup, chooser: LayoutChooser, settings: DecodeSettings
) -> ColumnarPart | None:
    """Decode the values that machine code accepts.

    A known tail proves nothing of the text before it, which the parser checks.
    """
    tails = None
    if group.shape is None or not group.shape.is_flat:
        tails = group.frames.tails(values)
    indices = np.arange(len(values)) if tails is None else tails.indices
    shape = group.learn_shape_at(values, indices, settings.policy)
    if shape.is_flat:
        decode = partial(_decode_flat, values)
    elif tails is not None:
        decode = partial(_decode_envelopes, values, tails)
    else:
        return None
    layout = chooser.take_layout(
        shape,
        partial(
            _layout_of, values, indices[:SAMPLE_ROW_COUNT], shape, settings, chooser.layout_class
        ),
    )
    return None if layout is None else decode(LaidOutShape(shape, layout), settings, chooser)


def _layout_of(
    values: pa.Array,
    indices: Int64s,
    shape: RecordShape,
    settings: DecodeSettings,
    layout_class: type[ImageLayout],
) -> ImageLayout | None:
    """Return the layout for images that name their columns in the order of these samples."""
    readings, json_kinds = list(shape.readings), list(shape.json_kinds)
    if shape.is_flat:
        names = {reading.name for reading in readings}
        added_fields = flat_fields(settings)
        if not names.isdisjoint(added_fields):
            return None
        readings += map(text_reading, added_fields)
        json_kinds += [JsonKind.STRING] * len(added_fields)
    # Machine code declines longer texts, so it never reads a longer placeholder as a number.
    shortest_placeholder = min(map(len, settings.placeholder.binaries))
    order = dict.fromkeys(
        name
        for images in _images_in(values.take(pa.array(indices)).to_pylist())
        for image in (*images.befores, *images.afters)
        for name in image
    )
    return layout_class.for_columns(
        readings,
        json_kinds,
        list(order),
        reads_base64=shortest_placeholder > layout_class.BASE64_MAX,
    )


def _images_in(values: Iterable[bytes]) -> Iterator[DocumentImages]:
    """Yield the images of the values that are records."""
    return filter(None, map(document_images_of, objects_in(values)))


def _decode_envelopes(
    values: pa.Array,
    tails: FramedTails,
    laid_out: LaidOutShape,
    settings: DecodeSettings,
    chooser: LayoutChooser,
) -> ColumnarPart | None:
    """Decode envelopes by the images before their known tails."""
    shape, layout = laid_out
    starts = offsets_of(values)[tails.indices].astype(np.int64)
    images = chooser.accept_parsed(layout.parse(bytes_of(values), starts, tails.tail_starts))
    if images is None or not len(images.columns[0]):
        return None
    selection = slice(None) if images.is_parsed.all() else images.is_parsed
    indices, ops, codes = tails.indices[selection], tails.ops[selection], tails.codes[selection]
    image_indices = images.before_indices[selection], images.after_indices[selection]
    parsed_images = framed_images(
        tails.frames, codes, ops, image_indices, shape, images.columns, settings
    )
    drift_hashes = DriftHashes(indices, images.drift_hashes[selection])
    result = _result_by_hashes(values, drift_hashes, parsed_images, shape, settings)
    return ColumnarPart(indices, result)


def _decode_flat(
    values: pa.Array,
    laid_out: LaidOutShape,
    settings: DecodeSettings,
    chooser: LayoutChooser,
) -> ColumnarPart | None:
    """Decode flattened records, each of which is an image."""
    shape, layout = laid_out
    parsed_rows = chooser.accept_parsed(
        layout.parse_rows(bytes_of(values), offsets_of(values).astype(np.int64))
    )
    if parsed_rows is None:
        return None
    indices = np.flatnonzero(parsed_rows.is_parsed)
    parsed_values = values if len(indices) == len(values) else values.take(pa.array(indices))
    count = len(shape.readings)
    texts = dict(zip(flat_fields(settings), parsed_rows.columns[count:], strict=True))
    parsed_images = flat_images(parsed_values, parsed_rows.columns[:count], texts, shape, settings)
    hashes = parsed_rows.drift_hashes[indices]
    # The image of a delete is that before the change, which may lack columns.
    hashes = np.where(parsed_images.images.has_before, hashes * _BEFORE_FACTOR, hashes)
    drift_hashes = DriftHashes(indices, hashes)
    result = _result_by_hashes(values, drift_hashes, parsed_images, shape, settings)
    return ColumnarPart(indices, result)


def _result_by_hashes(
    values: pa.Array,
    drift_hashes: DriftHashes,
    parsed_images: ParsedImages,
    shape: RecordShape,
    settings: DecodeSettings,
) -> ColumnarResult:
    """Make the rows of parsed records, and find by hashes the columns that differ."""
    _, image_rows, questions = decode_images(
        parsed_images, shape.readings, settings, is_flat=shape.is_flat
    )
    drift: Mapping[DriftedColumn, Sighting] = {}
    if settings.policy.reports_drift:
        hashes = np.where(image_rows.is_suspect, 0, drift_hashes.hashes)
        drift = _drift_of(values, DriftHashes(drift_hashes.indices, hashes), settings.policy)
    return ColumnarResult(image_rows, questions, drift)


def _drift_of(
    values: pa.Array, drift_hashes: DriftHashes, policy: ColumnPolicy
) -> Mapping[DriftedColumn, Sighting]:
    """Return the unknown and missing columns, read from one record of each sum of hashes."""
    indices, hashes = drift_hashes
    sightings: dict[DriftedColumn, Sighting] = {}
    differing_indices = np.flatnonzero(hashes)
    _, firsts, counts = np.unique(hashes[differing_indices], return_index=True, return_counts=True)
    for first_index, count in zip(differing_indices[firsts].tolist(), counts.tolist(), strict=True):
        for images in _images_in([values[int(indices[first_index])].as_py()]):
            add_sighting(sightings, images.drift(policy.columns), Sighting(count, first_index))
    return policy.reported(sightings)
