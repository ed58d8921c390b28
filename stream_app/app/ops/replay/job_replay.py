"""Makes the replays of a job's quarantine, one for each of its tables."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceKind
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.recorded_tables import named_splitter
from stream_app.app.ops.replay.later_change_check import ReadRange, topic_reader
from stream_app.app.ops.replay.record_replay import RecordReplay, as_messages
from stream_app.app.ops.source_comparison.source_replay import own_messages
from stream_app.app.table_setup.table_pipeline import (
    LEFT_OUT_BY_REPLAY,
    LEFT_OUT_OF_LATER_CHANGES,
    row_settings,
)
from stream_app.cdc.json_records.json_options import TRUNCATE_KEY, OnTruncate
from stream_app.cdc.source_tables import NO_TABLE
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.errors import CheckpointError, TableNotFoundError, UsageError
from stream_app.fileio.store_registry import file_io_of
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.source.origin import Origin
from stream_app.quarantine.quarantine_folder import Quarantine, QuarantinedRecord
from stream_app.table.file_store_table import FileStoreTable


def job_record_replays(
    job_tables: SingleTable | WholeDatabase,
    quarantine: Quarantine,
    name: str | None,
    read_range: ReadRange | None = None,
) -> Mapping[str, RecordReplay]:
    """Return table → replay, for a job whose source is Kafka.

    Args:
        quarantine: the quarantine of the whole job.
        name: a table of a whole database, or None for the records of no table.
        read_range: reads ranges of the topics; None uses the native reader.

    Raises:
        UsageError: the job's source is not Kafka.
        CheckpointError: the job has not begun.
        TableNotFoundError: the table does not exist.
    """
    if job_tables.source.kind is not SourceKind.KAFKA:
        raise UsageError(
            "only a job that reads Kafka can replay its records",
            fix="correct the rows at their source, whose next change brings them",
        )
    checkpoint = JobFolder(*file_io_of(job_tables.checkpoint, job_tables.file_system))
    epoch_log = EpochLog(checkpoint, can_reread=True)
    if not epoch_log.is_begun():
        raise CheckpointError(
            "the job has not begun: its checkpoint does not record what it has read",
            where=job_tables.checkpoint,
            fix="start the job, and replay when it has read the records",
        )
    if read_range is None:
        read_range = topic_reader(job_tables.source)
    state = state_or_empty(checkpoint)
    match job_tables:
        case SingleTable():
            table = open_job_table(job_tables, job_tables.location)
            names = [] if job_tables.joins_sources else state.source_tables_of().values()
            source_tables = frozenset(name for names_of_topic in names for name in names_of_topic)
            replay = _replay_of_records(job_tables, quarantine, table, epoch_log, read_range)
            return {job_tables.name: replace(replay, source_tables=source_tables)}
        case WholeDatabase():
            database = _DatabaseRecordReplays(
                job_tables, quarantine, epoch_log, read_range, state.targets
            )
            if name is not None:
                return {name: database.own_record_replay(name)}
            return database.unassigned_record_replays()


def _replay_of_records(
    job_tables: JobTables,
    quarantine: Quarantine,
    table: FileStoreTable,
    epoch_log: EpochLog,
    read_range: ReadRange,
) -> RecordReplay:
    """Return the replay of a quarantine into a table, with the pipelines of its job."""
    # A record that would stop the job must not stop the replay of other records.
    settings = row_settings(job_tables, table, quarantines_non_inserts=True)
    return RecordReplay(
        quarantine=quarantine,
        table=table,
        job_commit_user=epoch_log.query_id(),
        message_format=replace(settings, left_out_steps=LEFT_OUT_BY_REPLAY).pipeline(),
        unfiltered_format=replace(
            settings, left_out_steps=LEFT_OUT_OF_LATER_CHANGES, restores_values=True
        ).pipeline(),
        read_range=read_range,
        evolution_rules=settings.evolution_rules,
        empties_on_truncate=settings.source_config.format_options.get(TRUNCATE_KEY)
        == OnTruncate.APPLY.value,
    )


@dataclass(frozen=True, slots=True)
class _DatabaseRecordReplays:
    """The replays of a job of a whole database.

    Attributes:
        job_quarantine: the quarantine of the whole job, which has the records of no table.
        targets: source table → its table in the job.
    """

    job_tables: WholeDatabase
    job_quarantine: Quarantine
    epoch_log: EpochLog
    read_range: ReadRange
    targets: Mapping[Origin, str]

    def own_record_replay(self, name: str) -> RecordReplay:
        """Return the replay of the records in a table's own folder."""
        return self._replay_of_table(
            name, self.job_quarantine.of_table(name), other_quarantine=self.job_quarantine
        )

    def unassigned_record_replays(self) -> Mapping[str, RecordReplay]:
        """Return the replays of tables to which records of no table belong by the current rules."""
        records = list(self.job_quarantine.records())
        names = {name for name in self._table_names(records) if name is not None}
        replays = {}
        for name in sorted(names):
            with contextlib.suppress(TableNotFoundError):
                replay = self._replay_of_table(
                    name, self.job_quarantine, other_quarantine=self.job_quarantine.of_table(name)
                )
                replays[name] = replace(replay, selects=functools.partial(self._are_of, name))
        return replays

    def _replay_of_table(
        self, name: str, quarantine: Quarantine, *, other_quarantine: Quarantine
    ) -> RecordReplay:
        # Read the job's progress first: later commits are in the table's snapshots.
        finished_offsets = _finished_offsets(self.epoch_log, name)
        table = open_job_table(self.job_tables, self.job_tables.path(name))
        read_range = functools.partial(self._own_messages, name)
        return replace(
            _replay_of_records(self.job_tables, quarantine, table, self.epoch_log, read_range),
            finished_offsets=finished_offsets,
            other_quarantine=other_quarantine,
        )

    def _own_messages(
        self, name: str, kafka_partition: KafkaPartition, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Read a range as `ReadRange`, for the messages of one table."""
        splitter = named_splitter(self.job_tables, [name], self.targets)
        yield from own_messages(self.read_range(kafka_partition, start, end), splitter)

    def _are_of(self, name: str, records: Sequence[QuarantinedRecord]) -> Sequence[bool]:
        return [table == name for table in self._table_names(records)]

    def _table_names(self, records: Sequence[QuarantinedRecord]) -> list[str | None]:
        """Return the table of each record by the current rules, or None if it belongs to none."""
        if not records:
            return []
        origins = self.job_tables.source.source_extractor.find_origins(as_messages(records))
        names: list[str | None] = []
        for origin in origins.tables:  # a loop over source tables
            name = self.targets.get(origin)
            names.append(self.job_tables.new_name(origin, self.targets) if name is None else name)
        return [None if code == NO_TABLE else names[code] for code in origins.codes.tolist()]


def _finished_offsets(epoch_log: EpochLog, name: str) -> dict[KafkaPartition, int]:
    """Return the offsets up to which the job has finished each partition for a table."""
    state = state_or_empty(epoch_log.checkpoint)
    if state.epoch < 0:
        return {}
    held_table = state.held_tables.get(name)
    ends = epoch_log.end_offsets(state.epoch) if held_table is None else held_table.start
    return {
        (topic, int(partition_number)): int(end)
        for topic, topic_offsets in ends.items()
        for partition_number, end in topic_offsets.items()
    }
