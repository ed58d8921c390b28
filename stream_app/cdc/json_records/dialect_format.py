"""A format of JSON that its dialect makes: its declaration, and messages → row changes.

1. Records that look alike are parsed in columns by the dialect, and become rows (`images`).
2. The dialect reads other records one by one; `record_images` makes the rows.
3. A message is stored whole or not at all: one bad record makes it bad.

A survey only looks: what becomes of a record is decided by the format, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.change_batch import DecodedBatch, change_schema, place, present_values
from stream_app.cdc.column_drift import Column, Reaction, Sighting
from stream_app.cdc.columns.arrow_buffers import Bools
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.json_records.changed_columns import first_of_each
from stream_app.cdc.json_records.decoder import Group, Reads, ShapeDecoder
from stream_app.cdc.json_records.description import describe, versions
from stream_app.cdc.json_records.dialect import Change, Dialect, NoRow, Parsed, Table, Truncate
from stream_app.cdc.json_records.documents import cell_of, load_document
from stream_app.cdc.json_records.drift_search import (
    NO_CLASS,
    SearchedRecords,
    classes_of,
    drift_in,
    first_and_last_nulls,
)
from stream_app.cdc.json_records.options import CheckedOptions, checked_options, column_readings
from stream_app.cdc.json_records.outcome import DecodedRecords, Index, Outcome, RecordsResult
from stream_app.cdc.message_format import (
    Format,
    FormatSetup,
    MessageFormat,
    Notice,
    SourceReader,
    promises_nothing,
)
from stream_app.cdc.rows.images import ImageRows, RowRules, rows_of
from stream_app.cdc.rows.record_images import RecordImages, UnreadableRecordError
from stream_app.cdc.source_tables import Origins, first_records
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import DataType, RowType


class ChangeFormat(Reads):
    """Implements `message_format.MessageFormat`."""

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
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: a TRUNCATE, where ``truncate = error``, or a record with other
                columns than the table's where options say so.
        """
        values, present = present_values(messages)
        outcome = Outcome(
            messages=messages,
            section=self._section,
            policy=self._policy,
            on_truncate=self._options.on_truncate,
            skipped=messages.num_rows - len(values),
        )
        marker = self._dialect.schema_marker
        if marker and self._policy.unknown is Reaction.EVOLVE:
            schemas = first_of_each(values, marker).items()
            outcome.schemas |= {sha256(one).hexdigest(): int(present[row]) for one, row in schemas}
        decoder = ShapeDecoder(self, self._dialect.images_of, self._policy)
        decoder.decode(values, present, self._group, outcome)
        return outcome.decoded(self._rules.schema, {})

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
        keys = self._keys(outcome.messages, index)

        def read(position: int, value: bytes) -> Change | Truncate | NoRow:
            key = None if keys is None else keys[position].as_py()
            return read_message(self._dialect, value, key, self._table)

        result = RecordsResult()
        changes = result.read(values, read, self._policy)  # step 3
        reads_tables = self._table.reads_tables
        result.add_rows(changes, group.readings, self._rules, reads_tables=reads_tables)
        outcome.take_result(result, index)

    def _keys(self, messages: pa.RecordBatch, index: Index) -> pa.Array | None:
        if not self.reads_keys:
            return None
        if "key" not in messages.schema.names:
            return pa.nulls(len(index), pa.binary())
        return messages.column("key").take(pa.array(index))

    def _drift(
        self, values: pa.Array, parsed: Parsed, suspects: Bools
    ) -> Mapping[Column, Sighting]:
        images, message = parsed.images, parsed.message
        of_records = classes_of(images.ops, images.has_before)
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
        sightings = drift_in(records, columns=self._table.columns, images_of=images_of)
        return self._policy.reported(sightings)


def read_message(
    dialect: Dialect, value: bytes, key: bytes | None, table: Table
) -> Change | Truncate | NoRow:
    """Read one message with a value.

    Raises:
        UnreadableRecordError: no JSON, or no message of this format.
    """
    document = load_document(value)
    if document is None:
        return NoRow()
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    change = dialect.read(document, key, table)
    if isinstance(change, Change) and (images := dialect.images_of(document)) is not None:
        return replace(change, drift=images.drift(table.columns))
    return change


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
    has_one = np.zeros(len(suspects), np.bool_)
    has_one[message[records]] = True
    return has_one & ~suspects


def _fits_together(_checked: CheckedOptions, _columns: RowType) -> None:
    """Accept all options: those of most formats do not depend on each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFormat:
    """The parts of a format's declaration that come from its dialect.

    Attributes:
        name, section, introduction, options: as `Format` has them.
        origins, change_times: as `SourceReader` has them.
        dialect: makes the dialect of a table's options.
        encoding: of a column, by its type.
        has_whole_before, tells_changes, signs: as `Format` has them.
        check_together: raises `UsageError` when options do not fit each other or the columns.
    """

    name: str
    section: str
    introduction: str
    options: tuple[Option[Any], ...]
    origins: Callable[[pa.RecordBatch], Origins]
    dialect: Callable[[CheckedOptions], Dialect]
    encoding: Callable[[DataType], Encoding]
    change_times: Callable[[pa.RecordBatch], pa.Array] | None = None
    has_whole_before: Callable[[Mapping[str, str]], bool] = promises_nothing
    tells_changes: bool = True
    signs: tuple[frozenset[str], ...] = ()
    check_together: Callable[[CheckedOptions, RowType], None] = _fits_together

    def declared(self) -> Format:
        """The format for the registry; its dialect without options surveys and describes."""
        plain = self.dialect(
            checked_options(self.name, self.section, self.options, {}, RowType(()))
        )
        return Format(
            name=self.name,
            section=self.section,
            introduction=self.introduction,
            options=self.options,
            check=self._checked,
            make=self._made,
            survey=partial(survey, plain),
            reader=partial(self._reader, plain),
            tells_times=self.change_times is not None,
            has_whole_before=self.has_whole_before,
            tells_changes=self.tells_changes,
            signs=self.signs,
        )

    def _reader(self, plain: Dialect, _options: Mapping[str, str]) -> SourceReader:
        return SourceReader(
            origins=self.origins,
            describe=partial(describe, plain),
            versions=partial(versions, plain),
            change_times=self.change_times,
        )

    def _checked(self, options: Mapping[str, str], columns: RowType) -> CheckedOptions:
        checked = checked_options(self.name, self.section, self.options, options, columns)
        self.check_together(checked, columns)
        return checked

    def _made(self, setup: FormatSetup) -> MessageFormat:
        checked = self._checked(setup.options, setup.columns)
        return ChangeFormat(self.dialect(checked), self.section, setup, checked, self.encoding)


@dataclass(frozen=True, slots=True)
class Survey:
    """Implements `message_format.SourceSurvey`.

    Attributes:
        seen: for each topic its records that mean rows, with their places.
    """

    keys: frozenset[str]
    seen: Mapping[str, list[tuple[str, Change]]] = field(default_factory=dict)

    def tables(self) -> Counter[tuple[str, str]]:
        """Topic and name of a source table → its messages with rows."""
        return Counter(
            (topic, change.table) for topic, changes in self.seen.items() for _, change in changes
        )

    def notices(self) -> Iterator[Notice]:
        """One for each topic in which a row lacks a part of the primary key."""
        for changes in self.seen.values():
            notice = next(filter(None, (self._lacking(*record) for record in changes)), None)
            if notice is not None:
                yield notice

    def _lacking(self, where: str, change: Change) -> Notice | None:
        for record in change.records:
            lacking = sorted(name for name in self.keys if not _has(record, name))
            if lacking:
                return Notice(
                    what=f"a record lacks {', '.join(lacking)} of the primary key, and becomes a "
                    "bad record",
                    where=where,
                    fix="make columns that every message has the table's primary key; names are "
                    "compared with upper and lower case",
                )
        return None


def _has(record: RecordImages, name: str) -> bool:
    return all(name in image for image in (record.before, record.after) if image is not None)


def survey(dialect: Dialect, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> Survey:
    """Look at a few messages of each topic."""
    table = Table(
        readings=(),
        columns=frozenset(setup.columns.names),
        keys=frozenset(setup.primary_keys),
        reads_tables=True,
    )
    seen = {topic: _changes(dialect, batch, table) for topic, batch in messages.items()}
    return Survey(table.keys, {topic: changes for topic, changes in seen.items() if changes})


def _changes(dialect: Dialect, messages: pa.RecordBatch, table: Table) -> list[tuple[str, Change]]:
    changes = []
    for at, message in enumerate(messages.select(["key", "value"]).to_pylist()):
        if message["value"] is None:
            continue
        try:
            change = read_message(dialect, message["value"], message["key"], table)
        except UnreadableRecordError:
            continue
        if isinstance(change, Change):
            changes.append((place(messages, at), change))
    return changes
