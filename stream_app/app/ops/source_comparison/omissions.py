"""Collects findings about the parts of a table that were not compared with its source.

`source_replay` and `topic_messages` add to them while they read the topics. Rows that were not
compared may be wrong, so a check with omissions does not report a clean table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.cdc.bad_reasons import reason_counts
from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.column_drift import DriftedColumn, DriftKind
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.epochs.stages.decode_counts import RecordSighting
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.finding import Finding, FindingKind

_COLUMN_FIXES = {
    DriftKind.UNKNOWN: "add the column to the table and let a job with a new checkpoint read the "
    "topic again",
    DriftKind.MISSING: "give the table's column the name that the source has",
    DriftKind.CUT: "give the column a finer type, or create the table again with STRING or BIGINT",
}


@dataclass(slots=True)
class Omissions:
    """The omissions of one table's comparison, in the order of their discovery.

    Attributes:
        where: the location of the table.
        message_format: the message format of the source.
        key_names: topic → the field names of its first message's key.
        has_gaps: whether the topics have deleted their oldest messages.
        is_recreated: whether a topic was recreated after the table's job had read it.
    """

    where: str
    message_format: FormatDeclaration
    key_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    has_gaps: bool = False
    is_recreated: bool = False
    _findings: list[Finding] = field(init=False, default_factory=list)
    _reasons: Counter[str] = field(init=False, default_factory=Counter)
    _first_bad: str = field(init=False, default="")
    _columns: dict[DriftedColumn, RecordSighting] = field(init=False, default_factory=dict)

    def add(self, problem: str, fix: str, where: str = "") -> None:
        """Add a finding with this text."""
        self._findings.append(_finding(problem, where or self.where, fix))

    def add_gap(self, kafka_partition: KafkaPartition, start: int) -> None:
        """See `LostOffsets.add_gap`."""
        self.has_gaps = True
        self.add(
            f"the first {start} offsets of {_partition(kafka_partition)} are gone and were not "
            "compared; rows that differ may be older ones",
            "compare while the topic still has all records (its retention.ms)",
        )

    def add_early_end(self, kafka_partition: KafkaPartition, newest_offset: int, end: int) -> None:
        """See `LostOffsets.add_early_end`."""
        self.is_recreated = True
        self.add(
            f"{_partition(kafka_partition)} ends at {newest_offset}, and the table has read up to "
            f"{end}: the topic was recreated, and its older records were not compared",
            "give the table's job a new checkpoint",
        )

    def add_batch(self, messages: pa.RecordBatch, decoded_batch: DecodedBatch) -> None:
        """Record the bad records and the column drift in a decoded batch of messages."""
        self._note_key_names(messages)
        if decoded_batch.bad_records.num_rows:
            self.add_bad(decoded_batch.bad_records)
        for column, sighting in decoded_batch.drift.items():
            place = _place(messages, sighting.first_index)
            located_sighting = RecordSighting(sighting.record_count, *place)
            earlier_sighting = self._columns.get(column)
            self._columns[column] = (
                located_sighting
                if earlier_sighting is None
                else earlier_sighting.plus(located_sighting)
            )

    def add_bad(self, bad_records: pa.RecordBatch) -> None:
        """Count bad records, at least one, in columns of `BAD_RECORD_SCHEMA`."""
        self._reasons.update(reason_counts(bad_records.column("reason").to_pylist()))
        reason = bad_records.column("reason")[0].as_py()
        self._first_bad = self._first_bad or f"{_place_text(*_place(bad_records, 0))}: {reason}"

    @property
    def bad_record_summary(self) -> tuple[int, str]:
        """The number of bad records, and the place and reason of the first one."""
        return self._reasons.total(), self._first_bad

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about all omissions."""
        yield from self._findings
        if self._reasons:
            kinds_text = ", ".join(
                f"{count} {kind}" for kind, count in sorted(self._reasons.items())
            )
            yield _finding(
                f"bad records of the source, which were not compared: {self._reasons.total()} "
                f"({kinds_text}); the first is {self._first_bad}",
                self.where,
                "correct the source or the configuration; the job has these records in its "
                "quarantine",
            )
        for (kind, name), sighting in sorted(self._columns.items(), key=lambda item: item[1].place):
            problem = {
                DriftKind.UNKNOWN: f"column {name!r} of the source is not in the table, so it was "
                "not compared",
                DriftKind.MISSING: f"column {name!r} of the table is missing in messages, so it "
                "was compared with null",
                DriftKind.CUT: f"column {name!r} cuts off digits of the source's times, so it was "
                "compared with what is left of them",
            }[kind]
            place_text = _place_text(*sighting.place)
            count_text = f"; such records: {sighting.record_count}, the first is {place_text}"
            ignore_fix = f"set {self.message_format.full_key(kind.option)} = 'ignore'"
            yield _finding(
                problem + count_text, self.where, f"{_COLUMN_FIXES[kind]}; or {ignore_fix}"
            )

    def _note_key_names(self, messages: pa.RecordBatch) -> None:
        topic = messages.column("topic")[0].as_py()
        keys = messages.column("key")
        if topic not in self.key_names and keys.null_count < len(keys):
            self.key_names[topic] = _key_names(keys.drop_null()[0].as_py())


def _finding(problem: str, where: str, fix: str) -> Finding:
    return Finding(kind=FindingKind.NOT_COMPARED, problem=problem, where=where, fix=fix)


def _partition(kafka_partition: KafkaPartition) -> str:
    return "{}/{}".format(*kafka_partition)


def _place(messages: pa.RecordBatch, row_index: int) -> tuple[str, int, int]:
    topic, partition_number, offset = (
        messages.column(name)[row_index].as_py() for name in ("topic", "partition", "offset")
    )
    return topic, partition_number, offset


def _place_text(topic: str, partition_number: int, offset: int) -> str:
    return f"topic {topic}, partition {partition_number}, offset {offset}"


def _key_names(key: bytes) -> tuple[str, ...]:
    """Return the field names of a message's key, with or without its schema envelope."""
    try:
        document = json.loads(key)
    except (ValueError, RecursionError):
        return ()
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    return tuple(document) if isinstance(document, dict) else ()
