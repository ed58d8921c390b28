"""Makes rows of records that were read one by one, with a reason for each that does not fit.

It is the slow path beside `images`, for any format, and its verdict on a record is final. It takes
numbers from their exact texts, and shares only the casts with the fast path.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.column_drift import CUT_VALUES, DriftReaction
from stream_app.cdc.columns.column_cast import cast_alone
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.decimal_columns import why_no_decimal
from stream_app.cdc.columns.time_columns import has_cut_digits, may_cut
from stream_app.cdc.columns.wire_values import group_cells_by_kind
from stream_app.cdc.rows.images import RowRules
from stream_app.cdc.rows.row_assembly import (
    RowPlan,
    changes_key,
    fill_invented,
    forget_invented,
    omitted_in_rows,
    plan_rows,
    with_unchanged,
)

Cell = tuple[JsonKind, str]
"""The kind and the text of a value; numbers, arrays and objects have their original JSON text."""
NULL_CELL: Cell = (JsonKind.NULL, "")
Image = Mapping[str, Cell]
"""Column → cell; an image lacks the cells of absent columns, and null values have kind NULL."""

_SHOWN_LENGTH_MAX = 80


@dataclass(frozen=True, slots=True)
class RecordImages:
    """A change of one row.

    Attributes:
        op: one of the letters of `row_assembly`.
        unchanged_names: the columns whose new value the message omits, because the older row
            has it.
    """

    op: str
    before: Image | None
    after: Image | None
    unchanged_names: frozenset[str] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The rows of n records.

    Attributes:
        rows: m rows of `RowRules.schema`, without those of records with a reason.
        record_indices: int64 [m]; for each row the index of its record.
        reasons: index of a record → why it does not fit.
        cut_columns: index of a record without a reason → the columns that cut its digits.
    """

    rows: pa.RecordBatch
    record_indices: npt.NDArray[np.int64]
    reasons: dict[int, str]
    cut_columns: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _ImageColumn:
    """One column of the images of one side.

    Attributes:
        misfits: row → the reason why its value does not fit.
        cut_rows: the rows whose values lose digits.
    """

    values: pa.Array
    misfits: dict[int, str]
    cut_rows: frozenset[int]


def rows_of_records(
    records: Sequence[RecordImages], readings: Sequence[ColumnReading], rules: RowRules
) -> RecordRows:
    """Cast the cells, choose the rows, and drop records of which a row is bad."""
    befores, afters = [record.before for record in records], [record.after for record in records]
    before = [_cast_column(reading, befores, rules) for reading in readings]
    after = [_cast_column(reading, afters, rules) for reading in readings]
    has_before = np.array([image is not None for image in befores], np.bool_)
    has_after = np.array([image is not None for image in afters], np.bool_)
    ops = np.array([ord(record.op) for record in records], np.uint8)
    record_indices = np.arange(len(records))
    wants_update_before: Any = rules.keeps_update_before or changes_key(
        readings,
        [
            pa.concat_arrays([before_column.values, after_column.values])
            for before_column, after_column in zip(before, after, strict=True)
        ],
        np.where(has_before, record_indices, -1),
        np.where(has_after, record_indices + len(records), -1),
    )
    plan = plan_rows(ops, has_before, has_after, wants_update_before)
    columns: list[pa.Array] = [pa.array(plan.row_kinds)]
    reasons: dict[int, str] = {}
    cut_columns: dict[int, frozenset[str]] = {}
    unchanged_masks = omitted_in_rows(_unchanged_masks(records), plan)
    for reading, before_column, after_column in zip(readings, before, after, strict=True):
        column = plan.assemble_column(before_column.values, after_column.values)
        if rules.before_has_key_only:
            column = fill_invented(reading, forget_invented(reading, column, plan), plan)
        columns.append(column)
        for record_index in _cut_records(before_column, after_column, plan):
            cut_columns[record_index] = cut_columns.get(record_index, frozenset()) | {reading.name}
        is_omitted = unchanged_masks.get(reading.name)
        for row_index, reason in _problems(
            reading, before_column, after_column, column, plan, rules
        ):
            if is_omitted is not None and is_omitted[row_index]:
                continue
            record_index = int(plan.record_indices[row_index])
            if not reason and _is_null_key(reading, records[record_index], plan, row_index):
                continue
            reasons.setdefault(
                record_index, reason or _absence(reading, records[record_index], plan, row_index)
            )
    rows = with_unchanged(pa.RecordBatch.from_arrays(columns, schema=rules.schema), unchanged_masks)
    is_good = ~np.isin(plan.record_indices, list(reasons))
    cut_columns = {
        record_index: names
        for record_index, names in cut_columns.items()
        if record_index not in reasons
    }
    return RecordRows(
        rows.filter(pa.array(is_good)), plan.record_indices[is_good], reasons, cut_columns
    )


def _cut_records(before: _ImageColumn, after: _ImageColumn, plan: RowPlan) -> set[int]:
    """Return the numbers of records with a value of a row that is cut."""
    if not (before.cut_rows or after.cut_rows):
        return set()
    return {
        record_index
        for record_index, is_after in zip(
            plan.record_indices.tolist(), plan.is_after.tolist(), strict=True
        )
        if record_index in (after.cut_rows if is_after else before.cut_rows)
    }


def _unchanged_masks(records: Sequence[RecordImages]) -> dict[str, npt.NDArray[np.bool_]]:
    names = frozenset[str]().union(*(record.unchanged_names for record in records))
    return {
        name: np.array([name in record.unchanged_names for record in records], np.bool_)
        for name in sorted(names)
    }


def _cast_column(
    reading: ColumnReading, images: Sequence[Image | None], rules: RowRules
) -> _ImageColumn:
    """Cast a column of the images, by the kinds of JSON that its cells have."""
    cells = [None if image is None else image.get(reading.name) for image in images]
    wire_values_by_kind, problems = group_cells_by_kind(reading, cells)
    misfits = {
        row_index: _misfit(reading, cells[row_index], reason)
        for row_index, reason in problems.items()
    }
    values = pa.nulls(len(cells), reading.arrow_type)
    cut_rows: set[int] = set()
    for json_kind, wire_values in wire_values_by_kind.items():
        part, has_failed = cast_alone(reading, json_kind, wire_values)
        values = pc.coalesce(values, part)
        cut_rows.update(_cut_rows(reading, json_kind, wire_values, rules))
        for row_index in [] if has_failed is None else np.flatnonzero(has_failed).tolist():
            misfits[row_index] = _misfit(
                reading,
                cells[row_index],
                _misfit_reason(reading, json_kind, wire_values[row_index], rules),
            )
    if rules.cut_reaction is DriftReaction.QUARANTINE:
        reason = (
            f"has digits that the column cannot hold ({CUT_VALUES} = {rules.cut_reaction.value})"
        )
        misfits = {
            row_index: _misfit(reading, cells[row_index], reason) for row_index in cut_rows
        } | misfits
    return _ImageColumn(values, misfits, frozenset(cut_rows))


def _cut_rows(
    reading: ColumnReading, json_kind: JsonKind, wire_values: Sequence[object], rules: RowRules
) -> list[int]:
    if rules.cut_reaction is DriftReaction.IGNORE or not may_cut(reading):
        return []
    is_cut = has_cut_digits(reading, json_kind, pa.array(wire_values, reading.wire_type(json_kind)))
    return [] if is_cut is None else [int(row_index) for row_index in np.flatnonzero(is_cut)]


def _problems(
    reading: ColumnReading,
    before: _ImageColumn,
    after: _ImageColumn,
    column: pa.Array,
    plan: RowPlan,
    rules: RowRules,
) -> list[tuple[int, str]]:
    """Return the (row, reason) of rows with a bad value; a missing value has an empty reason."""
    problems: list[tuple[int, str]] = []
    is_required = reading.is_required and column.null_count > 0
    if not (before.misfits or after.misfits or is_required):
        return problems
    for row_index, record_index in enumerate(plan.record_indices.tolist()):
        is_invented = rules.before_has_key_only and not reading.is_key
        if plan.is_after[row_index]:
            reason = after.misfits.get(record_index)
        else:
            reason = None if is_invented else before.misfits.get(record_index)
        if reason:
            problems.append((row_index, reason))
        elif is_required and not column[row_index].is_valid:
            problems.append((row_index, ""))
    return problems


def _is_null_key(
    reading: ColumnReading, record: RecordImages, plan: RowPlan, row_index: int
) -> bool:
    """Return whether an image has a null that is part of a key; a missing value is not a key."""
    image = record.after if plan.is_after[row_index] else record.before
    return reading.is_nullable_key and reading.name in (image or {})


def _absence(reading: ColumnReading, record: RecordImages, plan: RowPlan, row_index: int) -> str:
    role = "primary key column" if reading.is_key else "NOT NULL column"
    image = record.after if plan.is_after[row_index] else record.before
    state = "null" if reading.name in (image or {}) else "missing"
    suffix = "" if plan.is_after[row_index] else " in the before-image"
    return f"{role} {reading.name!r} is {state}{suffix}"


def _misfit(reading: ColumnReading, cell: Cell | None, reason: str) -> str:
    json_kind, text = cell or (JsonKind.NULL, "")
    short_text = text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"
    value_text = f'"{short_text}"' if json_kind is JsonKind.STRING else short_text
    return f"column {reading.name!r} ({reading.data_type}): {value_text} {reason}"


def _misfit_reason(
    reading: ColumnReading, json_kind: JsonKind, wire_value: Any, rules: RowRules
) -> str:
    """Return why a value does not fit its column, with a hint if another encoding may read it."""
    read_as = f"read as {reading.encoding.value}"
    hint = f"column.{reading.name}.encoding can set another unit"
    match reading.family:
        case Family.DATE | Family.TIME | Family.TIMESTAMP if (
            json_kind is JsonKind.NUMBER and reading.encoding is Encoding.ISO
        ):
            return f"is a number ({read_as}; {hint})"
        case Family.TIME if json_kind is JsonKind.NUMBER:
            return f"is not a time of day ({read_as}; {hint})"
        case Family.DATE | Family.TIMESTAMP if json_kind is JsonKind.NUMBER:
            return f"is outside what the column can hold ({read_as}; {hint})"
        case Family.DATE | Family.TIME | Family.TIMESTAMP:
            return "is not an ISO 8601 value that the column can hold"
        case Family.INTEGER if json_kind is JsonKind.NUMBER:
            return "is out of range"
        case Family.BINARY:
            return f"is not {reading.encoding.value}"
        case Family.DECIMAL if isinstance(wire_value, dict) or (
            json_kind is JsonKind.STRING and reading.encoding is Encoding.BASE64
        ):
            return _why_no_decimal(reading, wire_value, rules)
        case _:
            return "is not a value of that type"


def _why_no_decimal(reading: ColumnReading, wire_value: Any, rules: RowRules) -> str:
    """Return the reason why base64, or ``{scale, value}``, is not a decimal."""
    is_struct = isinstance(wire_value, dict)
    text, scale = (
        (wire_value["value"], wire_value["scale"]) if is_struct else (wire_value, reading.scale)
    )
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        return f"is not base64{rules.base64_reason}"
    return why_no_decimal(value, scale, reading.arrow_type)
