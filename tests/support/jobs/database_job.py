"""A job of a whole database without Spark and broker: one topic, its epochs in the caller."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.expectations_config import ExpectationsConfig
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.statement_reader import evolution_of, statement_reader_of
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile, state_or_empty
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import IndependentTables
from stream_app.epochs.rounds.expectation_judge import ExpectationJudge
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import EpochSettings
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.jobs.table_writer import read_rows
from tests.support.jobs.two_table_job import Reports
from tests.support.messages.database_topic import Message
from tests.support.tables.small_table import CompactHere, StandingClock
from tests.support.tables.snapshot_chain import check_chain

TOPIC = "all"


class DatabaseJob:
    """A job's folder, in which `start` begins a new process with the same checkpoint.

    Attributes:
        sent: the topic's messages.
        epochs: up to where each epoch reads.
        restores: tables take values that were not sent from older rows.
    """

    def __init__(
        self,
        folder: Path,
        *,
        restores: bool = False,
        expectations: Mapping[str, str] = MappingProxyType({}),
        **sync: Any,
    ) -> None:
        self.restores = restores
        self.sync = SyncConfig(warehouse=str(folder / "warehouse"), database="ods", **sync)
        stream = StreamConfig(
            checkpoint=str(folder / "checkpoint"), quarantine=str(folder / "quarantine")
        )
        database = WholeDatabase(
            source=SourceConfig(topics=(TOPIC,)),
            checkpoint=stream.checkpoint,
            sync=self.sync,
            expectations=ExpectationsConfig(settings=expectations),
        )
        self.config = AppConfig(job_tables=database, stream=stream)
        self.clock = StandingClock()
        self.checkpoint = JobFolder(self.config.stream.checkpoint, LocalFileIO())
        self.time_ms: int | None = None  # of all messages
        self.sent: list[Message] = []
        self.epochs: list[int] = []
        self.tables: DatabaseTables
        self.committer: EpochCommitter[Parts]
        self.start()

    def start(self, **sync: Any) -> None:
        """Start the job again, perhaps with other settings."""
        self.sync = replace(self.sync, **sync)
        self.config = replace(self.config, job_tables=replace(self.database, sync=self.sync))
        self.state = state = JobStateFile(self.checkpoint)
        self.tables = DatabaseTables(
            job_tables=self.database, state_file=state, clock=self.clock,
            make_feed=self._feed, write_unassigned_messages=self._quarantine,
        )  # fmt: skip
        known_feeds = self.tables.known_feeds()
        splitter = self.tables.splitter(known_feeds, frozenset(state.state.held_tables))
        self.runner = EpochHere()
        tables = IndependentTables(
            known_feeds,
            epoch_log=EpochLog(self.checkpoint, can_reread=True),
            state_file=state,
            now_ms=self.clock.now_ms,
        )
        self.committer = EpochCommitter(
            RoundRunner(
                tables=tables,
                settings=EpochSettings(task_count=2, holds_tables=True, splitter=splitter),
                epoch_runner=self.runner,
                clock=self.clock,
                newcomer_creator=self.tables,
                read_statements=statement_reader_of(self.database, state, self.clock.now_ms),
            )
        )

    @property
    def database(self) -> WholeDatabase:
        """The tables of the job."""
        assert isinstance(self.config.job_tables, WholeDatabase)
        return self.config.job_tables

    def run(self, *messages: Message) -> None:
        """Run an epoch with these messages."""
        self._write("metadata", json.dumps({"id": "the job"}))
        self._write("sources/0/0", 'v1\n{"all": {"0": 0}}')
        first = len(self.sent)
        self.sent += messages
        self.epochs.append(len(self.sent))
        epoch = len(self.epochs) - 1
        self._write(f"offsets/{epoch}", f'v1\n{{}}\n{{"all": {{"0": {len(self.sent)}}}}}')
        self.runner.topics = [self.messages(0, len(self.sent))]
        try:
            self.committer.process_epoch([self.messages(first, len(self.sent))], epoch)
        except RuntimeError:
            assert self.committer.failure is not None
            raise self.committer.failure from None

    def wait(self, hours: float = 1) -> None:
        """Let the job run idle for a while."""
        self.clock.sleep(hours * 3600)
        self.committer.while_idle()

    def messages(self, start: int, end: int) -> pa.RecordBatch:
        """Return messages of the topic in columns of `MESSAGE_SCHEMA`."""
        time = None if self.time_ms is None else self.time_ms * 1000
        rows = [
            {
                "topic": TOPIC,
                "partition": 0,
                "offset": offset,
                "timestamp": time,
                "key": key,
                "value": value,
            }
            for offset, (key, value) in enumerate(self.sent[start:end], start)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)

    def read(self, where: tuple[str, int], start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read messages again, as `later_change_check.ReadRange` demands."""
        assert where == (TOPIC, 0)
        yield self.messages(start, end)

    def table(self, name: str) -> FileStoreTable:
        return open_file_store_table(self.sync.path(name))

    def rows(self, name: str) -> dict[int, Any]:
        """Return the column ``v`` by ``id``."""
        check_chain(self.table(name))
        return {row["id"]: row["v"] for row in read_rows(self.table(name))}

    def held(self) -> dict[str, str]:
        """Return the held tables with their reasons."""
        held_tables = state_or_empty(self.checkpoint).held_tables
        return {name: table.reason for name, table in held_tables.items()}

    def quarantine(self, name: str = "") -> list[str]:
        """Return the reasons of records that were quarantined, in their order."""
        folder = Path(f"{self.config.stream.quarantine}/{name}")
        lines = [file.read_text().splitlines() for file in sorted(folder.glob("*.jsonl"))]
        return [json.loads(line)["reason"] for line in itertools.chain.from_iterable(lines)]

    def _write(self, name: str, text: str) -> None:
        self.checkpoint.file_io.overwrite(self.checkpoint.path(name), text.encode())

    def _quarantine_writer(self, name: str) -> QuarantineWriter:
        location = f"{self.config.stream.quarantine}/{name}".rstrip("/")
        return QuarantineWriter(JobFolder(location, LocalFileIO()), None)

    def _quarantine(self, epoch: int, messages: pa.Table) -> None:
        self._quarantine_writer("").write(epoch, messages)

    def _feed(self, name: str, table: FileStoreTable) -> TableFeed:
        return TableFeed(
            name=name,
            table_job=TableJob(table, CompactHere),
            make_pipeline=lambda latest_table: job_pipeline(
                self.database, latest_table, restores_values=self.restores
            ),
            quarantine_writer=self._quarantine_writer(name),
            listener=Reports(),
            expectation_judge=ExpectationJudge(f"ods.{name}"),
            evolution=evolution_of(self.database, name, table, self.state, self.clock.now_ms),
        )
