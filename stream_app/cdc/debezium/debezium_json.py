"""Debezium's JSON messages → row changes.

The format ``debezium-json``: change events of any Debezium connector through Kafka Connect's
JsonConverter, with and without the schema envelope, whole or flattened by ExtractNewRecordState.

1. Messages are grouped by the schema that they bring, and cut into slices.
2. Records that look alike are decoded in columns (`columns`).
3. What does not fit in is read record by record (`records`), which decides.
4. Where no before-image proves the row of a change, its Kafka key must (`key_proof`). A change
   whose row is not certain stops the job or is a bad record.
5. All rows are put back into the order of the messages.

What a message becomes: c and r give +I; u gives -U (if kept) and +U; d gives -D of the
before-image. A column that is missing in a message is null. Tombstones, heartbeats, transaction
markers, schema changes and logical messages (op m) are skipped. Flattened messages without
``__op`` count as creates.

Source: Debezium documentation, "Data change events" of the PostgreSQL, MySQL and MariaDB
connectors; tests/fixtures/cdc holds real messages of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.change_batch import (
    ChangeBatch,
    DecodedBatch,
    bad_records,
    change_schema,
    concat_changes,
    place,
)
from stream_app.cdc.column_drift import Column, Sighting
from stream_app.cdc.columns.arrow_buffers import Bools, offsets_of, valid_of
from stream_app.cdc.columns.column_reading import ColumnReading, Family
from stream_app.cdc.columns.json_lines import looks_like_object, may_be_misread
from stream_app.cdc.columns.nesting import deep_ones
from stream_app.cdc.debezium.columns import DecodeSettings, decode_columns
from stream_app.cdc.debezium.connect_types import ConnectField, apply_schema
from stream_app.cdc.debezium.description import describe
from stream_app.cdc.debezium.key_check import KeyCheck
from stream_app.cdc.debezium.key_proof import Question, Questions, ReplicaIdentity
from stream_app.cdc.debezium.options import (
    DECIMAL_MODE,
    OPTIONS,
    column_readings,
    has_whole_before,
    key_rules,
    parse_options,
)
from stream_app.cdc.debezium.origins import change_times, debezium_origins
from stream_app.cdc.debezium.record_shapes import RecordShape, shape_of
from stream_app.cdc.debezium.records import RecordsResult, decode_records
from stream_app.cdc.debezium.schema import SCHEMAS_MAX, connect_fields, split_envelopes
from stream_app.cdc.debezium.source_survey import survey
from stream_app.cdc.images import RowRules
from stream_app.cdc.message_format import Format, FormatSetup
from stream_app.errors import WrongSourceError

Index = npt.NDArray[np.int32]

_SLICE_ROWS_MAX = 32_768
_SLICE_BYTES_MAX = 32 << 20
_SAMPLE_ROWS = 16
_HALVE_ROWS_MIN = 64


@dataclass(slots=True)
class _Group:
    """Messages of one schema: how their columns are read, and the shape last seen."""

    readings: tuple[ColumnReading, ...]
    fingerprint: str
    shape: RecordShape | None = None


@dataclass(slots=True)
class _Outcome:
    """What has come of a batch so far; positions are those of its messages."""

    messages: pa.RecordBatch
    parts: list[ChangeBatch] = field(default_factory=list)
    asked: list[tuple[Index, Questions]] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    skipped: int = 0
    columns: dict[Column, Sighting] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)

    def see(self, columns: Mapping[Column, Sighting], index: npt.NDArray[np.integer[Any]]) -> None:
        """Take in columns of records, whose positions in the batch are those of `index`."""
        for column, sighting in columns.items():
            moved = Sighting(sighting.records, int(index[sighting.first]))
            known = self.columns.get(column)
            self.columns[column] = moved if known is None else moved.plus(known)

    def ask(self, index: Index, questions: Questions) -> None:
        """Note what messages want to know of their keys."""
        if questions.any():
            asking = questions != Question.NONE
            self.asked.append((index[asking], questions[asking]))

    def see_tables(self, tables: Mapping[str, int], index: Index) -> None:
        """Note of which source tables messages are."""
        for name, record in tables.items():
            position = int(index[record])
            self.tables[name] = min(position, self.tables.get(name, position))


class DebeziumJson:
    """The message format ``debezium-json``; implements `message_format.MessageFormat`."""

    def __init__(self, setup: FormatSetup) -> None:
        self._options = parse_options(setup.options, setup.columns)
        self._readings = column_readings(
            setup.columns, setup.arrow_schema, setup.primary_keys, self._options
        )
        rules = key_rules(self._options, setup.primary_keys, setup.traits)
        self._settings = DecodeSettings(
            rows=RowRules(
                schema=change_schema(setup.arrow_schema),
                keep_update_before=setup.keep_update_before,
                before_has_key_only=rules.identity is ReplicaIdentity.DEFAULT,
                why_base64=f", as {DECIMAL_MODE} = precise has it",
            ),
            policy=self._options.column_policy(setup.columns),
            key_rules=rules,
            reads_tables=not setup.traits.merges_shards,
        )
        self._keys = KeyCheck(rules, self._options.sets_unproven_aside)
        self._schemas: dict[bytes, Mapping[str, ConnectField]] = {}
        self._groups: dict[bytes, _Group] = {}

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: a TRUNCATE, unless ``truncate = ignore``,
                or a change whose row is not certain, unless ``unproven-keys = quarantine``.
        """
        values = messages.column("value")
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        if len(self._groups) > SCHEMAS_MAX:
            self._groups.clear()
            self._schemas.clear()
        outcome = _Outcome(messages, skipped=values.null_count)
        present: Index = np.flatnonzero(valid_of(values)).astype(np.int32)
        if values.null_count:
            values = values.drop_null()
        for payloads in split_envelopes(values, self._schemas):  # step 1
            group = self._group(payloads.prefix)
            if payloads.prefix:
                outcome.schemas[group.fingerprint] = int(present[payloads.index[0]])
            for rows in _slices(payloads.payloads):
                part = payloads.payloads.slice(rows.start, rows.stop - rows.start)
                self._decode_slice(part, present[payloads.index[rows]], group, outcome)
        uncertain = self._uncertain(outcome)  # step 4
        decoded = DecodedBatch(
            changes=concat_changes(self._settings.rows.schema, outcome.parts),  # step 5
            bad=bad_records(
                messages, {at: why for at, why in outcome.reasons.items() if at not in uncertain}
            ),
            skipped=outcome.skipped,
            tables=outcome.tables,
            columns=outcome.columns,
            schemas=outcome.schemas,
        )
        return decoded.setting_aside(messages, uncertain) if uncertain else decoded

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` reads the messages' keys."""
        return self._keys.reads_keys

    def _uncertain(self, outcome: _Outcome) -> dict[int, str]:
        """Step 4."""
        if not outcome.asked:
            return {}
        index, questions = (np.concatenate(parts) for parts in zip(*outcome.asked, strict=True))
        return self._keys.uncertain(outcome.messages, index, questions)

    def _group(self, prefix: bytes) -> _Group:
        if prefix not in self._groups:
            fields = self._schemas.get(prefix, {})
            self._groups[prefix] = _Group(
                apply_schema(self._readings, fields, self._options.encodings),
                hashlib.sha256(prefix).hexdigest(),
            )
        return self._groups[prefix]

    def _decode_slice(
        self, values: pa.Array, index: Index, group: _Group, outcome: _Outcome
    ) -> None:
        alike = looks_like_object(values) & ~deep_ones(values)
        has_decimals = any(reading.family is Family.DECIMAL for reading in group.readings)
        alike &= ~may_be_misread(values, has_decimals=has_decimals)
        policy = self._settings.policy
        if group.shape is None or policy.looks_at_each:
            sample = np.flatnonzero(alike)[: None if policy.looks_at_each else _SAMPLE_ROWS]
            texts = values.take(pa.array(sample)).to_pylist()
            group.shape, fits = shape_of(texts, group.readings, policy)
            if policy.looks_at_each:
                alike[sample] = fits
        odd = ~alike
        if alike.any():
            odd = self._decode_alike(values, alike, index, group, outcome)
        if odd.any():
            self._decode_odd(values.filter(pa.array(odd)), index[odd], group.readings, outcome)

    def _decode_alike(
        self, values: pa.Array, alike: Bools, index: Index, group: _Group, outcome: _Outcome
    ) -> Bools:
        """Step 2; returns which of the values are left for step 3."""
        rows = np.flatnonzero(alike)
        part = values if len(rows) == len(values) else values.take(pa.array(rows))
        odd = ~alike
        if not self._decode_in_columns(part, rows, index, group, outcome, odd):
            # Learn the commonest shape again, and keep it for later batches.
            group.shape, fits = shape_of(part.to_pylist(), group.readings, self._settings.policy)
            odd[rows[~fits]] = True
            rows, part = rows[fits], part.filter(pa.array(fits))
            self._decode_by_halves(part, rows, index, group, outcome, odd)
        return odd

    def _decode_by_halves(
        self,
        values: pa.Array,
        rows: npt.NDArray[np.int64],
        index: Index,
        group: _Group,
        outcome: _Outcome,
        odd: Bools,
    ) -> None:
        """Find the few values that the parser refuses among many of the same shape."""
        if self._decode_in_columns(values, rows, index, group, outcome, odd):
            return
        if len(rows) <= _HALVE_ROWS_MIN:
            odd[rows] = True
            return
        half = len(rows) // 2
        self._decode_by_halves(values.slice(0, half), rows[:half], index, group, outcome, odd)
        self._decode_by_halves(values.slice(half), rows[half:], index, group, outcome, odd)

    def _decode_in_columns(
        self,
        values: pa.Array,
        rows: npt.NDArray[np.int64],
        index: Index,
        group: _Group,
        outcome: _Outcome,
        odd: Bools,
    ) -> bool:
        if len(values) == 0:
            return True
        assert group.shape is not None
        decoded = decode_columns(values, group.readings, group.shape, self._settings)
        if decoded is None:
            return False
        odd[rows[decoded.of.suspects]] = True
        outcome.ask(index[rows], decoded.questions)
        outcome.see_tables(decoded.of.tables, index[rows])
        outcome.see(decoded.columns, index[rows])
        outcome.parts.append(
            ChangeBatch(rows=decoded.of.rows, message_index=index[rows[decoded.of.record]])
        )
        return True

    def _decode_odd(
        self,
        values: pa.Array,
        index: Index,
        readings: tuple[ColumnReading, ...],
        outcome: _Outcome,
    ) -> None:
        """Step 3."""
        result = decode_records(values.to_pylist(), readings, self._settings)
        self._take_result(result, index, outcome)
        for position, wrapped in result.wrapped:
            fields = connect_fields(wrapped.schema)
            inner = decode_records(
                [wrapped.payload],
                apply_schema(self._readings, fields, self._options.encodings),
                self._settings,
            )
            if inner.wrapped:
                inner.reasons[0] = "is an envelope within an envelope"
            self._take_result(inner, index[position : position + 1], outcome)

    def _take_result(self, result: RecordsResult, index: Index, outcome: _Outcome) -> None:
        outcome.parts.append(ChangeBatch(rows=result.rows, message_index=index[result.record]))
        outcome.ask(
            index[list(result.questions)], np.array(list(result.questions.values()), np.uint8)
        )
        outcome.see_tables(result.tables, index)
        outcome.see(self._settings.policy.told(result.columns), index)
        outcome.skipped += result.no_row + len(result.truncates)
        for position, reason in result.reasons.items():
            outcome.reasons[int(index[position])] = reason
        if result.stops:
            position, reason = min(result.stops.items())
            raise _stopped(outcome.messages, int(index[position]), reason)
        if result.truncates and not self._options.ignores_truncate:
            raise _truncated(outcome.messages, int(index[result.truncates[0]]))


def _slices(values: pa.Array) -> Iterator[slice]:
    """Ranges of at most so many values and (but for a single value) so many bytes."""
    offsets = offsets_of(values)
    start = 0
    while start < len(values):
        limit = int(offsets[start]) + _SLICE_BYTES_MAX
        fitting = int(np.searchsorted(offsets, limit, side="right")) - 1
        stop = min(max(fitting, start + 1), start + _SLICE_ROWS_MAX, len(values))
        yield slice(start, stop)
        start = stop


def _stopped(messages: pa.RecordBatch, at: int, reason: str) -> WrongSourceError:
    return WrongSourceError(
        f"the record's columns are not the table's: {reason}",
        where=place(messages, at),
        fix="give the table the columns of the source, and start the job again; or choose warn, "
        "ignore or quarantine for source.debezium.unknown-columns and missing-columns",
    )


def _truncated(messages: pa.RecordBatch, at: int) -> WrongSourceError:
    return WrongSourceError(
        "the source table was truncated, and stream_app cannot delete all rows at once",
        where=place(messages, at),
        fix="to keep the rows and continue, set source.debezium.truncate = 'ignore'; else empty "
        "or recreate the table, and start behind this offset",
    )


DEBEZIUM_JSON = Format(
    name="debezium-json",
    section="debezium",
    introduction='for example `debezium."time.precision.mode" = "connect"`. They repeat the '
    "connector's configuration, which a message with the schema envelope contains. "
    "[CDC.md](CDC.md) explains each of them.",
    options=OPTIONS,
    check=parse_options,
    make=DebeziumJson,
    survey=survey,
    origins=debezium_origins,
    describe=describe,
    change_times=change_times,
    has_whole_before=has_whole_before,
)
