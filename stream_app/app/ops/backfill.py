"""Reads the topics of a table's job again, and commits the differences from the table.

1. Read the table's newest snapshot, and the offsets up to which its job has read.
2. Read the topics up to there. Decode them as the job does, into separate files.
3. Compare both states, bucket by bucket: the differences are the changes. Where a key may be in any
   partition, the rows of a key that is in several are deleted, and its row is written anew.
4. Write them as one snapshot on that of step 1, or on compactions above it.

A run that is interrupted has changed nothing. A second run finds no difference.

Quarantined records among the messages are done with: the backfill replaces their replay. Messages
are seen only once, while they are read. So a record is covered only if the topic has the same
message. Its mark is written before the commit and counts with it, as a replay's does.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.check.omissions import Omissions
from stream_app.app.ops.check.source_replay import (
    own_messages,
    replay_source,
    table_end,
    why_incomparable,
)
from stream_app.app.ops.quarantine.quarantine_folder import (
    Identity,
    Quarantine,
    QuarantinedRecord,
    RecordMark,
    RecordOutcome,
)
from stream_app.app.source.topic_messages import topic_messages
from stream_app.cdc.change_batch import whole_messages
from stream_app.cdc.steps.own_table import EVERY_SOURCE, SourceChoice
from stream_app.errors import SourceError, UnsupportedTableError, UsageError
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.local_disk import scratch_folder
from stream_app.mergetree.key_differences import Differences, differences
from stream_app.mergetree.key_value_batch import is_retract
from stream_app.message_format_registry import format_named
from stream_app.model.bucket_id import BucketId
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.model.snapshot import Snapshot
from stream_app.spark.epoch.epoch_plan import AllToOneTable, MessageSplitter
from stream_app.table.check.compared_rows import RowsOfTable, deletes_of
from stream_app.table.check.doubled_keys import doubled_keys
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.versions.waiting_row_count import waiting_line
from stream_app.table.write.bucket_assigner import BucketRows

_USER = "backfill-"


@dataclass(slots=True)
class CoveredRecords:
    """The quarantined records that a backfill also reads from the topics.

    Attributes:
        folders: the quarantine folders in which records of the table may wait.
    """

    folders: Sequence[Quarantine]
    _waiting: list[frozenset[Identity]] = field(init=False, default_factory=list)
    _read_again: set[Identity] = field(init=False, default_factory=set)

    def watched(
        self, batches: Iterable[pa.RecordBatch], committed: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages, and note those that wait in a folder.

        Args:
            batches: messages in columns of `MESSAGE_SCHEMA`.
            committed: commit users that have a commit in the table.
        """
        self._waiting = [
            frozenset(record.identity for record in folder.waiting(committed))
            for folder in self.folders
        ]
        wanted = frozenset[Identity]().union(*self._waiting)
        offsets: dict[KafkaPartition, list[int]] = defaultdict(list)
        for topic, partition, offset, _ in wanted:
            offsets[topic, partition].append(offset)
        for batch in batches:
            if offsets:
                self._read_again |= wanted.intersection(_identities(batch, offsets))
            yield batch

    @property
    def count(self) -> int:
        """The number of covered records."""
        return len(self._read_again)

    def mark(self, name: str, user: str, snapshot: int | None = None) -> None:
        """Mark the records as finished.

        Args:
            name, user, snapshot: as in `RecordMark`.
        """
        for folder, waiting in zip(self.folders, self._waiting, strict=True):
            if covered := sorted(waiting & self._read_again):
                outcomes = (RecordOutcome.BACKFILLED,) * len(covered)
                records = tuple(covered)
                folder.write_mark(
                    RecordMark(
                        name=name, records=records, outcomes=outcomes, user=user, snapshot=snapshot
                    )
                )


def _identities(
    batch: pa.RecordBatch, offsets: dict[KafkaPartition, list[int]]
) -> Iterator[Identity]:
    """The identities of the messages at these places; there are few of them."""
    batch = whole_messages(batch)
    is_there = np.isin(
        batch.column("offset").to_numpy(), np.unique(np.concatenate([*offsets.values()]))
    )
    for row in batch.filter(pa.array(is_there)).to_pylist():
        if row["offset"] in offsets.get((row["topic"], row["partition"]), ()):
            of_message = {key: row[key] for key in ("topic", "partition", "offset", "key", "value")}
            yield QuarantinedRecord(file="", timestamp=None, reason="", **of_message).identity


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOutcome:
    """The outcome of a backfill.

    Attributes:
        read: number of changes in the topics.
        added, changed, deleted: rows of the table.
        is_whole: whether the topics have all rows; otherwise keys that they lack were left alone.
        snapshot: None if there was no difference, or for a dry run.
        covered: number of quarantined records whose changes the table has by now.
        waiting: a note that rows wait for a compaction; empty: none does.
    """

    read: int
    added: int
    changed: int
    deleted: int
    is_whole: bool
    snapshot: Snapshot | None
    covered: int = 0
    waiting: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the table agrees with the topics."""
        return not (self.added or self.changed or self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill of one table.

    Attributes:
        source: the topics of the table's job, and the reader of their messages.
        rules: the made columns and the filter of the job.
        since_ms: the time of the first message, since 1970; None: all messages.
        splitter: gives the table its messages, as index 0.
        choice: the records that the table takes.
        quarantines: folders in which records of the table may wait.
    """

    table: FileStoreTable
    source: SourceConfig
    rules: TableConfig
    progress: Progress
    since_ms: int | None = None
    splitter: MessageSplitter = field(default_factory=AllToOneTable)
    choice: SourceChoice = EVERY_SOURCE
    quarantines: Sequence[Quarantine] = ()

    def run(self, *, dry_run: bool) -> BackfillOutcome:
        """Bring the table to the state of its topics.

        Raises:
            UnsupportedTableError: the topics do not determine the table's rows.
            UsageError: no job has read the topics into the table, or a record of them is bad.
            SourceError: a topic was recreated, or the broker does not answer.
            CommitConflictError: rows of others came meanwhile.
        """
        self._check_table()
        name = uuid.uuid4().hex
        append = SingleAppend.begin(self.table, _USER + name)  # step 1
        covered = CoveredRecords(self.quarantines)
        users = newest_epochs(self.table.snapshots).keys()
        _, ends = table_end(self.table, self.source)
        left = Omissions(self.table.location, format_named(self.source.format))
        with scratch_folder("backfill") as folder:
            state = SourceCheck(self.table, folder, append.basis)
            read = topic_messages(self.source, [(ends, left)], self.progress, self.since_ms)
            messages = covered.watched(own_messages(read, self.splitter), users)
            count = replay_source(state, messages, self.source, self.rules, left, self.choice)  # 2
            self._check_messages(left)
            is_whole = self.since_ms is None and not left.has_gaps
            difference = _Changes(self.table, state, append.known, is_whole)  # step 3
            snapshot = None
            if dry_run:
                for _ in itertools.chain(difference.doubled(), difference.parts()):
                    pass
            elif changes := append.write_buckets(
                difference.parts(), difference.doubled()
            ):  # step 4
                covered.mark(name, append.commit_user)
                snapshot = append.commit(changes, {})
                covered.mark(name, append.commit_user, snapshot.snapshot_id)
            else:
                covered.mark(name, "")
        return BackfillOutcome(
            read=count,
            added=difference.counts[RowKind.INSERT],
            changed=difference.counts[RowKind.UPDATE_AFTER],
            deleted=difference.counts[RowKind.DELETE],
            is_whole=is_whole,
            snapshot=snapshot,
            covered=covered.count,
            waiting=waiting_line(self.table, snapshot),
        )

    def _check_table(self) -> None:
        if why := why_incomparable(self.table.schema, self.rules) or _unordered(self.table):
            raise UnsupportedTableError(
                f"the topics do not determine the rows of the table: {why}",
                where=self.table.location,
                fix="let a job with a new checkpoint make the table anew",
            )

    def _check_messages(self, left: Omissions) -> None:
        if left.is_other_topic:
            raise SourceError(
                "a topic ends before the place up to which the table's job has read: it was "
                "recreated, and lacks rows of the table",
                where=", ".join(self.source.topic_names),
                fix="let a job with a new checkpoint read the topic",
            )
        count, first = left.bad
        if count:
            raise UsageError(
                f"{count} records cannot be decoded, so the rows of their keys are not known",
                where=first,
                fix="give the job's configuration (--conf) with which it has read them, correct "
                "the configuration, or begin behind them (--from)",
            )


def _unordered(table: FileStoreTable) -> str:
    """The reason why the last written row of a key need not win; empty if it always wins."""
    fields = table.schema.sequence_fields
    return f"sequence.field = {','.join(fields)} may keep an older row" if fields else ""


@dataclass(slots=True)
class _Changes:
    """The differences between the table and the topics' state."""

    table: FileStoreTable
    state: SourceCheck
    snapshot: Snapshot | None
    is_whole: bool
    counts: Counter[int] = field(default_factory=Counter)
    _doubled: pa.RecordBatch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # Keys without a message must not change.
        if self.is_whole and self.snapshot is not None:
            self._doubled = doubled_keys(self.table, self.snapshot)

    def doubled(self) -> Iterator[BucketRows]:
        """Yield deletes for the extra rows of keys in several partitions, and count them."""
        if self._doubled is not None:
            rows = RowsOfTable.of_snapshot(self.table, self.snapshot)
            for partition, bucket, part in deletes_of(rows, self.state.view, self._doubled):
                yield from self._counted((partition, bucket), part)

    def parts(self) -> Iterator[BucketRows]:
        """Yield the changes bucket by bucket, and count them."""
        present = self.state.stored(self.snapshot, self._doubled)
        buckets = {*self.state.source.buckets, *(present.buckets if self.is_whole else ())}
        for bucket in sorted(buckets):
            expected = self.state.source.rows(bucket, keep_deletes=True)
            for differing in differences(self.state.view.layout(), present.rows(bucket), expected):
                yield from self._counted(bucket, self._as_changes(differing))

    def _as_changes(self, differing: Differences) -> pa.RecordBatch:
        """The differences in key order: +I, -D, and -U before its +U."""
        is_end = is_retract(differing.batch)[differing.order]
        ends = is_end[differing.newer]
        differ = ~differing.same_values() & ~ends
        old, new = differing.older[differ], differing.newer[differ]
        first = np.minimum(old, new)
        added = differing.added[~is_end[differing.added]]
        gone = differing.gone if self.is_whole else differing.gone[:0]
        gone = np.concatenate((gone, differing.older[ends]))
        before_count = len(old) if self.table.options.writes_changelog else 0
        kinds = [
            (old[:before_count], RowKind.UPDATE_BEFORE, first[:before_count]),
            (new, RowKind.UPDATE_AFTER, first),
            (added, RowKind.INSERT, added),
            (gone, RowKind.DELETE, gone),
        ]
        rows, of_key = (np.concatenate([kind[at] for kind in kinds]) for at in (0, 2))
        kind_of = np.concatenate([np.full(len(kind[0]), kind[1], np.int8) for kind in kinds])
        by_key = np.argsort(of_key, kind="stable")  # a -U stands before its +U
        batch = differing.batch.take(pa.array(differing.order[rows[by_key]]))
        return self._of_kind(batch, kind_of[by_key])

    def _of_kind(
        self, batch: pa.RecordBatch, kinds: np.ndarray[tuple[int], np.dtype[np.int8]]
    ) -> pa.RecordBatch:
        names = [VALUE_KIND, *self.table.schema.fields.names]
        assert SEQUENCE_NUMBER not in names, "the writer gives it"
        columns = [pa.array(kinds), *(batch.column(name) for name in names[1:])]
        fields = [self.table.layout().schema.field(name) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _counted(self, bucket: BucketId, batch: pa.RecordBatch) -> Iterator[BucketRows]:
        if batch.num_rows:
            kinds, counts = np.unique(batch.column(VALUE_KIND).to_numpy(), return_counts=True)
            self.counts.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
            yield (*bucket, batch)
