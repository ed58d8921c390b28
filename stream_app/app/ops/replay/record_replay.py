"""Writes quarantined records into their table, once and never over a newer change.

1. Read the table's latest snapshot, and the offsets up to which its jobs have read.
2. Choose unresolved records. Leave records whose epoch the table lacks to the job.
3. Decode the others with the table's current schema and the job's current configuration, in the
   order of the source. Records that are still bad stay unresolved.
4. Leave out rows of which the table has newer changes (`later_change_check`).
5. Write a mark, the files, and one snapshot, on top of step 1's snapshot or of later compactions.
   After other commits, begin again.

The mark is written before the commit and counts only with it. So a crash leaves either an
unresolved record without a commit, or a commit with its mark.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stream_app.app.ops.replay.later_change_check import LaterChangeCheck, ReadRange
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import CommitConflictError, UnsupportedTableError, UsageError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_end
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.job_epoch import JobEpoch
from stream_app.model.options.bucket_options import PARTITION_LOOKUP
from stream_app.model.options.merge_options import HISTORY, MERGE_ENGINE
from stream_app.model.snapshot import REPLAY_PROPERTY, Snapshot
from stream_app.model.source.source_table import SourceTable
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.schema.evolution import evolution
from stream_app.planning.schema.schema_changes import AddColumn, ChangeType
from stream_app.quarantine.quarantine_folder import (
    Quarantine,
    QuarantinedRecord,
    RecordFilter,
    RecordMark,
    RecordOutcome,
    reused_offsets,
)
from stream_app.table.commit.recorded_epochs import epochs_as_of
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.schema.alter import EvolutionRules
from stream_app.table.versions.waiting_row_count import waiting_line

_USER = "replay-"
_ATTEMPTS_MAX = 5
_RecordAndOutcome = tuple[QuarantinedRecord, RecordOutcome]
_BadRecord = tuple[QuarantinedRecord, str]
"""A record that is still bad, and the current reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The outcome of a replay.

    Attributes:
        replayed_records: records whose rows were written.
        overtaken_records: records whose rows the table has in a newer state.
        bad_records: records that are still bad, with the current reason.
        early_records: records whose epoch is not in the table yet.
        old_records: records in files that a repeated epoch has replaced.
        change_count: the number of written changes.
        snapshot: the new snapshot, or None for a dry run or if there was nothing to write.
        waiting_note: a note that readers get rows only after a compaction; empty otherwise.
    """

    replayed_records: Sequence[QuarantinedRecord]
    overtaken_records: Sequence[QuarantinedRecord]
    bad_records: Sequence[_BadRecord]
    early_records: Sequence[QuarantinedRecord]
    old_records: Sequence[QuarantinedRecord]
    change_count: int
    snapshot: Snapshot | None
    waiting_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReplay:
    """A replay of the records in one table's quarantine.

    Attributes:
        job_commit_user: the commit user of the table's job.
        message_format: decodes messages into the table's rows.
        unfiltered_format: decodes messages into the table's rows without its filter.
        source_tables: the names of the source tables whose rows the table has; empty if unknown.
        finished_offsets: the offsets up to which the job has finished each partition for this
            table, where the table does not record them.
        evolution_rules: the rules by which the table follows its source, or None if it does not.
        selects: returns which records belong to the table; None means all.
        other_quarantine: another folder that may contain unresolved records of the table.
        empties_on_truncate: whether a TRUNCATE empties the table; if so, earlier records are not
            replayed.
    """

    quarantine: Quarantine
    table: FileStoreTable
    job_commit_user: str
    message_format: MessageFormat
    unfiltered_format: MessageFormat
    read_range: ReadRange
    source_tables: frozenset[str] = frozenset()
    finished_offsets: Mapping[KafkaPartition, int] = field(default_factory=dict)
    evolution_rules: EvolutionRules | None = None
    selects: Callable[[Sequence[QuarantinedRecord]], Sequence[bool]] | None = None
    other_quarantine: Quarantine | None = None
    empties_on_truncate: bool = False

    def run(self, record_filter: RecordFilter, *, dry_run: bool) -> ReplayOutcome:
        """Replay the chosen records.

        Raises:
            UnsupportedTableError: the source's order alone does not determine the table's rows.
            UsageError, SourceError: it is not certain which rows have newer changes.
            CommitConflictError: other commits interrupted every attempt.
        """
        check_replayable(self.table)
        for attempt in range(_ATTEMPTS_MAX):
            try:
                return self._attempt(record_filter, dry_run=dry_run)
            except CommitConflictError:
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _attempt(self, record_filter: RecordFilter, *, dry_run: bool) -> ReplayOutcome:
        """Carry out steps 1 to 5 once."""
        name = uuid.uuid4().hex
        append = SingleAppend.begin(self.table, _USER + name)  # step 1
        known_snapshot = append.known_snapshot
        epochs = epochs_as_of(self.table.snapshots, known_snapshot)
        if known_snapshot is not None and not dry_run:
            self.quarantine.write_snapshots(dict.fromkeys(epochs, known_snapshot.snapshot_id))
        self._check_one_job(epochs)
        job_epochs = [epoch for user, epoch in epochs.items() if user == self.job_commit_user]
        job_ends = _largest_ends(_ends(job_epochs), self.finished_offsets)
        ends = _largest_ends(_ends(epochs.values()), job_ends)
        unresolved_records = self.quarantine.unresolved_records(epochs.keys())  # step 2
        chosen_records = self._select(record_filter.select(unresolved_records))
        if self.other_quarantine is not None:
            unresolved_records += self.other_quarantine.unresolved_records(epochs.keys())
        present_records = [record for record in chosen_records if not record.is_replaced]
        ready_records, early_records = _split_at_ends(present_records, job_ends)
        self._check_places(ready_records)
        # Steps 3 and 4.
        rows, outcomes, bad_records = self._decide(ready_records, unresolved_records, ends)
        records_by_outcome = defaultdict[RecordOutcome, list[QuarantinedRecord]](list)
        for record, outcome in outcomes:
            records_by_outcome[outcome].append(record)
        replay_outcome = ReplayOutcome(
            replayed_records=records_by_outcome[RecordOutcome.REPLAYED],
            overtaken_records=records_by_outcome[RecordOutcome.OVERTAKEN],
            bad_records=bad_records,
            early_records=early_records,
            old_records=[record for record in chosen_records if record.is_replaced],
            change_count=sum(batch.num_rows for batch in rows),
            snapshot=None,
        )
        if dry_run or not outcomes:
            return replay_outcome
        snapshot = self._write(name, append, rows, outcomes)  # step 5
        waiting_note = waiting_line(self.table, snapshot)
        return replace(replay_outcome, snapshot=snapshot, waiting_note=waiting_note)

    def _write(
        self,
        name: str,
        append: SingleAppend,
        rows: Sequence[pa.RecordBatch],
        outcomes: Sequence[_RecordAndOutcome],
    ) -> Snapshot | None:
        """Write the mark and the rows, and return the snapshot, or None without rows."""
        mark = RecordMark(
            name=name,
            user=append.commit_user if rows else "",
            records=tuple(record.identity for record, _ in outcomes),
            outcomes=tuple(outcome for _, outcome in outcomes),
        )
        if not rows:
            self.quarantine.write_mark(mark)
            return None
        files = append.write(pa.concat_batches(rows))
        self.quarantine.write_mark(mark)
        snapshot = append.commit(files, {REPLAY_PROPERTY: name})
        self.quarantine.write_mark(replace(mark, snapshot=snapshot.snapshot_id))
        return snapshot

    def _select(self, records: list[QuarantinedRecord]) -> list[QuarantinedRecord]:
        """Return the records that belong to the table."""
        if self.selects is None or not records:
            return records
        return [
            record
            for record, is_selected in zip(records, self.selects(records), strict=True)
            if is_selected
        ]

    def _decide(
        self,
        ready_records: Sequence[QuarantinedRecord],
        unresolved_records: Sequence[QuarantinedRecord],
        ends: Mapping[KafkaPartition, int],
    ) -> tuple[list[pa.RecordBatch], list[_RecordAndOutcome], list[_BadRecord]]:
        """Steps 3 and 4: return the rows to write, and the outcomes of good and of bad records."""
        unresolved_offsets = {
            kafka_partition: [record.offset for record in records]
            for kafka_partition, records in _by_partition(unresolved_records).items()
        }
        schema = self.table.schema
        merges_by_key = schema.kind_traits.merges_by_key
        later_change_check = LaterChangeCheck(
            self.read_range,
            self.unfiltered_format,
            schema.primary_keys,
            ends,
            unresolved_offsets,
            merges_by_key,
        )
        fresh_rows: list[pa.RecordBatch] = []
        outcomes: list[_RecordAndOutcome] = []
        bad_records: list[_BadRecord] = []
        for kafka_partition, records in _by_partition(ready_records).items():
            decoded_batch = self.message_format.decode(as_messages(records))
            self._check_tables(decoded_batch.tables)
            self._check_columns(decoded_batch.description, kafka_partition)
            bad_columns = (
                decoded_batch.bad_records.column(name).to_pylist() for name in ("offset", "reason")
            )
            reasons = dict(zip(*bad_columns, strict=True))
            message_indices = decoded_batch.changes.message_indices
            rows = decoded_batch.changes.rows
            is_fresh = np.ones(len(message_indices), np.bool_)
            if self.empties_on_truncate or merges_by_key:
                offsets = np.array([record.offset for record in records], np.int64)[message_indices]
                is_fresh = ~later_change_check.is_overtaken(
                    kafka_partition, rows, pa.array(offsets)
                )
            fresh_rows.append(rows.filter(pa.array(is_fresh)))
            overtaken_indices = set(message_indices.tolist()) - set(
                message_indices[is_fresh].tolist()
            )
            for index, record in enumerate(records):
                if record.offset in reasons:
                    bad_records.append((record, reasons[record.offset]))
                elif index in overtaken_indices:
                    outcomes.append((record, RecordOutcome.OVERTAKEN))
                else:
                    outcomes.append((record, RecordOutcome.REPLAYED))
        return [batch for batch in fresh_rows if batch.num_rows], outcomes, bad_records

    def _check_places(self, records: Sequence[QuarantinedRecord]) -> None:
        """Refuse records of a recreated topic, which has used their offsets twice."""
        if places := reused_offsets(records):
            raise UsageError(
                f"two different records have the same offset: {places[0]}; the topic was recreated",
                where=self.quarantine.location,
                fix="drop the records of the earlier topic (stream-app quarantine drop --until), "
                "or replay only those of the later one (--since)",
            )

    def _check_one_job(self, epochs: Mapping[str, JobEpoch]) -> None:
        """Refuse a table without a key that several jobs have written.

        Nothing shows whether another job has stored the records.
        """
        jobs = [user for user, epoch in epochs.items() if epoch.source_end is not None]
        if len(jobs) > 1 and not self.table.schema.kind_traits.merges_by_key:
            raise UnsupportedTableError(
                f"{len(jobs)} jobs have written the table, which has no primary key: it is not "
                "certain that none of them has appended the records of this quarantine",
                where=self.table.location,
                fix="look for the rows in the table, and drop the records; or append them by a job "
                "of their own that reads the files (source.kind = 'files')",
            )

    def _check_columns(
        self, description: SourceTable | None, kafka_partition: KafkaPartition
    ) -> None:
        """Refuse records with columns, or column types, that the table lacks."""
        if description is None:
            return
        evolution_rules = EvolutionRules() if self.evolution_rules is None else self.evolution_rules
        new_columns = evolution(
            self.table.schema, description, evolution_rules.options, evolution_rules.made_columns
        )
        if any(isinstance(change, (AddColumn, ChangeType)) for change in new_columns.changes):
            raise UsageError(
                "records have columns that the table lacks, or has with another type",
                where="topic {}, partition {}".format(*kafka_partition),
                fix="give the table these columns first (stream-app alter), or choose other "
                "records",
            )

    def _check_tables(self, tables: Mapping[str, int]) -> None:
        """Refuse records of source tables whose rows the table does not have."""
        if self.source_tables and (foreign_tables := set(tables) - self.source_tables):
            raise UsageError(
                f"a record is of the source's table {min(foreign_tables)}, and the job reads "
                f"{', '.join(sorted(self.source_tables))}",
                where=self.quarantine.location,
                fix="leave such records out (--topic, --offset), or drop them",
            )


def check_replayable(table: FileStoreTable) -> None:
    """Refuse a table in which the source's latest change does not always win.

    Raises:
        UnsupportedTableError: an option has this effect; the error names it.
    """
    schema = table.schema
    if not schema.kind_traits.merges_by_key:
        return
    problem = ""
    if not traits_of(schema.core_options.merge_engine).keeps_newest:
        problem = f"merge-engine = {schema.core_options[MERGE_ENGINE]}"
    elif schema.sequence_fields:
        problem = f"sequence.field = {','.join(schema.sequence_fields)}"
    elif schema.core_options[PARTITION_LOOKUP]:
        problem = f"{PARTITION_LOOKUP.key} = true"
    elif schema.history is not None:
        problem = f"{HISTORY.key} = true"
    if problem:
        raise UnsupportedTableError(
            f"records cannot be replayed into a table with {problem}: where a row was deleted "
            "meanwhile, it is unknown whether an older change precedes that",
            where=table.location,
            fix="correct the rows at their source, whose next change brings them",
        )


def as_messages(records: Sequence[QuarantinedRecord]) -> pa.RecordBatch:
    """Return the records as messages of `MESSAGE_SCHEMA`."""
    times_us = [None if record.timestamp is None else record.timestamp * 1000 for record in records]
    columns = {
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "offset": [record.offset for record in records],
        "timestamp": times_us,
        "key": [record.key for record in records],
        "value": [record.value for record in records],
    }
    return pa.RecordBatch.from_pydict(columns, schema=MESSAGE_SCHEMA)


def _by_partition(
    records: Iterable[QuarantinedRecord],
) -> dict[KafkaPartition, list[QuarantinedRecord]]:
    records_of: dict[KafkaPartition, list[QuarantinedRecord]] = defaultdict(list)
    for record in records:
        records_of[record.topic, record.partition].append(record)
    return records_of


def _split_at_ends(
    records: Iterable[QuarantinedRecord], ends: Mapping[KafkaPartition, int]
) -> tuple[list[QuarantinedRecord], list[QuarantinedRecord]]:
    """Return the records before these ends, in the order of the source, and those after them."""
    earlier_records: list[QuarantinedRecord] = []
    later_records: list[QuarantinedRecord] = []
    for record in records:
        end = ends.get((record.topic, record.partition), 0)
        (earlier_records if record.offset < end else later_records).append(record)
    earlier_records.sort(key=lambda record: (record.topic, record.partition, record.offset))
    return earlier_records, later_records


def _ends(epochs: Iterable[JobEpoch]) -> dict[KafkaPartition, int]:
    """Return the largest offset of each partition up to which these epochs have read."""
    ends: dict[KafkaPartition, int] = {}
    for epoch in epochs:
        for topic, topic_offsets in offsets_of_end(epoch.source_end).items():
            for partition_number, end in topic_offsets.items():
                kafka_partition = topic, int(partition_number)
                ends[kafka_partition] = max(ends.get(kafka_partition, 0), int(end))
    return ends


def _largest_ends(
    ends: Mapping[KafkaPartition, int], other_ends: Mapping[KafkaPartition, int]
) -> dict[KafkaPartition, int]:
    return {
        kafka_partition: max(ends.get(kafka_partition, 0), other_ends.get(kafka_partition, 0))
        for kafka_partition in {*ends, *other_ends}
    }
