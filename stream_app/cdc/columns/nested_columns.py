"""Casts JSON arrays and objects, and texts that contain them, to columns of ARRAY, MAP and ROW.

`column_cast` calls it, and its casts convert the scalars inside. If any part of a value does not
fit, the whole value fails. Scalars inside have plain JSON forms, however the source encodes its
columns: numbers are JSON numbers, times are ISO 8601 text, and bytes are base64.

1. Arrays and objects without a MAP come from the parser in columns, and are cast level by level.
2. Texts (PostgreSQL's ``jsonb``, MySQL's ``JSON``) are parsed together, and cast by step 1.
3. Texts that do not parse together are read one by one, and their parts are cast together.

Members of an object that the ROW lacks are ignored. Fields of the ROW that the object lacks are
null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, any_of, valid_of
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.columns.json_lines import may_be_misread, parse_objects
from stream_app.cdc.columns.nesting_limit import are_too_deep, nests_too_deeply
from stream_app.cdc.columns.time_columns import CastResult
from stream_app.cdc.columns.wire_values import group_cells_by_kind
from stream_app.model.schema.data_type import LIST_ROOTS, TypeRoot

_WRAPPER = "v"
_BROKEN = object()
"""Stands for a document that cannot be read."""
CastAlone = Callable[[ColumnReading, JsonKind, Sequence[object]], CastResult]


class _Number(str):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Casts:
    """The casts of scalars: `column_cast.cast_column` and `cast_alone`."""

    cast_column: Callable[[ColumnReading, JsonKind, pa.Array], CastResult]
    cast_alone: CastAlone


def cast_nested(reading: ColumnReading, wire_values: pa.Array, casts: Casts) -> CastResult:
    """Step 1: cast arrays and objects that the parser has read in columns.

    Args:
        wire_values: values of the reading's nested wire type.
    """
    inner = reading.inner_readings()
    if reading.data_type.root in LIST_ROOTS:
        lengths = pc.fill_null(pc.list_value_length(wire_values), 0).to_numpy().astype(np.int64)
        elements = _cast_inner(inner[0], wire_values.flatten(), casts)
        return _lists(reading, lengths, [elements], valid_of(wire_values))
    parts = [_cast_inner(*part, casts) for part in zip(inner, wire_values.flatten(), strict=True)]
    return _rows(reading, parts, valid_of(wire_values))


def cast_texts(reading: ColumnReading, wire_values: pa.Array, casts: Casts) -> CastResult:
    """Steps 2 and 3: read texts of JSON, and cast their parts.

    Args:
        wire_values: texts of JSON, one document each.
    """
    is_valid = valid_of(wire_values)
    texts = wire_values.drop_null()
    result = _parse_together(reading, texts, casts)
    if result is None:
        documents = [_parse_document(text) for text in texts.to_pylist()]
        result = _cast_documents(reading, documents, casts)
    values, has_failed = result
    if is_valid.all():
        return result
    indices = np.where(is_valid, np.cumsum(is_valid) - 1, 0)
    values_with_nulls = values.take(pa.array(indices, mask=~is_valid))
    return values_with_nulls, None if has_failed is None else has_failed[indices] & is_valid


def _cast_inner(reading: ColumnReading, wire_values: pa.Array, casts: Casts) -> CastResult:
    return casts.cast_column(reading, reading.usual_kind(), wire_values)


def _parse_together(reading: ColumnReading, texts: pa.Array, casts: Casts) -> CastResult | None:
    """Step 2: parse texts together, and cast them; None if they do not parse together."""
    wire_type = reading.nested_wire_type()
    if wire_type is None or not len(texts):
        return None
    lines = pc.binary_join_element_wise(f'{{"{_WRAPPER}":', texts, "}", "").cast(pa.binary())
    if may_be_misread(lines, has_decimals=True).any() or are_too_deep(lines).any():
        return None
    columns = parse_objects(lines, pa.schema([pa.field(_WRAPPER, wire_type)]), is_strict=True)
    return None if columns is None else cast_nested(reading, columns[0], casts)


def _parse_document(text: str) -> Any:
    if nests_too_deeply(text.encode()):
        return _BROKEN
    try:
        document = json.loads(
            text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
        if "\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()  # fails on half of a surrogate pair
        return document
    except ValueError:
        return _BROKEN


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    """Build an object from pairs; raise ValueError if a member occurs twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a member twice")
    return members


def _cast_documents(reading: ColumnReading, documents: Sequence[Any], casts: Casts) -> CastResult:
    """Step 3: cast all documents at once, level by level."""
    match reading.data_type.root:
        case TypeRoot.ARRAY | TypeRoot.VECTOR:
            containers, is_valid, is_broken = _containers_of_type(documents, list)
            parts = [_cast_documents(reading.inner_readings()[0], _join(containers), casts)]
            values, has_failed = _lists(reading, _lengths(containers), parts, is_valid)
        case TypeRoot.MAP:
            containers, is_valid, is_broken = _containers_of_type(documents, dict)
            key, item = reading.inner_readings()
            parts = [
                _cast_documents(key, _join(containers), casts),
                _cast_documents(item, _join(part.values() for part in containers), casts),
            ]
            values, has_failed = _lists(reading, _lengths(containers), parts, is_valid)
        case TypeRoot.ROW:
            containers, is_valid, is_broken = _containers_of_type(documents, dict)
            parts = [
                _cast_documents(part, [document.get(part.name) for document in containers], casts)
                for part in reading.inner_readings()
            ]
            values, has_failed = _rows(reading, parts, is_valid)
        case _:
            return _scalars(reading, documents, casts)
    return values, any_of(has_failed, is_broken)


def _containers_of_type(
    documents: Sequence[Any], python_type: type
) -> tuple[list[Any], Bools, Bools]:
    """Return the documents of a type, and the masks of valid and of broken documents.

    An empty container is in place of each document of another type.
    """
    is_valid = np.array([isinstance(document, python_type) for document in documents], np.bool_)
    is_broken = np.array([document is not None for document in documents], np.bool_) & ~is_valid
    containers = [
        document if has_type else python_type()
        for document, has_type in zip(documents, is_valid, strict=True)
    ]
    return containers, is_valid, is_broken


def _join(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return [item for part in parts for item in part]


def _lengths(parts: Iterable[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([len(part) for part in parts], np.int64)


def _scalars(reading: ColumnReading, documents: Sequence[Any], casts: Casts) -> CastResult:
    cells = [_cell(document) for document in documents]
    pairs = zip(documents, cells, strict=True)
    is_broken = np.array(
        [document is not None and cell is None for document, cell in pairs], np.bool_
    )
    values, has_failed = cast_cells(reading, cells, casts.cast_alone)
    return values, any_of(has_failed, is_broken)


def cast_cells(
    reading: ColumnReading, cells: Sequence[tuple[JsonKind, str] | None], cast_alone: CastAlone
) -> CastResult:
    """Cast values that were read one by one; None is null."""
    wire_values_by_kind, problems = group_cells_by_kind(reading, cells)
    has_failed: Bools = np.zeros(len(cells), np.bool_)
    has_failed[list(problems)] = True
    values = pa.nulls(len(cells), reading.arrow_type)
    for json_kind, wire_values in wire_values_by_kind.items():
        part, part_failed = cast_alone(reading, json_kind, wire_values)
        values = pc.coalesce(values, part)
        if part_failed is not None:
            has_failed |= part_failed
    return values, any_of(has_failed)


def _cell(document: Any) -> tuple[JsonKind, str] | None:
    """Return the scalar of a document; None for null and for other values."""
    match document:
        case _Number():
            return JsonKind.NUMBER, str(document)
        case bool():
            return JsonKind.BOOLEAN, "true" if document else "false"
        case str():
            return JsonKind.STRING, document
        case _:
            return None


def _lists(
    reading: ColumnReading,
    lengths: np.ndarray[Any, np.dtype[np.int64]],
    parts: Sequence[CastResult],
    is_valid: Bools,
) -> CastResult:
    """Build arrays or maps from cast elements; null where an element has failed.

    Vectors also fail if they have another length or contain a null.

    Args:
        lengths: int64 [n]; the number of elements of each value.
        parts: the cast elements of all values, or their keys and their values.
    """
    owners = np.repeat(np.arange(len(lengths)), lengths)
    has_failed = np.zeros(len(lengths), np.bool_)
    children = [values for values, _ in parts]
    for inner, part in zip(reading.inner_readings(), parts, strict=True):
        has_failed[owners[_unfit_mask(inner, part)]] = True
    if reading.data_type.root is TypeRoot.VECTOR:
        has_failed |= is_valid & (lengths != reading.data_type.length)
        has_failed[owners[~valid_of(children[0])]] = True
    if has_failed.any():
        is_good = pa.array(~has_failed[owners])
        children = [values.filter(is_good) for values in children]
        lengths = np.where(has_failed, 0, lengths)
    arrow_type = reading.arrow_type
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    build = pa.MapArray.from_arrays if pa.types.is_map(arrow_type) else pa.ListArray.from_arrays
    values = build(offsets, *children, type=arrow_type, mask=pa.array(~is_valid | has_failed))
    return values, has_failed if has_failed.any() else None


def _rows(reading: ColumnReading, parts: Sequence[CastResult], is_valid: Bools) -> CastResult:
    has_failed = np.zeros(len(is_valid), np.bool_)
    for inner, part in zip(reading.inner_readings(), parts, strict=True):
        has_failed |= _unfit_mask(inner, part) & is_valid
    children = [values for values, _ in parts]
    mask = pa.array(~is_valid | has_failed)
    values = pa.StructArray.from_arrays(children, fields=list(reading.arrow_type), mask=mask)
    return values, has_failed if has_failed.any() else None


def _unfit_mask(reading: ColumnReading, part: CastResult) -> Bools:
    """Mark values with a failed part, or with a null part that must not be null."""
    values, has_failed = part
    unfit = np.zeros(len(values), np.bool_) if has_failed is None else has_failed
    return unfit | ~valid_of(values) if reading.is_required and values.null_count else unfit
