"""Parses a dialect's messages into columns by machine code.

The result is that of `json_lines.parse_objects`.

`dialect_format` calls it first. Slower ways read the messages that machine code declines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s, bytes_of, offsets_of
from stream_app.cdc.json_records.decoder import SAMPLE_ROW_COUNT
from stream_app.cdc.json_records.layout_chooser import LayoutChooser, objects_in
from stream_app.cdc.json_records.message_fields import ParsedFields
from stream_app.cdc.json_records.record_shapes import RecordShape

if TYPE_CHECKING:
    from stream_app.cdc.compiled.image_columns import ImageLayout


@dataclass(frozen=True, slots=True)
class CompiledMessages:
    """The m messages that machine code has parsed.

    Attributes:
        indices: int64 [m]; the indices of the messages among the values.
        columns: for each field an array [m].
        nulls: the rows with explicit nulls of each object, list and column; see `ParsedMessages`.
        drift_hashes: int64 [m]; see `image_columns.ParsedRows`.
    """

    indices: Int64s
    columns: list[pa.Array]
    nulls: Mapping[str, Sequence[Int64s]]
    drift_hashes: Int64s


def parse_messages(
    values: pa.Array, shape: RecordShape, fields: ParsedFields | None, chooser: LayoutChooser
) -> CompiledMessages | None:
    """Parse the values that machine code accepts; None if they are too few, or of another shape.

    Args:
        values: binary [n] without nulls.
        fields: the fields of messages of this shape, or None if no parser reads them.
    """
    layout = chooser.take_layout(shape, partial(_layout_of, values, fields, chooser.layout_class))
    if layout is None or fields is None:
        return None
    rows = chooser.accept_parsed(
        layout.parse_rows(bytes_of(values), offsets_of(values).astype(np.int64))
    )
    if rows is None:
        return None
    message_indices = np.flatnonzero(rows.is_parsed)
    nulls = dict(zip([*fields.objects, *fields.lists], rows.nulls, strict=True))
    return CompiledMessages(
        message_indices, list(rows.columns), nulls, rows.drift_hashes[message_indices]
    )


def _layout_of(
    values: pa.Array, fields: ParsedFields | None, layout_class: type[ImageLayout]
) -> ImageLayout | None:
    if fields is None:
        return None
    return _layout_of_fields(
        fields, objects_in(values.slice(0, SAMPLE_ROW_COUNT).to_pylist()), layout_class
    )


def _layout_of_fields(
    fields: ParsedFields, documents: Sequence[dict[str, Any]], layout_class: type[ImageLayout]
) -> ImageLayout | None:
    """Return the layout for these fields in the documents' order; None if it has no parser."""
    inner_layouts: dict[str, ImageLayout] = {}
    for name, inner_fields in (*fields.objects.items(), *fields.lists.items()):
        values = [document.get(name) for document in documents]
        if name in fields.lists:
            values = [element for value in values if isinstance(value, list) for element in value]
        layout = None
        if not inner_fields.objects and not inner_fields.lists:
            layout = _layout_of_fields(
                inner_fields, [value for value in values if isinstance(value, dict)], layout_class
            )
        if layout is None:
            return None
        inner_layouts[name] = layout
    order = dict.fromkeys(name for document in documents for name in document)
    return layout_class.for_columns(
        fields.readings,
        fields.json_kinds,
        list(order),
        reads_base64=False,
        objects={name: inner_layouts[name] for name in fields.objects},
        lists={name: inner_layouts[name] for name in fields.lists},
        is_partial=fields.is_partial,
    )
