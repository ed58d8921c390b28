"""A database of the source, and the job that makes its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.two_table_job import Reports
from tests.support.messages.database_topic import Message
from tests.support.tables.small_table import CompactHere, StandingClock


def table_of(messages: Sequence[Message]) -> pa.Table:
    rows = [
        {"topic": "all", "partition": 0, "offset": number, "key": key, "value": value}
        for number, (key, value) in enumerate(messages)
    ]
    return pa.Table.from_pylist(rows, schema=MESSAGE_SCHEMA)


class Database:
    """A job's tables in a folder; a new one is a new process with the same checkpoint."""

    def __init__(self, folder: Path, message_format: str = "debezium-json", **sync: Any) -> None:
        self.sync = SyncConfig(warehouse=str(folder / "warehouse"), database="ods", **sync)
        self.job_tables = WholeDatabase(source=SourceConfig(format=message_format), sync=self.sync)
        self.checkpoint = JobFolder(str(folder / "checkpoint"), LocalFileIO())
        self.aside: list[tuple[int, pa.Table]] = []
        self.database_tables = DatabaseTables(
            job_tables=self.job_tables,
            state_file=JobStateFile(self.checkpoint),
            clock=StandingClock(),
            make_feed=self._feed,
            write_unassigned_messages=lambda *arguments: self.aside.append(arguments),
        )

    def _feed(self, name: str, table: FileStoreTable) -> TableFeed:
        return TableFeed(
            name=name,
            table_job=TableJob(table, CompactHere),
            make_pipeline=lambda latest_table: job_pipeline(self.job_tables, latest_table),
            quarantine_writer=QuarantineWriter(None, 0),
            listener=Reports(),
        )

    def feeds(self, *messages: Message) -> list[str]:
        return [feed.name for feed in self.database_tables.create(table_of(messages)).feeds]

    def table(self, name: str) -> FileStoreTable:
        return open_file_store_table(self.sync.path(name))

    def columns(self, name: str) -> list[str]:
        return [f"{column.name} {column.data_type}" for column in self.table(name).schema.fields]


def a_configuration(job: DatabaseJob) -> Path:
    """Return the job's configuration, whose broker does not answer; `status` reports this."""
    return write_conf(
        Path(job.config.stream.checkpoint).parent / "job.toml",
        source={"bootstrap-servers": "127.0.0.1:1", "topics": ["all"]},
        sync={"warehouse": job.sync.warehouse, "database": "ods"},
        stream={"checkpoint": job.config.stream.checkpoint},
    )
