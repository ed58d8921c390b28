"""A format of JSON, made of its dialect: messages → row changes.

1. Records that look alike are parsed in columns by the dialect, and become rows (`images`).
2. What does not fit in is read one by one by the dialect; `record_images` makes the rows.
3. A message is stored whole or not at all: one bad record makes it bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.alike.changed_columns import first_of_each
from stream_app.cdc.alike.decoder import AlikeDecoder, Group
from stream_app.cdc.alike.dialect import Change, Dialect, NoRow, Parsed, Table, Truncate
from stream_app.cdc.alike.documents import cell_of, load_document
from stream_app.cdc.alike.drift_search import (
    NO_CLASS,
    SearchedRecords,
    drift_in,
    first_and_last_nulls,
)
from stream_app.cdc.alike.options import CheckedOptions, column_readings
from stream_app.cdc.alike.outcome import DecodedRecords, Index, Outcome, RecordsResult
from stream_app.cdc.change_batch import DecodedBatch, change_schema, no_changes
from stream_app.cdc.column_drift import NO_DRIFT, Column, Drift, Reaction, Sighting, add_sighting
from stream_app.cdc.columns.arrow_buffers import Bools, valid_of
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.images import ImageRows, RowRules, rows_of
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.record_images import RecordImages, UnreadableRecordError, rows_of_records
from stream_app.cdc.source_tables import first_records
from stream_app.model.schema.data_type import DataType

_WITH_BEFORE = np.uint8(0x80)
"""Added to a record's op, which is a letter of ASCII."""


class ChangeFormat:
    """Implements `message_format.MessageFormat` and `decoder.Reads`."""

    def __init__(
        self,
        dialect: Dialect,
        section: str,
        setup: FormatSetup,
        options: CheckedOptions,
        default: Callable[[DataType], Encoding],
    ) -> None:
        self._dialect = dialect
        self._section = section
        self._options = options
        self._policy = options.column_policy(setup.columns)
        self._table = Table(
            readings=column_readings(setup, options.encodings, default),
            columns=frozenset(setup.columns.names),
            keys=frozenset(setup.primary_keys),
            reads_tables=not setup.traits.merges_shards,
        )
        self._rules = RowRules(
            schema=change_schema(setup.arrow_schema),
            keep_update_before=setup.keep_update_before,
            cut=self._policy.cut,
        )
        self._group = Group(self._table.readings)

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` reads the messages' keys."""
        return bool(self._dialect.key_columns)

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: a TRUNCATE, where ``truncate = error``, or a record with other
                columns than the table's where options say so.
        """
        values = messages.column("value")
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        outcome = Outcome(
            messages=messages,
            section=self._section,
            policy=self._policy,
            on_truncate=self._options.on_truncate,
            skipped=values.null_count,
        )
        present: Index = np.flatnonzero(valid_of(values)).astype(np.int32)
        if values.null_count:
            values = values.drop_null()
        marker = self._dialect.schema_marker
        if marker and self._policy.unknown is Reaction.EVOLVE:
            told = first_of_each(values, marker).items()
            outcome.schemas |= {sha256(one).hexdigest(): int(present[row]) for one, row in told}
        decoder = AlikeDecoder(self, self._dialect.images_of, self._policy)
        decoder.decode(values, present, self._group, outcome)
        return outcome.decoded(self._rules.schema, {})

    def ahead(self, values: pa.Array, index: Index, group: Group, outcome: Outcome) -> Bools:
        """Nothing; see `decoder.Reads`."""
        del index, group, outcome
        return np.ones(len(values), np.bool_)

    def in_columns(
        self, values: pa.Array, index: Index, group: Group, outcome: Outcome
    ) -> DecodedRecords | None:
        """Step 1; see `decoder.Reads`."""
        assert group.shape is not None
        keys = self._keys(outcome.messages, index)
        parsed = self._dialect.parse(values, keys, self._table, group.shape.kinds)
        if parsed is None:
            return None
        decoded = _by_message(rows_of(parsed.images, group.readings, self._rules), parsed)
        drift = self._drift(values, parsed, decoded.suspects) if self._policy.looks else {}
        return DecodedRecords(decoded, None, drift)

    def one_by_one(self, values: pa.Array, index: Index, group: Group, outcome: Outcome) -> None:
        """Step 2; see `decoder.Reads`."""
        result = RecordsResult(no_changes(self._rules.schema).rows, np.empty(0, np.int64))
        found: list[tuple[int, Change, Drift]] = []
        keys = self._keys(outcome.messages, index)
        for position, value in enumerate(values.to_pylist()):
            try:
                key = None if keys is None else keys[position].as_py()
                change, drift = read_message(self._dialect, value, key, self._table)
            except UnreadableRecordError as problem:
                result.reasons[position] = str(problem)
                continue
            match change:
                case Truncate():
                    result.truncates.append(position)
                case NoRow():
                    result.no_row += 1
                case Change():
                    if refusal := self._policy.refusal(drift):
                        refused = result.stops if refusal.stops else result.reasons
                        refused[position] = refusal.reason
                    else:
                        found.append((position, change, drift))
        self._add_rows(result, found, group)
        outcome.take_result(result, index)

    def _keys(self, messages: pa.RecordBatch, index: Index) -> pa.Array | None:
        if not self.reads_keys:
            return None
        if "key" not in messages.schema.names:
            return pa.nulls(len(index), pa.binary())
        return messages.column("key").take(pa.array(index))

    def _add_rows(
        self, result: RecordsResult, found: list[tuple[int, Change, Drift]], group: Group
    ) -> None:
        records: list[RecordImages] = []
        owners: list[int] = []
        for position, change, _ in found:
            records += change.records
            owners += [position] * len(change.records)
        of = rows_of_records(records, group.readings, self._rules)
        for record, reason in sorted(of.reasons.items()):
            result.reasons.setdefault(owners[record], reason)
        owner = np.array(owners, np.int64)[of.record]
        kept = ~np.isin(owner, list(result.reasons))  # step 3
        cut: dict[int, frozenset[str]] = {}
        for record, names in of.cut.items():
            cut[owners[record]] = cut.get(owners[record], frozenset()) | names
        result.rows, result.record = of.rows.filter(pa.array(kept)), owner[kept]
        for position, change, drift in found:
            if position not in result.reasons:
                whole = replace(drift, cut=cut.get(position, frozenset()))
                add_sighting(result.columns, whole, Sighting(1, position))
                if self._table.reads_tables:
                    result.tables.setdefault(change.table, position)

    def _drift(
        self, values: pa.Array, parsed: Parsed, suspects: Bools
    ) -> Mapping[Column, Sighting]:
        images, message = parsed.images, parsed.message
        of_records = np.where(images.has_before, images.ops | _WITH_BEFORE, images.ops)
        after_at = np.where(images.has_after, np.arange(len(images.ops)), -1)
        nulls = first_and_last_nulls(images.after, after_at)
        if message is None:
            classes = of_records
        else:
            classes = np.zeros(len(values), np.uint8)
            classes[message[::-1]] = of_records[::-1]  # that of the first record
            nulls = {int(message[row]) for row in nulls}
        classes[suspects] = NO_CLASS
        records = SearchedRecords(
            values=values,
            named=values,
            classes=classes,
            nulls=[row for row in nulls if classes[row] != NO_CLASS],
            inner=np.zeros(len(values), np.int64),
        )
        images_of = self._dialect.images_of
        found = drift_in(records, columns=self._table.columns, images_of=images_of)
        return self._policy.told(found)


def read_message(
    dialect: Dialect, value: bytes, key: bytes | None, table: Table
) -> tuple[Change | Truncate | NoRow, Drift]:
    """Read one message that is no tombstone, and the columns by which it differs from the table.

    Raises:
        UnreadableRecordError: no JSON, or no message of this format.
    """
    document = load_document(value)
    if document is None:
        return NoRow(), NO_DRIFT
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    change = dialect.read(document, key, table)
    images = dialect.images_of(document) if isinstance(change, Change) else None
    return change, NO_DRIFT if images is None else images.drift(table.columns)


def _by_message(of: ImageRows, parsed: Parsed) -> ImageRows:
    """Rows of records as rows of their messages; step 3."""
    message = parsed.message
    if message is None:
        return of
    suspects = np.zeros(0, np.bool_) if parsed.odd is None else parsed.odd.copy()
    suspects[message[of.suspects]] = True
    kept = ~suspects[message[of.record]]
    wanted = ~suspects[message]
    return replace(
        of,
        rows=of.rows if kept.all() else of.rows.filter(pa.array(kept)),
        record=message[of.record[kept]],
        suspects=suspects,
        tables={
            name: int(message[record])
            for name, record in first_records(parsed.images.tables, wanted).items()
        },
        cut={name: _of_messages(lossy, message, suspects) for name, lossy in of.cut.items()},
    )


def _of_messages(records: Bools, message: npt.NDArray[np.int64], suspects: Bools) -> Bools:
    """Which messages have such a record, and are no suspects."""
    found = np.zeros(len(suspects), np.bool_)
    found[message[records]] = True
    return found & ~suspects
