"""Carries the counts of decoding tasks to the driver.

Counts are sent as blocks beside the changes. So a repeated task counts once, which Spark's
accumulators do not guarantee.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import ROW_KIND, DecodedBatch, Violation
from stream_app.cdc.column_drift import DriftedColumn, Sighting
from stream_app.epochs.stages.epoch_seconds import TaskSeconds
from stream_app.errors import WrongSourceError
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.source.source_table import SourceTable, merged_source_table

COLUMN_NAMES_MAX = 64
"""Maximum number of unknown, and of missing columns: messages may contain any number of names."""
OTHER_COLUMNS = "(others)"
_NAME_MAX = 100
_SUMMED_FIELDS = (
    *("message_count", "change_count", "skipped_count", "bad_record_count"),
    *("decoder_error_count", "other_record_count", "late_change_count"),
    *("read_s", "decode_s"),
)
TablesSeen = Mapping[tuple[str, str], tuple[int, int]]
"""Topic and name of a source table → partition and offset of its first record."""


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The newest record of a Kafka partition in an epoch; its time is Kafka's, in ms UTC."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class RecordSighting:
    """The number of records with a drift or a violation, and the place of the first record."""

    record_count: int
    topic: str
    partition_number: int
    offset: int

    def plus(self, other: RecordSighting) -> RecordSighting:
        """Add another sighting."""
        first_place = min(self.place, other.place)
        return RecordSighting(self.record_count + other.record_count, *first_place)

    @property
    def place(self) -> tuple[str, int, int]:
        """The topic, partition and offset of the first record."""
        return self.topic, self.partition_number, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCounts:
    """Counts of the messages read, of which skipped ones change no row.

    Attributes:
        bad_record_count: records that are not decoded.
        kind_counts: changes of each `RowKind`, in its order.
        read_s, decode_s: seconds that all tasks together waited for messages, and decoded them.
        slowest_task: the longest task before the shuffle, over all of its tables.
        request_counts: requests of the writing tasks to the store; see `fileio.counted_file_io`.
        decoder_error_count: number of bad messages at which the decoder itself failed.
        drift: unknown and missing columns; see `cdc.column_drift`.
        violations: broken expectations; see `cdc.pipeline_steps.expectations`.
        description: facts in the messages about the source's table that the job's table lacks.
        tables: source tables by name; records without a name count under the empty name.
        record_counts: topic and name of a source table → its records; for a job of one table.
        other_record_count: records of source tables that such a job rejects as bad.
        refusal: why no batch is decoded, if the job must first learn its source table.
        has_restored_rows: whether rows took values from older rows, which their messages omit.
        late_change_count: changes that came too late for their place in a history; see
            `mergetree.file_access.HiddenChanges`.
        truncation_offsets: Kafka partition → the offset of its last message that empties the table.
    """

    message_count: int = 0
    change_count: int = 0
    skipped_count: int = 0
    bad_record_count: int = 0
    decoder_error_count: int = 0
    kind_counts: tuple[int, ...] = (0,) * len(RowKind)
    read_s: float = field(default=0.0, compare=False)
    decode_s: float = field(default=0.0, compare=False)
    slowest_task: TaskSeconds = field(default_factory=TaskSeconds, compare=False)
    request_counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    ends: Mapping[KafkaPartition, PartitionEnd] = field(default_factory=dict)
    tables: TablesSeen = field(default_factory=dict)
    drift: Mapping[DriftedColumn, RecordSighting] = field(default_factory=dict)
    violations: Mapping[Violation, RecordSighting] = field(default_factory=dict)
    description: SourceTable | None = None
    truncation_offsets: Mapping[KafkaPartition, int] = field(default_factory=dict)
    record_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    other_record_count: int = 0
    refusal: WrongSourceError | None = None
    has_restored_rows: bool = False
    late_change_count: int = 0

    def plus(self, other: DecodeCounts) -> DecodeCounts:
        """Add the counts of another task."""
        ends = dict(self.ends)
        for kafka_partition, end in other.ends.items():
            if kafka_partition not in ends or end.offset > ends[kafka_partition].offset:
                ends[kafka_partition] = end
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED_FIELDS}
        return DecodeCounts(
            **sums,
            kind_counts=tuple(map(sum, zip(self.kind_counts, other.kind_counts, strict=True))),
            slowest_task=max(self.slowest_task, other.slowest_task),
            ends=ends,
            request_counts=Counter(self.request_counts) + Counter(other.request_counts),
            tables={
                **self.tables,
                **{
                    table: min(place, self.tables.get(table, place))
                    for table, place in other.tables.items()
                },
            },
            drift=_merge_drift(self.drift, other.drift),
            violations=_merge_violations(self.violations, other.violations),
            description=merged_source_table(self.description, other.description)
            if self.description and other.description
            else self.description or other.description,
            truncation_offsets={
                kafka_partition: max(
                    counts.truncation_offsets.get(kafka_partition, -1) for counts in (self, other)
                )
                for kafka_partition in (*self.truncation_offsets, *other.truncation_offsets)
            },
            record_counts=Counter(self.record_counts) + Counter(other.record_counts),
            refusal=self.refusal or other.refusal,
            has_restored_rows=self.has_restored_rows or other.has_restored_rows,
        )

    def last_offsets(self) -> dict[str, dict[str, int]]:
        """Return topic → partition → last offset read."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition_number), end in self.ends.items():
            offsets.setdefault(topic, {})[str(partition_number)] = end.offset
        return offsets

    @property
    def newest_time_ms(self) -> int | None:
        """The newest message time in Kafka, or None if no message has a time."""
        times = (end.timestamp_ms for end in self.ends.values())
        return max((time for time in times if time is not None), default=None)

    def to_bytes(self) -> bytes:
        """Encode the counts for `counts_of`."""
        return pickle.dumps(self)


def _merge_violations(
    sightings: Mapping[Violation, RecordSighting],
    other_sightings: Mapping[Violation, RecordSighting],
) -> Mapping[Violation, RecordSighting]:
    shared_sightings = {
        violation: sightings[violation].plus(other_sightings[violation])
        for violation in sightings.keys() & other_sightings.keys()
    }
    return {**sightings, **other_sightings, **shared_sightings}


def _merge_drift(
    sightings: Mapping[DriftedColumn, RecordSighting],
    other_sightings: Mapping[DriftedColumn, RecordSighting],
) -> Mapping[DriftedColumn, RecordSighting]:
    """Merge mappings, up to `COLUMN_NAMES_MAX` names of a kind; `OTHER_COLUMNS` has the rest."""
    if not other_sightings:
        return sightings
    columns = dict(sightings)
    names = Counter(kind for kind, _ in columns)
    for (kind, name), sighting in other_sightings.items():
        column = (kind, name[:_NAME_MAX])
        if column not in columns and names[kind] >= COLUMN_NAMES_MAX:
            column = (kind, OTHER_COLUMNS)
        earlier_sighting = columns.get(column)
        names[kind] += earlier_sighting is None
        columns[column] = sighting if earlier_sighting is None else sighting.plus(earlier_sighting)
    return columns


def counts_of_batch(
    kafka_partition: KafkaPartition,
    messages: pa.RecordBatch,
    decoded_batch: DecodedBatch,
    sources: Sequence[str] = (),
) -> DecodeCounts:
    """Count messages of one Kafka partition, and the results of their decoding.

    Args:
        sources: source tables of the messages, for formats that do not name them.
    """
    offsets = messages.column("offset")
    topic, partition_number = kafka_partition
    tables = {**dict.fromkeys(sources, 0), **decoded_batch.tables}
    end = PartitionEnd(offsets[-1].as_py(), _newest_time_ms(messages.column("timestamp")))

    def record_sighting(sighting: Sighting) -> RecordSighting:
        return RecordSighting(
            sighting.record_count, *kafka_partition, offsets[sighting.first_index].as_py()
        )

    return DecodeCounts(
        message_count=messages.num_rows,
        change_count=decoded_batch.changes.rows.num_rows,
        skipped_count=decoded_batch.skipped_count,
        bad_record_count=decoded_batch.bad_records.num_rows,
        decoder_error_count=decoded_batch.decoder_error_count,
        kind_counts=tuple(_count_kinds(decoded_batch.changes.rows.column(ROW_KIND)).tolist()),
        ends={kafka_partition: end},
        tables={
            (topic, name): (partition_number, offsets[row].as_py()) for name, row in tables.items()
        },
        drift={
            column: record_sighting(sighting) for column, sighting in decoded_batch.drift.items()
        },
        violations={
            violation: record_sighting(sighting)
            for violation, sighting in decoded_batch.violations.items()
        },
        description=decoded_batch.description,
        truncation_offsets={}
        if decoded_batch.last_truncate is None
        else {kafka_partition: offsets[decoded_batch.last_truncate].as_py()},
        record_counts={(topic, name): count for name, count in decoded_batch.record_counts.items()},
        other_record_count=decoded_batch.other_record_count,
        refusal=decoded_batch.refusal,
    )


def counts_of_refused(refused_batches: Iterable[pa.RecordBatch]) -> DecodeCounts:
    """Return counts to subtract from those of decoding tasks: rows that the writer refused.

    Args:
        refused_batches: batches as `mergetree.write.fill_unchanged.RestoredRows` has them.
    """
    kind_counts = sum(
        (_count_kinds(rows.column(VALUE_KIND)) for rows in refused_batches),
        np.zeros(len(RowKind), int),
    )
    row_count = int(kind_counts.sum())
    return DecodeCounts(
        change_count=-row_count,
        bad_record_count=row_count,
        kind_counts=tuple((-kind_counts).tolist()),
    )


def _count_kinds(kinds: pa.Array) -> npt.NDArray[np.int64]:
    """Return rows of each kind: int64 [len(RowKind)]."""
    return np.bincount(kinds.to_numpy(), minlength=len(RowKind))


def _newest_time_ms(timestamps: pa.Array) -> int | None:
    newest_time = pc.max(timestamps)
    return newest_time.value // 1000 if newest_time.is_valid else None


def counts_of(payload: bytes) -> DecodeCounts:
    """Return the counts in a block of kind ``COUNTS``, which this job's own tasks make."""
    counts = pickle.loads(payload)
    assert isinstance(counts, DecodeCounts)
    return counts
