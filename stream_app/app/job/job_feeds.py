"""Makes the feeds of a job: each joins a table with its job, its format and its dead letters.

Called by `ingest_job` for the only table, and for each table of a whole database.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.app.config.app_config import AppConfig
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.tables.format_setup import full_key
from stream_app.app.tables.table_pipeline import job_pipeline, job_rows
from stream_app.spark.compact_jobs import SparkCompactExecutor, SparkCompactions
from stream_app.spark.ingest.checkpoint_state import remembered_tables
from stream_app.spark.ingest.dead_letters import DeadLetters
from stream_app.spark.ingest.schema_evolution import SchemaEvolution
from stream_app.spark.ingest.source_table_check import SourceTableCheck
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob


@dataclass(slots=True, kw_only=True)
class JobFeeds:
    """Makes feeds, and closes what they hold.

    Attributes:
        open_folder: of a location, such as the quarantine's.
        of_no_table: number of messages that were set aside without a table.
        stopping: whether the job shall end.
    """

    config: AppConfig
    checkpoint: Folder
    open_folder: Callable[[str], Folder]
    compactions: SparkCompactions
    stopping: Callable[[], bool]
    log: EventLog
    of_no_table: int = field(init=False, default=0)
    _jobs: list[TableJob] = field(init=False, default_factory=list)
    _unassigned: DeadLetters | None = field(init=False, default=None)

    def only(self, table: FileStoreTable) -> TableFeed:
        """The feed of a job of one table."""
        feed = self._feed(self.config.name, table, self.log, "")
        if not self.config.source.merge_shards:
            sources = feed.sources = SourceTableCheck(self.checkpoint)
            feed.format_of = lambda seen: job_pipeline(
                self.config, seen, choice=sources.choice, restores=True
            )
        feed.met = functools.partial(remembered_tables, self.checkpoint)
        return feed

    def of_table(self, name: str, table: FileStoreTable) -> TableFeed:
        """The feed of one table of a database; its messages come by their source table."""
        return self._feed(name, table, self.log.of_table(name), name)

    def set_aside(self, epoch: int, messages: pa.Table) -> None:
        """Keep messages that belong to no table.

        Args:
            messages: of `BAD_RECORD_SCHEMA`.

        Raises:
            BadRecordsError: the run has exceeded the limit.
        """
        if self._unassigned is None:
            self._unassigned = self._dead_letters("")
        self.of_no_table += messages.num_rows
        if (kept := self._unassigned.write(epoch, messages)) is not None:
            self.log.unassigned(epoch, kept)

    def close(self) -> None:
        """Wait for upkeep that runs beside the job."""
        for job in self._jobs:
            job.close()

    def _feed(
        self,
        name: str,
        table: FileStoreTable,
        log: EventLog,
        folder: str,
    ) -> TableFeed:
        if self.log.metrics is not None:
            table = table.counted(self.log.metrics.store.requests)
        executor_of = functools.partial(SparkCompactExecutor, self.compactions)
        takes_repeats = self.config.stream.repeated_records == "store"
        job = TableJob(table, executor_of, self.stopping, takes_repeats)
        rules = job_rows(self.config, table).evolution
        self._jobs.append(job)
        log.watch_maintenance(job.upkeep.metrics)
        log.watch_compactions(job.compaction_metrics)
        log.history.watch(log.table or "", job)
        return TableFeed(
            name=name,
            job=job,
            format_of=lambda seen: job_pipeline(self.config, seen, restores=True),
            dead_letters=self._dead_letters(folder),
            listener=log,
            evolution=None
            if rules is None
            else SchemaEvolution(rules, functools.partial(full_key, self.config)),
        )

    def _dead_letters(self, folder: str) -> DeadLetters:
        quarantine, limit = self.config.stream.quarantine, self.config.stream.max_bad_records
        if quarantine is None:
            return DeadLetters(None, limit)
        location = f"{quarantine}/{folder}" if folder else quarantine
        return DeadLetters(self.open_folder(location), limit)
