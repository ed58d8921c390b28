"""Examines the keys and tables of a topic in a few messages, before the job reads it.

A job calls it at its start, with messages from both ends of a topic. It only reports;
`debezium_json` decides how each record is treated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import message_place
from stream_app.cdc.columns.column_reading import JsonKind
from stream_app.cdc.debezium.debezium_options import key_rules, parse_options
from stream_app.cdc.debezium.decoding.one_record import EnvelopedRecord, RowRecord, read_record
from stream_app.cdc.debezium.decoding.single_decoding import question_of
from stream_app.cdc.debezium.key_proof import (
    POSTGRESQL_CONNECTOR,
    KeyRules,
    ReplicaIdentity,
    answers,
    proof_remedies,
    uncertain_row_reason,
)
from stream_app.cdc.debezium.message_keys import NO_KEY, KeyFields, MessageKeys
from stream_app.cdc.message_format import FormatSetup, Notice

ROUTER_FIELD = "__dbz__physicalTableIdentifier"
"""The field that Debezium's ByLogicalTableRouter, which joins topics, adds to keys."""


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record with a row, the names of its key's columns, and the place of its message."""

    record: RowRecord
    fields: KeyFields
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumSurvey:
    """Observations by topic; implements `message_format.SourceSurvey`.

    Attributes:
        quarantines_uncertain: whether a record whose row is not certain becomes a bad record;
            otherwise it stops the job.
        writes_changelog: whether old rows of updates go to a changelog.
        records_of: the observed records with rows, by topic.
    """

    rules: KeyRules
    quarantines_uncertain: bool = False
    writes_changelog: bool = False
    records_of: Mapping[str, Sequence[SeenRecord]] = field(default_factory=dict)

    def tables(self) -> Counter[tuple[str, str]]:
        """Return topic and name of a source table → its messages with rows."""
        return Counter(
            (topic, sample.record.table)
            for topic, records in self.records_of.items()
            for sample in records
        )

    def notices(self) -> Iterator[Notice]:
        """Yield at most one notice for each topic and kind of problem, the most severe first."""
        if not self.rules.primary_key:
            return
        for records in self.records_of.values():
            checks = (
                self._uncertain_row_notice,
                self._uncertain_delete_notice,
                self._empty_key_notice,
                self._wider_key_notice,
            )
            for group in (checks, (self._unseen_deletes_notice, self._invented_rows_notice)):
                notices = (check(sample) for check in group for sample in records)
                if (notice := next(filter(None, notices), None)) is not None:
                    yield notice

    def _uncertain_row_notice(self, sample: SeenRecord) -> Notice | None:
        question = question_of(self.rules, sample.record)
        if answers(self.rules, question, sample.fields):
            return None
        return Notice(
            stops_job=not self.quarantines_uncertain,
            problem=f"a record {uncertain_row_reason(self.rules, question, sample.fields)}",
            where=sample.place,
            fix=proof_remedies(self.rules, sample.fields),
        )

    def _uncertain_delete_notice(self, sample: SeenRecord) -> Notice | None:
        """Return a notice if a delete's row would be uncertain."""
        delete = replace(sample.record, op="d", before={}, after=None, has_op=True)
        question = question_of(self.rules, delete)
        if answers(self.rules, question, sample.fields):
            return None
        reason = uncertain_row_reason(self.rules, question, sample.fields)
        return Notice(
            problem="the row of a delete or an update will not be certain: a record like this "
            + reason,
            where=sample.place,
            fix=proof_remedies(self.rules, sample.fields),
        )

    def _empty_key_notice(self, sample: SeenRecord) -> Notice | None:
        """Return a notice if PostgreSQL did not send a part of a delete's key."""
        if self.rules.identity is ReplicaIdentity.FULL or self.rules.source_key is not None:
            return None
        record = sample.record
        if record.op != "d" or record.connector != POSTGRESQL_CONNECTOR or not record.before:
            return None
        if sample.fields in (None, NO_KEY):
            return None
        for name in sorted(self.rules.primary_key):
            if record.before.get(name) == (JsonKind.STRING, ""):
                return Notice(
                    problem=f"{name!r} is empty in the key of a delete: with "
                    f"message.key.columns and REPLICA IDENTITY DEFAULT Debezium builds such "
                    f"keys of invented values, so deleted and moved rows stay",
                    where=sample.place,
                    fix=proof_remedies(self.rules, frozenset()),
                )
        return None

    def _wider_key_notice(self, sample: SeenRecord) -> Notice | None:
        fields = sample.fields or frozenset()
        extra_columns = fields - self.rules.primary_key - {ROUTER_FIELD}
        if not extra_columns or not fields > self.rules.primary_key:
            return None
        columns_text = ", ".join(sorted(extra_columns))
        return Notice(
            problem=f"the message's key has {columns_text} beside the table's primary key: rows of "
            f"the source that differ in {columns_text} alone are one row of the table",
            where=sample.place,
            fix="make all columns of the source's key the table's primary key, unless "
            "the other columns are unique",
        )

    def _unseen_deletes_notice(self, sample: SeenRecord) -> Notice | None:
        if sample.record.has_op:
            return None
        return Notice(
            problem="the messages are flattened and have no __op: each counts as a create, "
            "and a delete is only a tombstone, which is skipped",
            where=sample.place,
            fix="in the transform ExtractNewRecordState set add.fields=op and "
            "delete.tombstone.handling.mode=rewrite, unless nothing is ever deleted",
        )

    def _invented_rows_notice(self, sample: SeenRecord) -> Notice | None:
        """Return a notice if the input's changelog lacks old rows, or invents values in them."""
        if not self.writes_changelog:
            return None
        record = sample.record
        if (
            record.connector != POSTGRESQL_CONNECTOR
            or record.op != "u"
            or record.before is not None
        ):
            return None
        is_dropped = self.rules.identity is ReplicaIdentity.DEFAULT
        invented_text = "" if is_dropped else ", and those of deletes hold invented values"
        return Notice(
            problem="updates of the source table come without old rows (REPLICA IDENTITY DEFAULT), "
            f"so the changelog of changelog-producer = input lacks them{invented_text}",
            where=sample.place,
            fix="set changelog-producer = lookup, which takes old rows from the table; or set "
            "REPLICA IDENTITY FULL on the source table, and source.debezium.replica-identity = "
            "'full'",
        )


def survey(setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> DebeziumSurvey:
    """Look at a few messages of each topic."""
    options = parse_options(setup.options, setup.columns)
    columns, primary_key = frozenset(setup.columns.names), frozenset(setup.primary_keys)
    return DebeziumSurvey(
        rules=key_rules(options, setup.primary_keys, setup.traits),
        quarantines_uncertain=options.quarantines_uncertain,
        writes_changelog=setup.keeps_update_before,
        records_of={
            topic: records
            for topic, batch in messages.items()
            if (records := seen_records(batch, columns, primary_key))
        },
    )


def seen_records(
    messages: pa.RecordBatch, columns: frozenset[str], primary_key: frozenset[str]
) -> list[SeenRecord]:
    """Return the records with a row among these messages.

    Args:
        messages: a few messages with the columns of `MESSAGE_SCHEMA`; they are read one by one.
    """
    codes, all_fields = MessageKeys().fields_of(messages.column("key"))
    records = (
        _read_row_record(value, columns, primary_key)
        for value in messages.column("value").to_pylist()
    )
    return [
        SeenRecord(record, all_fields[codes[position]], message_place(messages, position))
        for position, record in enumerate(records)
        if record is not None
    ]


def _read_row_record(
    value: bytes | None, columns: frozenset[str], primary_key: frozenset[str]
) -> RowRecord | None:
    """Read one record; None if it has no row or cannot be read."""
    try:
        record = None if value is None else read_record(value, columns, primary_key)
        if isinstance(record, EnvelopedRecord):
            record = read_record(record.payload, columns, primary_key)
    except (UnreadableRecordError, ValueError, RecursionError):
        return None
    return record if isinstance(record, RowRecord) else None
