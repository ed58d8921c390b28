"""Debezium records read one by one → rows, and the reason of each that cannot be read.

The slow path of `debezium_json`: what it says of a record is final. `record_images` makes the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stream_app.cdc.alike.dialect import NoRow, Truncate
from stream_app.cdc.alike.outcome import RecordsResult
from stream_app.cdc.change_batch import no_changes
from stream_app.cdc.column_drift import Sighting, add_sighting
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.debezium.columns import DecodeSettings
from stream_app.cdc.debezium.key_proof import (
    WHOLE_IMAGES,
    KeyRules,
    Question,
    questions_of,
)
from stream_app.cdc.debezium.placeholders import Placeholder
from stream_app.cdc.debezium.record_reader import (
    RowRecord,
    Wrapped,
    read_record,
)
from stream_app.cdc.record_images import Cell, UnreadableRecordError, rows_of_records


@dataclass(slots=True)
class DebeziumResult(RecordsResult):
    """What came of records; `wrapped` are those in a schema envelope, still to be read."""

    wrapped: list[tuple[int, Wrapped]] = field(default_factory=list)


def decode_records(
    values: Sequence[bytes], readings: tuple[ColumnReading, ...], settings: DecodeSettings
) -> DebeziumResult:
    """Read each value on its own."""
    result = DebeziumResult(no_changes(settings.rows.schema).rows, np.empty(0, np.int64))
    keys = frozenset(reading.name for reading in readings if reading.is_key)
    found: list[tuple[int, RowRecord]] = []
    for position, value in enumerate(values):
        try:
            record = read_record(value, settings.policy.columns, keys)
            match record:
                case RowRecord():
                    if not _is_refused(result, position, record, settings):
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
    result: DebeziumResult, position: int, record: RowRecord, settings: DecodeSettings
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
    """Replace placeholders: after by before, before by null.

    What the table's writer may find is left out.
    """
    before = None
    if record.before is not None:
        before = {
            reading.name: cell
            for reading in readings
            if (cell := record.before.get(reading.name))
            and not _is_unchanged(settings.placeholder, reading, cell)
        }
    if record.after is None:
        return replace(record, before=before)
    after = dict(record.after)
    left_out: set[str] = set()
    for reading in readings:
        cell = after.get(reading.name)
        if cell is None or not _is_unchanged(settings.placeholder, reading, cell):
            continue
        if record.op == "u" and record.before is None and reading.name in settings.restored:
            left_out.add(reading.name)
            del after[reading.name]
            continue
        old = None if settings.rows.before_has_key_only else (before or {}).get(reading.name)
        if old is None or old[0] is JsonKind.NULL:
            raise UnreadableRecordError(
                f"column {reading.name!r} is unchanged and its value was not sent "
                f"({settings.placeholder.text}), and the before-image does not have it: set "
                "REPLICA IDENTITY FULL on the source table"
            )
        after[reading.name] = old
    return replace(record, before=before, after=after, unchanged=frozenset(left_out))


def _is_unchanged(placeholder: Placeholder, reading: ColumnReading, cell: Cell) -> bool:
    kind, text = cell
    if kind is JsonKind.STRING:
        return placeholder.is_value(reading, text, nested=False)
    nested = kind in (JsonKind.ARRAY, JsonKind.OBJECT)
    return nested and placeholder.is_value(reading, text, nested=True)


def _add_rows(
    result: DebeziumResult,
    found: list[tuple[int, RowRecord]],
    readings: tuple[ColumnReading, ...],
    settings: DecodeSettings,
) -> None:
    of = rows_of_records([record for _, record in found], readings, settings.rows)
    positions = np.array([position for position, _ in found], np.int64)
    result.rows, result.record = of.rows, positions[of.record]
    result.reasons |= {found[record][0]: reason for record, reason in of.reasons.items()}
    for record, (position, change) in enumerate(found):
        if position in result.reasons:
            continue
        drift = replace(change.drift, cut=of.cut.get(record, frozenset()))
        add_sighting(result.columns, drift, Sighting(1, position))
        if settings.reads_tables:
            result.tables.setdefault(change.origin.table, position)
