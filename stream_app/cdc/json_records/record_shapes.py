"""Learns each column's JSON kind from a batch's records, to parse them in columns.

The formats call it for the first records of a task, and again when the columnar parser has refused
a batch. It looks at kinds, never at values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.cdc.column_drift import ColumnPolicy
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind, parsed_row_fields
from stream_app.cdc.json_records.dialect import ImagesOf

_KINDS: dict[type, JsonKind] = {
    bool: JsonKind.BOOLEAN,
    int: JsonKind.NUMBER,
    float: JsonKind.NUMBER,
    str: JsonKind.STRING,
    list: JsonKind.ARRAY,
    dict: JsonKind.OBJECT,
}
_Types = tuple[type, ...]
_Signature = tuple[bool, tuple[_Types, ...]]


@dataclass(frozen=True, slots=True)
class RecordShape:
    """The common shape of records that are parsed together.

    Attributes:
        readings: the readings of the table's columns.
        is_flat: whether the records themselves are images, as ExtractNewRecordState makes them.
        json_kinds: the JSON kind of each column where it is not null.
    """

    readings: tuple[ColumnReading, ...]
    is_flat: bool
    json_kinds: tuple[JsonKind, ...]

    @property
    def fields(self) -> list[pa.Field]:
        """The fields for the parse of a row's columns."""
        return parsed_row_fields(self.readings, self.json_kinds)

    def parses_decimals(self) -> bool:
        """Return whether the parser reads decimals as such, not as base64."""
        return any(
            pa.types.is_decimal(field.type)
            or (pa.types.is_nested(field.type) and reading.holds_decimals)
            for field, reading in zip(self.fields, self.readings, strict=True)
        )


def shape_of(
    values: Sequence[bytes],
    readings: tuple[ColumnReading, ...],
    policy: ColumnPolicy,
    images_of: ImagesOf,
) -> tuple[RecordShape, Bools]:
    """Return the most frequent shape, and the mask of values that have it.

    Values that are not JSON objects, or that the policy refuses for their columns, do not have it.
    """
    names = tuple(reading.name for reading in readings)
    signatures = [_signature(value, names, policy, images_of) for value in values]
    counts = Counter(signature for signature in signatures if signature is not None)
    flat_count = sum(count for (is_flat, _), count in counts.items() if is_flat)
    is_flat = 2 * flat_count > counts.total()
    json_kinds = tuple(
        _commonest_kind(reading, column_index, counts, is_flat)
        for column_index, reading in enumerate(readings)
    )
    allowed_types = [
        _allowed_types(reading, json_kind)
        for reading, json_kind in zip(readings, json_kinds, strict=True)
    ]
    fitting_signatures = {
        signature
        for signature in counts
        if signature[0] == is_flat
        and all(
            value_type in types
            for image in signature[1]
            for value_type, types in zip(image, allowed_types, strict=True)
        )
    }
    has_shape = np.fromiter(
        (signature in fitting_signatures for signature in signatures), np.bool_, len(values)
    )
    return RecordShape(readings, is_flat, json_kinds), has_shape


def _signature(
    value: bytes, names: tuple[str, ...], policy: ColumnPolicy, images_of: ImagesOf
) -> _Signature | None:
    try:
        document: Any = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    parts = images_of(document) if isinstance(document, dict) else None
    if parts is None:
        return None
    if policy.examines_records and policy.refusal(parts.drift(policy.columns)) is not None:
        return None
    images = (*parts.befores, *parts.afters)
    return parts.is_flat, tuple(tuple(map(type, map(image.get, names))) for image in images)


def _commonest_kind(
    reading: ColumnReading, column_index: int, counts: Counter[_Signature], is_flat: bool
) -> JsonKind:
    kinds: Counter[JsonKind] = Counter()
    for (image_is_flat, images), count in counts.items():
        if image_is_flat == is_flat:
            for image in images:
                json_kind = _KINDS.get(image[column_index])
                if json_kind is not None and reading.wire_type(json_kind) is not None:
                    kinds[json_kind] += count
    return kinds.most_common(1)[0][0] if kinds else reading.usual_kind()


def _allowed_types(reading: ColumnReading, json_kind: JsonKind) -> frozenset[type]:
    types = {type_ for type_, its_kind in _KINDS.items() if its_kind is json_kind}
    if json_kind is JsonKind.NUMBER and pa.types.is_integer(reading.wire_type(json_kind)):
        types.discard(float)
    return frozenset({*types, type(None)})
