"""Configuration of a job → the replays of its quarantine, one for each table."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.ops.check.of_database import splitter_for
from stream_app.app.ops.check.source_replay import own_messages
from stream_app.app.ops.quarantine.kept_records import KeptRecord, Quarantine, open_quarantine
from stream_app.app.ops.quarantine.later_changes import ReadRange, Where, topic_reader
from stream_app.app.ops.quarantine.replay import Replay, messages_of
from stream_app.app.tables.database_tables import remembered_origins
from stream_app.app.tables.table_pipeline import (
    LEFT_OUT_BY_REPLAY,
    LEFT_OUT_OF_LATER_CHANGES,
    job_rows,
)
from stream_app.cdc.alike.options import TRUNCATE, OnTruncate
from stream_app.cdc.source_tables import NO_TABLE
from stream_app.errors import CheckpointError, TableNotFoundError, UsageError
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.kafka.offset_ranges import Offsets
from stream_app.message_formats import source_reader
from stream_app.model.schema.origin import Origin
from stream_app.planning.sync.target_tables import Target, decide
from stream_app.spark.ingest.checkpoint_state import remembered_tables
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.held_tables import read_tables
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table


def job_replays(
    config: AppConfig, quarantine: Quarantine, name: str | None, read: ReadRange | None = None
) -> Mapping[str, Replay]:
    """The replays of a job whose source is Kafka, by table.

    Args:
        quarantine: the folder of the job, or of the table `name`.
        name: of a table of a whole database; None: each of its tables replays the records that no
            table had taken.
        read: reads ranges of the topics; None: by Kafka's client.

    Raises:
        UsageError: the job has another source.
        CheckpointError: the job has not begun.
        TableNotFoundError: there is no table.
    """
    if config.source.kind != "kafka":
        raise UsageError(
            "only a job that reads Kafka can replay its records",
            fix="correct the rows at their source, whose next change brings them",
        )
    checkpoint = Folder(*file_io_of(config.stream.checkpoint, config.file_system))
    log = EpochLog(checkpoint, goes_back=True)
    if not log.is_begun():
        raise CheckpointError(
            "the job has not begun: its checkpoint does not tell what it has read",
            where=config.stream.checkpoint,
            fix="start the job, and replay when it has read the records",
        )
    # A record that stops the job where it is read must not stop a replay of others.
    config = replace(config, stream=replace(config.stream, non_insert_records="quarantine"))
    reader = topic_reader(config.source) if read is None else read
    if config.sync is None:
        table = open_table(config.table.path, file_io_options=config.file_system)
        names = [] if config.source.merge_shards else remembered_tables(checkpoint).values()
        tables = frozenset(name for told in names for name in told)
        only = _replay(config, quarantine, table, log, reader)
        return {config.name: replace(only, source_tables=tables)}
    origins = remembered_origins(checkpoint)
    database = _Database(config, config.sync, quarantine, log, reader, origins)
    if name is not None:
        return {name: database.own_records(name)}
    return database.records_of_no_table()


def _replay(
    config: AppConfig,
    quarantine: Quarantine,
    table: FileStoreTable,
    log: EpochLog,
    read: ReadRange,
) -> Replay:
    rows = job_rows(config, table)
    return Replay(
        quarantine=quarantine,
        table=table,
        job=log.query_id(),
        decode=replace(rows, leaves_out=LEFT_OUT_BY_REPLAY).pipeline(),
        decode_all=replace(rows, leaves_out=LEFT_OUT_OF_LATER_CHANGES, restores=True).pipeline(),
        read=read,
        rules=rows.evolution,
        empties=rows.source.format_options.get(TRUNCATE) == OnTruncate.APPLY.value,
    )


@dataclass(frozen=True, slots=True)
class _Database:
    """The replays of a job of a whole database.

    Attributes:
        quarantine: the folder of a table, or of records that no table had taken.
        origins: where the job's source tables go.
    """

    config: AppConfig
    sync: SyncConfig
    quarantine: Quarantine
    log: EpochLog
    read: ReadRange
    origins: Mapping[Origin, str]

    def own_records(self, name: str) -> Replay:
        """The replay of the records in a table's own folder."""
        return self._of_table(name, beside=self.config.stream.quarantine or "")

    def records_of_no_table(self) -> Mapping[str, Replay]:
        """The replays of the tables to which such records belong today; others go on waiting."""
        records = list(self.quarantine.records())
        names = {name for name in self._names(records) if name is not None}
        found = {}
        for name in sorted(names):
            with contextlib.suppress(TableNotFoundError):
                whole = self._of_table(name, beside=f"{self.config.stream.quarantine}/{name}")
                found[name] = replace(whole, means=functools.partial(self._are_of, name))
        return found

    def _of_table(self, name: str, *, beside: str) -> Replay:
        # What the job has passed comes first: whatever it commits from now on, the table tells.
        passed = _passed(self.log, name)
        table = open_table(self.sync.path(name), file_io_options=self.config.file_system)
        read = functools.partial(self._own_messages, name)
        return replace(
            _replay(self.config, self.quarantine, table, self.log, read),
            passed=passed,
            beside=open_quarantine(beside, self.config.file_system),
        )

    def _own_messages(
        self, name: str, where: Where, begin: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Implements `ReadRange`: a table's messages alone."""
        splitter = splitter_for(self.config, [name], self.origins)
        yield from own_messages(self.read(where, begin, end), splitter)

    def _are_of(self, name: str, records: Sequence[KeptRecord]) -> Sequence[bool]:
        return [each == name for each in self._names(records)]

    def _names(self, records: Sequence[KeptRecord]) -> list[str | None]:
        """The table of each record by the rules of today; None: none."""
        if not records:
            return []
        source = self.config.source
        reader = source_reader(source.format, source.format_options)
        found = reader.origins(messages_of(records))
        names: list[str | None] = []
        for origin in found.tables:  # a loop over source tables
            known = self.origins.get(origin)
            decision = decide(self.sync.rules, origin, self.origins)
            names.append(decision.name if known is None and isinstance(decision, Target) else known)
        return [None if code == NO_TABLE else names[code] for code in found.codes.tolist()]


def _passed(log: EpochLog, name: str) -> dict[Where, int]:
    """Up to where the job has read each partition for a table, and is done with it."""
    state = read_tables(log.folder)
    if state is None or state.epoch < 0:
        return {}
    held = state.held.get(name)
    ends: Offsets = json.loads(log.source_end(state.epoch)) if held is None else held.begin
    return {
        (topic, int(partition)): int(end)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    }
