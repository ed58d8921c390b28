"""Collects the results of a batch: rows, reasons of bad records, skipped messages, tables, columns.

`decoder` and the formats add the results part by part; `BatchOutcome.decoded_batch` returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int32s, Int64s
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import (
    ChangeBatch,
    DecodedBatch,
    bad_records_with_reasons,
    concat_changes,
    message_place,
)
from stream_app.cdc.column_drift import (
    ColumnPolicy,
    DriftedColumn,
    DriftKind,
    Sighting,
    add_sighting,
)
from stream_app.cdc.columns.column_reading import ColumnReading
from stream_app.cdc.json_records.dialect import Change, NoRow, Truncate
from stream_app.cdc.json_records.json_options import OnTruncate
from stream_app.cdc.rows.images import ImageRows, RowRules
from stream_app.cdc.rows.record_images import rows_of_records
from stream_app.errors import WrongSourceError

KeyQuestions = npt.NDArray[np.uint8]
"""The facts that each record's Kafka key must prove, as numbers of the format; 0: none."""


@dataclass(frozen=True, slots=True)
class ColumnarResult:
    """The results of n records that were parsed in columns.

    Attributes:
        image_rows: their rows.
        questions: uint8 [n]; None if no record asks its key.
        drift: unknown and missing columns of all records except suspects.
    """

    image_rows: ImageRows
    questions: KeyQuestions | None
    drift: Mapping[DriftedColumn, Sighting]


@dataclass(frozen=True, slots=True)
class ColumnarPart:
    """The results of some of n values, which were parsed in columns.

    Attributes:
        indices: int64 [m]; the indices of the values, ascending.
        result: their results.
    """

    indices: Int64s
    result: ColumnarResult


@dataclass(slots=True)
class OneByOneResult:
    """The results of records that were read one by one, each with its index.

    Attributes:
        row_parts: rows, and for each its record: int64 [m].
        reasons: index of a record → why it cannot be read.
        rowless_count: number of messages without a row.
        truncate_indices: records that empty the table.
        question_by_record: index of a record → what its Kafka key must prove; also of records
            with a reason.
        tables: name of a source table → its first record.
        stop_reasons: index of a record → why it stops the job.
        drift: unknown, missing and cut columns of records that are stored.
    """

    row_parts: list[tuple[pa.RecordBatch, Int64s]] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    rowless_count: int = 0
    truncate_indices: list[int] = field(default_factory=list)
    question_by_record: Mapping[int, int] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    stop_reasons: dict[int, str] = field(default_factory=dict)
    drift: dict[DriftedColumn, Sighting] = field(default_factory=dict)

    def read_changes(
        self,
        values: pa.Array,
        read_value: Callable[[int, bytes], Change | Truncate | NoRow | None],
        policy: ColumnPolicy,
    ) -> list[tuple[int, Change]]:
        """Read values one by one; return the changes that the policy accepts, with indices.

        Args:
            read_value: returns the meaning of the value at an index, or None if the caller
                records it elsewhere. Raises `UnreadableRecordError`.
        """
        changes = []
        for value_index, value in enumerate(values.to_pylist()):
            try:
                change = read_value(value_index, value)
            except UnreadableRecordError as problem:
                self.reasons[value_index] = str(problem)
                continue
            match change:
                case Truncate():
                    self.truncate_indices.append(value_index)
                case NoRow():
                    self.rowless_count += 1
                case Change() if refusal := policy.refusal(change.drift):
                    refusals = self.stop_reasons if refusal.stops_job else self.reasons
                    refusals[value_index] = refusal.reason
                case Change():
                    changes.append((value_index, change))
                case None:
                    pass
        return changes

    def add_rows(
        self,
        changes: Sequence[tuple[int, Change]],
        readings: Sequence[ColumnReading],
        rules: RowRules,
        *,
        reads_tables: bool,
    ) -> None:
        """Add the rows of changes; one bad record makes its message bad."""
        records = [record for _, change in changes for record in change.records]
        owners = [value_index for value_index, change in changes for _ in change.records]
        record_rows = rows_of_records(records, readings, rules)
        for record_index, reason in sorted(record_rows.reasons.items()):
            self.reasons.setdefault(owners[record_index], reason)
        row_owners = np.array(owners, np.int64)[record_rows.record_indices]
        is_good = ~np.isin(row_owners, list(self.reasons))
        self.row_parts.append((record_rows.rows.filter(pa.array(is_good)), row_owners[is_good]))
        cut_columns: dict[int, frozenset[str]] = {}
        for record_index, names in record_rows.cut_columns.items():
            cut_columns[owners[record_index]] = (
                cut_columns.get(owners[record_index], frozenset()) | names
            )
        for value_index, change in changes:
            if value_index not in self.reasons:
                drift = replace(change.drift, cut_columns=cut_columns.get(value_index, frozenset()))
                add_sighting(self.drift, drift, Sighting(1, value_index))
                if reads_tables:
                    self.tables.setdefault(change.table, value_index)


@dataclass(slots=True, kw_only=True)
class BatchOutcome:
    """The results of a batch so far; indices are those of its messages.

    Attributes:
        section: the section of the format's options, for errors.
        last_truncate: the last message that empties the table, or None.
        schemas: fingerprint of each schema that messages bring → its first message.
    """

    messages: pa.RecordBatch
    section: str
    policy: ColumnPolicy
    on_truncate: OnTruncate
    last_truncate: int | None = None
    skipped_count: int = 0
    change_batches: list[ChangeBatch] = field(default_factory=list)
    question_parts: list[tuple[Int32s, KeyQuestions]] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    drift: dict[DriftedColumn, Sighting] = field(default_factory=dict)
    schemas: dict[str, int] = field(default_factory=dict)

    def refuse(self, reasons: Mapping[int, str]) -> None:
        """Add messages that cannot be read, with the reasons."""
        self.reasons.update(reasons)

    def learn_schemas(self, schemas: Mapping[str, int]) -> None:
        """Add the fingerprints of schemas, each with its first message."""
        self.schemas.update(schemas)

    def add_columnar(self, result: ColumnarResult, message_indices: Int32s) -> None:
        """Add records that were parsed in columns.

        Args:
            message_indices: for each record the index of its message.
        """
        if result.questions is not None:
            self._note_questions(message_indices, result.questions)
        self._note_tables(result.image_rows.tables, message_indices)
        self._note_drift(result.drift, message_indices)
        self._note_drift(
            {
                (DriftKind.CUT, name): Sighting(int(is_cut.sum()), int(is_cut.argmax()))
                for name, is_cut in result.image_rows.cut_records.items()
                if is_cut.any()
            },
            message_indices,
        )
        self.change_batches.append(
            ChangeBatch(
                rows=result.image_rows.rows,
                message_indices=message_indices[result.image_rows.record_indices],
            )
        )

    def add_one_by_one(self, result: OneByOneResult, message_indices: Int32s) -> None:
        """Add records that were read one by one.

        Raises:
            WrongSourceError: one of the records stops the job.
        """
        for rows, record_indices in result.row_parts:
            self.change_batches.append(
                ChangeBatch(rows=rows, message_indices=message_indices[record_indices])
            )
        self._note_questions(
            message_indices[list(result.question_by_record)],
            np.array(list(result.question_by_record.values()), np.uint8),
        )
        self._note_tables(result.tables, message_indices)
        self._note_drift(self.policy.reported(result.drift), message_indices)
        self.skipped_count += result.rowless_count + len(result.truncate_indices)
        for value_index, reason in result.reasons.items():
            self.reasons[int(message_indices[value_index])] = reason
        if result.stop_reasons:
            value_index, reason = min(result.stop_reasons.items())
            raise self._stop_error(int(message_indices[value_index]), reason)
        if result.truncate_indices:
            self._take_truncates(
                [int(message_indices[value_index]) for value_index in result.truncate_indices]
            )

    def decoded_batch(
        self, schema: pa.Schema, uncertain_reasons: Mapping[int, str]
    ) -> DecodedBatch:
        """Return all results, in the order of the messages.

        Args:
            uncertain_reasons: messages that are bad for other reasons, by index.
        """
        reasons = {
            message_index: reason
            for message_index, reason in self.reasons.items()
            if message_index not in uncertain_reasons
        }
        batch = DecodedBatch(
            changes=concat_changes(schema, self.change_batches),
            bad_records=bad_records_with_reasons(self.messages, reasons),
            skipped_count=self.skipped_count,
            tables=self.tables,
            drift=self.drift,
            schemas=self.schemas,
            last_truncate=self.last_truncate,
        )
        return (
            batch.with_bad_records(self.messages, uncertain_reasons) if uncertain_reasons else batch
        )

    def _note_drift(
        self,
        columns: Mapping[DriftedColumn, Sighting],
        message_indices: npt.NDArray[np.integer[Any]],
    ) -> None:
        for column, sighting in columns.items():
            first_index = int(message_indices[sighting.first_index])
            earlier_sighting = self.drift.get(column, Sighting(0, first_index))
            self.drift[column] = earlier_sighting.plus(Sighting(sighting.record_count, first_index))

    def _note_questions(self, message_indices: Int32s, questions: KeyQuestions) -> None:
        if questions.any():
            has_question = questions != 0
            self.question_parts.append((message_indices[has_question], questions[has_question]))

    def _note_tables(self, tables: Mapping[str, int], message_indices: Int32s) -> None:
        for name, record_index in tables.items():
            message_index = int(message_indices[record_index])
            self.tables[name] = min(message_index, self.tables.get(name, message_index))

    def _stop_error(self, message_index: int, reason: str) -> WrongSourceError:
        return WrongSourceError(
            f"the record's columns are not the table's: {reason}",
            where=message_place(self.messages, message_index),
            fix="give the table the columns of the source, and start the job again; or choose "
            f"warn, ignore or quarantine for source.{self.section}.unknown-columns and "
            "missing-columns",
        )

    def _take_truncates(self, message_indices: Sequence[int]) -> None:
        if self.on_truncate is OnTruncate.ERROR:
            option = f"source.{self.section}.truncate"
            raise WrongSourceError(
                "the source table was truncated",
                where=message_place(self.messages, min(message_indices)),
                fix=f"to delete all rows of the table, set {option} = 'apply'; to keep them and "
                f"continue, set {option} = 'ignore'",
            )
        if self.on_truncate is OnTruncate.APPLY:
            self.last_truncate = max(
                *message_indices, -1 if self.last_truncate is None else self.last_truncate
            )
