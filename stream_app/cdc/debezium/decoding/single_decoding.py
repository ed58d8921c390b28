"""Decodes Debezium records one by one, with the reason for each unreadable one.

The slow path of `debezium_json`: its verdict on a record is final. `record_images` makes the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import ColumnReading, JsonKind
from stream_app.cdc.debezium.decoding.one_record import EnvelopedRecord, RowRecord, read_record
from stream_app.cdc.debezium.decoding.parsed_images import DecodeSettings
from stream_app.cdc.debezium.key_proof import WHOLE_IMAGES, KeyQuestion, KeyRules, questions_of
from stream_app.cdc.debezium.placeholders import Placeholder
from stream_app.cdc.json_records.batch_outcome import OneByOneResult
from stream_app.cdc.json_records.dialect import Change, NoRow, Truncate
from stream_app.cdc.rows.record_images import Cell


@dataclass(slots=True)
class DebeziumOneByOneResult(OneByOneResult):
    """The results of records; those in `enveloped_records` are unread, in a schema envelope."""

    enveloped_records: list[tuple[int, EnvelopedRecord]] = field(default_factory=list)


def read_values(
    values: pa.Array, readings: tuple[ColumnReading, ...], settings: DecodeSettings
) -> DebeziumOneByOneResult:
    """Read each value, binary [n], independently."""
    question_by_record: dict[int, int] = {}
    result = DebeziumOneByOneResult(question_by_record=question_by_record)
    keys = frozenset(reading.name for reading in readings if reading.is_key)

    def read_value(value_index: int, value: bytes) -> Change | Truncate | NoRow | None:
        record = read_record(value, settings.policy.columns, keys)
        if isinstance(record, EnvelopedRecord):
            result.enveloped_records.append((value_index, record))
            return None
        if not isinstance(record, RowRecord):
            return record
        if settings.policy.refusal(record.drift) is None:
            record = _restore_unchanged(record, readings, settings)
            if question := question_of(settings.key_rules, record):
                question_by_record[value_index] = question
        return Change((record,), record.table, record.drift)

    changes = result.read_changes(values, read_value, settings.policy)
    result.add_rows(changes, readings, settings.row_rules, reads_tables=settings.reads_tables)
    return result


def question_of(rules: KeyRules, record: RowRecord) -> KeyQuestion:
    """Return what one record's Kafka key must prove."""
    if not record.has_op and rules.primary_key:
        return KeyQuestion.UPSERT
    ops, has_before = np.array([ord(record.op)], np.uint8), np.array([record.before is not None])
    has_whole_images = np.array([record.connector in WHOLE_IMAGES])
    (question,) = questions_of(rules, ops, has_before, has_whole_images)
    return KeyQuestion(int(question))


def _restore_unchanged(
    record: RowRecord, readings: tuple[ColumnReading, ...], settings: DecodeSettings
) -> RowRecord:
    """Replace placeholders: in `after` by the value of `before`, in `before` by null.

    An update without `before` omits a column that the table's writer looks up.
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
    omitted_names: set[str] = set()
    for reading in readings:
        cell = after.get(reading.name)
        if cell is None or not _is_unchanged(settings.placeholder, reading, cell):
            continue
        if record.op == "u" and record.before is None and reading.name in settings.restored_columns:
            omitted_names.add(reading.name)
            del after[reading.name]
            continue
        old_cell = (before or {}).get(reading.name)
        has_key_only = settings.row_rules.before_has_key_only
        if has_key_only or old_cell is None or old_cell[0] is JsonKind.NULL:
            raise UnreadableRecordError(
                f"column {reading.name!r} is unchanged and its value was not sent "
                f"({settings.placeholder.text}), and the before-image does not have it: set "
                "REPLICA IDENTITY FULL on the source table"
            )
        after[reading.name] = old_cell
    return replace(record, before=before, after=after, unchanged_names=frozenset(omitted_names))


def _is_unchanged(placeholder: Placeholder, reading: ColumnReading, cell: Cell) -> bool:
    json_kind, text = cell
    if json_kind is JsonKind.STRING:
        return placeholder.is_value(reading, text, is_nested=False)
    is_nested = json_kind in (JsonKind.ARRAY, JsonKind.OBJECT)
    return is_nested and placeholder.is_value(reading, text, is_nested=True)
