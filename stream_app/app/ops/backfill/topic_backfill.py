"""Reads the topics of a table's job again, and commits what differs from the table.

1. Read the table's latest snapshot, and the offsets up to which its job has read.
2. Read the topics up to these offsets. Decode their messages as the job does, into separate files.
3. Compare these rows with the table's, bucket by bucket, to get the changes. If a key is in several
   partitions, delete all its rows, and write its row again.
4. Write the changes as one snapshot on top of step 1's, or of later compactions.

An interrupted run changes nothing. A second run finds no difference.

Quarantined records that the backfill reads need no replay (`covered_records`). `scope` restricts
step 3 to some keys.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.backfill.covered_records import CoveredRecords
from stream_app.app.ops.backfill.table_changes import (
    Scope,
    TableChanges,
    WrittenRows,
    all_keys,
    check_newest_row_decides,
)
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.ops.source_comparison.source_replay import (
    own_messages,
    replay_source,
    table_end,
)
from stream_app.app.source.topic_messages import topic_messages
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE, SourceFilter
from stream_app.epochs.stages.epoch_plan import MessageSplitter, OneTableSplitter
from stream_app.errors import SourceError, UsageError
from stream_app.message_format_registry import format_named
from stream_app.process.local_disk import scratch_folder
from stream_app.quarantine.quarantine_folder import Quarantine
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.versions.waiting_row_count import waiting_line

_USER = "backfill-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBackfillOutcome:
    """The outcome of a backfill.

    Attributes:
        read_count: the number of changes that were read from the topics.
        is_whole: whether the topics have all rows; if not, rows of keys that they lack stay.
        covered_count: the number of quarantined records whose changes the table has by now.
    """

    read_count: int
    is_whole: bool
    covered_count: int
    written_rows: WrittenRows


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBackfill:
    """A backfill of one table.

    Attributes:
        source_config: the topics of the table's job, and the reader of their messages.
        table_config: the job's configuration with the table's made columns and filter.
        since_ms: the time of the oldest message to read, in ms since 1970, or None to read all.
        splitter: assigns the table's messages to index 0.
        source_filter: the source tables whose records the table accepts.
        quarantines: the folders with unresolved records of the table; empty if `scope` excludes
            keys.
        scope: selects the rows whose keys may be written.
    """

    table: FileStoreTable
    source_config: SourceConfig
    table_config: TableConfig
    progress: Progress
    since_ms: int | None = None
    splitter: MessageSplitter = field(default_factory=OneTableSplitter)
    source_filter: SourceFilter = EVERY_SOURCE
    quarantines: Sequence[Quarantine] = ()
    scope: Scope = all_keys

    def run(self, *, dry_run: bool) -> TopicBackfillOutcome:
        """Write the rows that differ, so that the table equals the state of its topics.

        Raises:
            UnsupportedTableError: the topics do not determine the table's rows.
            UsageError: no job has read the topics into the table, or a record of them is bad.
            SourceError: a topic was recreated, or the broker does not respond.
            CommitConflictError: another writer has added rows meanwhile.
        """
        check_newest_row_decides(self.table, self.table_config)
        name = uuid.uuid4().hex
        append = SingleAppend.begin(self.table, _USER + name)  # step 1
        covered_records = CoveredRecords(self.quarantines)
        committed_users = newest_epochs(self.table.snapshots).keys()
        _, ends = table_end(self.table, self.source_config)
        omissions = Omissions(self.table.location, format_named(self.source_config.format))
        with scratch_folder("backfill") as folder:
            source_check = SourceCheck(self.table, folder, append.basis)
            readers = [(ends, omissions)]
            batches = topic_messages(self.source_config, readers, self.progress, self.since_ms)
            batches = own_messages(batches, self.splitter)
            messages = covered_records.noting_covered(batches, committed_users)
            # step 2
            read_count = replay_source(
                source_check,
                messages,
                self.source_config,
                self.table_config,
                omissions,
                self.source_filter,
            )
            self._check_messages(omissions)
            is_whole = self.since_ms is None and not omissions.has_gaps
            # step 3
            changes = TableChanges(
                table=self.table,
                source_check=source_check,
                snapshot=append.known_snapshot,
                is_whole=is_whole,
                scope=self.scope,
            )
            snapshot = None
            if dry_run:
                for _ in itertools.chain(changes.duplicate_deletes(), changes.bucket_changes()):
                    pass
            # step 4
            elif files := append.write_buckets(
                changes.bucket_changes(), changes.duplicate_deletes()
            ):
                covered_records.mark(name, append.commit_user)
                snapshot = append.commit(files, {})
                covered_records.mark(name, append.commit_user, snapshot.snapshot_id)
            else:
                covered_records.mark(name, "")
        return TopicBackfillOutcome(
            read_count=read_count,
            is_whole=is_whole,
            covered_count=covered_records.count,
            written_rows=changes.written_rows(snapshot, waiting_line(self.table, snapshot)),
        )

    def _check_messages(self, omissions: Omissions) -> None:
        """Refuse a recreated topic, and messages that cannot be decoded."""
        if omissions.is_recreated:
            raise SourceError(
                "a topic ends before the place up to which the table's job has read: it was "
                "recreated, and lacks rows of the table",
                where=", ".join(self.source_config.topic_names),
                fix="let a job with a new checkpoint read the topic",
            )
        count, first_record = omissions.bad_record_summary
        if count:
            raise UsageError(
                f"{count} records cannot be decoded, so the rows of their keys are not known",
                where=first_record,
                fix="give the job's configuration (--conf) with which it has read them, correct "
                "the configuration, or begin behind them (--from)",
            )
