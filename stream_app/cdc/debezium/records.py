"""Debezium records read one by one → rows, and the reason of each that cannot be read.

The slow path of `debezium_json`: what it says of a record is final. Values are taken from the
exact text of each number; only the casts are shared with the fast path.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import no_changes
from stream_app.cdc.column_drift import Column, Sighting, add_sighting
from stream_app.cdc.columns.column_cast import cast_alone, wire_value
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.decimal_columns import why_no_decimal
from stream_app.cdc.debezium.columns import DecodeSettings
from stream_app.cdc.debezium.key_proof import (
    WHOLE_IMAGES,
    KeyRules,
    Question,
    questions_of,
)
from stream_app.cdc.debezium.placeholders import is_placeholder
from stream_app.cdc.debezium.record_reader import (
    Cell,
    Image,
    NoRow,
    RowRecord,
    Truncate,
    UnreadableRecordError,
    Wrapped,
    read_record,
)
from stream_app.cdc.row_assembly import (
    RowPlan,
    fill_invented,
    forget_invented,
    key_changes,
    plan_rows,
)

_SHOWN_MAX = 80


@dataclass(slots=True)
class RecordsResult:
    """What came of records, each known by its position.

    Attributes:
        rows, record: the rows, and for each its record.
        reasons: records that cannot be read.
        no_row: how many mean no row.
        truncates: records that empty the table.
        wrapped: records in a schema envelope, still to be read.
        questions: what records want to know of their Kafka keys, also those with a reason.
        tables: name of a source table → its first record.
        stops: reasons of records that stop the job.
        columns: unknown and missing columns of records that are stored.
    """

    rows: pa.RecordBatch
    record: npt.NDArray[np.int64]
    reasons: dict[int, str] = field(default_factory=dict)
    no_row: int = 0
    truncates: list[int] = field(default_factory=list)
    wrapped: list[tuple[int, Wrapped]] = field(default_factory=list)
    questions: dict[int, Question] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    stops: dict[int, str] = field(default_factory=dict)
    columns: dict[Column, Sighting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the images of one side, and why single values of it do not fit."""

    values: pa.Array
    misfits: dict[int, str]


def decode_records(
    values: Sequence[bytes], readings: tuple[ColumnReading, ...], settings: DecodeSettings
) -> RecordsResult:
    """Read each value on its own."""
    result = RecordsResult(no_changes(settings.rows.schema).rows, np.empty(0, np.int64))
    keys = frozenset(reading.name for reading in readings if reading.is_key)
    found: list[tuple[int, RowRecord]] = []
    for position, value in enumerate(values):
        try:
            record = read_record(value, settings.policy.columns, keys)
            match record:
                case RowRecord() if not _is_refused(result, position, record, settings):
                    found.append((position, _restore_unchanged(record, readings, settings)))
                case Truncate():
                    result.truncates.append(position)
                case NoRow():
                    result.no_row += 1
                case Wrapped():
                    result.wrapped.append((position, record))
        except UnreadableRecordError as problem:
            result.reasons[position] = str(problem)
    result.questions = {
        position: question
        for position, record in found
        if (question := question_of(settings.key_rules, record)) is not Question.NONE
    }
    _add_rows(result, found, readings, settings)
    for position, row in found:
        if position not in result.reasons:
            add_sighting(result.columns, row.drift, Sighting(1, position))
    return result


def question_of(rules: KeyRules, record: RowRecord) -> Question:
    """What one record wants to know of its Kafka key."""
    if not record.is_op_told and rules.primary_key:
        return Question.UPSERT
    ops, has_before = np.array([ord(record.op)], np.uint8), np.array([record.before is not None])
    is_whole = np.array([record.origin.connector in WHOLE_IMAGES])
    (asked,) = questions_of(rules, ops, has_before, is_whole)
    return Question(int(asked))


def _is_refused(
    result: RecordsResult, position: int, record: RowRecord, settings: DecodeSettings
) -> bool:
    """Whether its columns keep a record from being stored, which is noted."""
    refusal = settings.policy.refusal(record.drift)
    if refusal is not None:
        reasons = result.stops if refusal.stops else result.reasons
        reasons[position] = refusal.reason
    return refusal is not None


def _restore_unchanged(
    record: RowRecord, readings: tuple[ColumnReading, ...], settings: DecodeSettings
) -> RowRecord:
    """Replace placeholders: after by before, before by null."""
    before = None
    if record.before is not None:
        before = {
            reading.name: cell
            for reading in readings
            if (cell := record.before.get(reading.name)) and not _is_unchanged(reading, cell)
        }
    if record.after is None:
        return replace(record, before=before)
    after = dict(record.after)
    for reading in readings:
        cell = after.get(reading.name)
        if cell is None or not _is_unchanged(reading, cell):
            continue
        old = None if settings.rows.before_has_key_only else (before or {}).get(reading.name)
        if old is None or old[0] is JsonKind.NULL:
            raise UnreadableRecordError(
                f"column {reading.name!r} is unchanged and its value was not sent "
                "(__debezium_unavailable_value), and the before-image does not have it: set "
                "REPLICA IDENTITY FULL on the source table"
            )
        after[reading.name] = old
    return replace(record, before=before, after=after)


def _is_unchanged(reading: ColumnReading, cell: Cell) -> bool:
    kind, text = cell
    if kind is JsonKind.STRING:
        return is_placeholder(reading, text, nested=False)
    nested = kind in (JsonKind.ARRAY, JsonKind.OBJECT)
    return nested and is_placeholder(reading, text, nested=True)


def _add_rows(
    result: RecordsResult,
    found: list[tuple[int, RowRecord]],
    readings: tuple[ColumnReading, ...],
    settings: DecodeSettings,
) -> None:
    """Cast the cells, choose the rows, and drop records of which a row is bad."""
    records = [record for _, record in found]
    before = [_column(reading, [record.before for record in records]) for reading in readings]
    after = [_column(reading, [record.after for record in records]) for reading in readings]
    has_before = np.array([record.before is not None for record in records], np.bool_)
    has_after = np.array([record.after is not None for record in records], np.bool_)
    ops = np.array([ord(record.op) for record in records], np.uint8)
    wanted: Any = settings.rows.keep_update_before or key_changes(
        readings, [column.values for column in before], [column.values for column in after]
    )
    plan = plan_rows(ops, has_before, has_after, wanted)
    columns: list[pa.Array] = [pa.array(plan.kinds)]
    reasons: dict[int, str] = {}
    for reading, old, new in zip(readings, before, after, strict=True):
        column = plan.take(old.values, new.values)
        if settings.rows.before_has_key_only:
            column = fill_invented(reading, forget_invented(reading, column, plan), plan)
        columns.append(column)
        for row, reason in _problems(reading, old, new, column, plan, settings):
            record = int(plan.record[row])
            reasons.setdefault(record, reason or _absence(reading, records[record], plan, row))
    rows = pa.RecordBatch.from_arrays(columns, schema=settings.rows.schema)
    kept = ~np.isin(plan.record, list(reasons))
    positions = np.array([position for position, _ in found], np.int64)
    result.rows = rows.filter(pa.array(kept))
    result.record = positions[plan.record[kept]]
    result.reasons |= {found[record][0]: reason for record, reason in reasons.items()}
    if settings.reads_tables:
        for position, change in found:
            if position not in result.reasons:
                result.tables.setdefault(change.origin.table, position)


def _column(reading: ColumnReading, images: Sequence[Image | None]) -> _Column:
    by_kind: dict[JsonKind, list[object]] = {}
    misfits: dict[int, str] = {}
    cells = [None if image is None else image.get(reading.name) for image in images]
    for row, cell in enumerate(cells):
        if cell is None or cell[0] is JsonKind.NULL:
            continue
        try:
            kind, value = wire_value(reading, *cell)
        except ValueError as problem:
            misfits[row] = _misfit(reading, cell, str(problem))
            continue
        by_kind.setdefault(kind, [None] * len(cells))[row] = value
    values = pa.nulls(len(cells), reading.arrow_type)
    for kind, wires in by_kind.items():
        part, failed = cast_alone(reading, kind, wires)
        values = pc.coalesce(values, part)
        for row in [] if failed is None else np.flatnonzero(failed).tolist():
            misfits[row] = _misfit(reading, cells[row], _why(reading, kind, wires[row]))
    return _Column(values, misfits)


def _problems(
    reading: ColumnReading,
    before: _Column,
    after: _Column,
    rows: pa.Array,
    plan: RowPlan,
    settings: DecodeSettings,
) -> list[tuple[int, str]]:
    """(row, reason) of the rows whose value is bad; an empty reason: it is not there."""
    problems: list[tuple[int, str]] = []
    required = reading.required and rows.null_count > 0
    if not (before.misfits or after.misfits or required):
        return problems
    for row, record in enumerate(plan.record.tolist()):
        invented = settings.rows.before_has_key_only and not reading.is_key
        if plan.is_after[row]:
            reason = after.misfits.get(record)
        else:
            reason = None if invented else before.misfits.get(record)
        if reason:
            problems.append((row, reason))
        elif required and not rows[row].is_valid:
            problems.append((row, ""))
    return problems


def _absence(reading: ColumnReading, record: RowRecord, plan: RowPlan, row: int) -> str:
    what = "primary key column" if reading.is_key else "NOT NULL column"
    image = record.after if plan.is_after[row] else record.before
    state = "null" if reading.name in (image or {}) else "missing"
    where = "" if plan.is_after[row] else " in the before-image"
    return f"{what} {reading.name!r} is {state}{where}"


def _misfit(reading: ColumnReading, cell: Cell | None, why: str) -> str:
    kind, text = cell or (JsonKind.NULL, "")
    shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    quoted = f'"{shown}"' if kind is JsonKind.STRING else shown
    return f"column {reading.name!r} ({reading.data_type}): {quoted} {why}"


def _why(reading: ColumnReading, kind: JsonKind, wire: Any) -> str:
    read_as = f"read as {reading.encoding.value}"
    hint = f"column.{reading.name}.encoding tells another unit"
    match reading.family:
        case Family.DATE | Family.TIME | Family.TIMESTAMP if (
            kind is JsonKind.NUMBER and reading.encoding is Encoding.ISO
        ):
            return f"is a number ({read_as}; {hint})"
        case Family.TIME if kind is JsonKind.NUMBER:
            return f"is no time of day ({read_as}; {hint})"
        case Family.DATE | Family.TIMESTAMP if kind is JsonKind.NUMBER:
            return f"is outside what the column can hold ({read_as}; {hint})"
        case Family.DATE | Family.TIME | Family.TIMESTAMP:
            return "is not an ISO 8601 value that the column can hold"
        case Family.INTEGER if kind is JsonKind.NUMBER:
            return "is out of range"
        case Family.BINARY:
            return f"is not {reading.encoding.value}"
        case Family.DECIMAL if isinstance(wire, dict) or (
            kind is JsonKind.STRING and reading.encoding is Encoding.BASE64
        ):
            return _why_no_decimal(reading, wire)
        case _:
            return "is not a value of that type"


def _why_no_decimal(reading: ColumnReading, wire: Any) -> str:
    """Of base64, or of ``{scale, value}``."""
    is_struct = isinstance(wire, dict)
    text, scale = (wire["value"], wire["scale"]) if is_struct else (wire, reading.scale)
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        return "is not base64, as decimal.handling.mode = precise has it"
    return why_no_decimal(value, scale, reading.arrow_type)
