"""Checks a job before it reads its first record.

`ingest_job` calls it. It starts Spark's session only if a folder needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.opening.job_folder_access import check_folders_writable, create_local_folder
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.kafka_reader import native_reader
from stream_app.app.source.source_connection import unaskable_settings
from stream_app.app.source.topic_checks import RECREATED_FIX, checked_topics, recreated_topics
from stream_app.app.table_setup.start_table_checks import (
    CheckedTable,
    CheckedTables,
    SampledDatabase,
    checked_tables,
)
from stream_app.cdc.json_records.decoder_choice import AUTO, DECODER, DECODER_OPTION, decoder_in_use
from stream_app.checkpoint.checkpoint_owner import DATABASE, claim_checkpoint, write_topics
from stream_app.checkpoint.damaged_checkpoint import check_whole
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile, JobWarning
from stream_app.clock import Clock
from stream_app.errors import UsageError, WrongSourceError
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.store_registry import is_local
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.message_format_registry import format_named
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


class CheckedJob(NamedTuple):
    """The parts of a job that have passed the checks.

    Attributes:
        tables: the job's only table, or its whole database.
        state_file: the job's state in its checkpoint.
        reader_settings: settings of the native reader, or None if Spark reads the source.
    """

    tables: CheckedTables
    state_file: JobStateFile
    reader_settings: ReaderSettings | None

    @property
    def checkpoint(self) -> JobFolder:
        """The job's checkpoint."""
        return self.state_file.checkpoint

    @property
    def table(self) -> FileStoreTable | None:
        """The job's only table, or None if the job has a whole database."""
        return self.tables.table if isinstance(self.tables, CheckedTable) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChecks:
    """The checks of a job before its first record, which `run` carries out in order.

    Attributes:
        open_folder: opens the folder of the checkpoint.
    """

    job_tables: SingleTable | WholeDatabase
    stream_config: StreamConfig
    clock: Clock
    open_folder: Callable[[str], JobFolder]

    def run(self) -> CheckedJob:
        """Check everything that can be checked before the job, and claim its checkpoint.

        1. Check that the source's reader and decoder can do what the configuration asks.
        2. Check that the job can write to its folders.
        3. Check the topics.
        4. Open the job's state.
        5. Open the only table, or sample the messages of the database.
        6. Claim the checkpoint for the table or the database.
        7. Store the decoder and the warnings, and refuse recreated topics.

        Raises:
            StreamAppError: a check fails.
        """
        reader_settings = native_reader(self.job_tables.source)  # step 1
        self._check_reader(reader_settings)
        decoder = _decoder_of(self.job_tables.source)
        self._check_folders()  # step 2
        topics = _checked_source_topics(self.job_tables.source)  # step 3
        state_file = self._open_state()  # step 4
        reads_first = self.job_tables.source.begins_at_oldest and not state_file.state.location
        # step 5
        tables = checked_tables(self.job_tables, topics, self.clock, reads_first=reads_first)
        share = str(self.job_tables.share or "")
        match tables:  # step 6
            case CheckedTable(table, warnings):
                claim_checkpoint(state_file, table.version_root, table.identity(), share)
            case SampledDatabase():
                claim_checkpoint(state_file, self.job_tables.location, DATABASE, share)
                warnings = ()
        state_file.begin(decoder)  # step 7
        state_file.write_warnings([*_warnings_of(self.stream_config), *warnings])
        _check_not_recreated(topics, state_file)
        return CheckedJob(tables, state_file, reader_settings)

    def _check_reader(self, reader_settings: ReaderSettings | None) -> None:
        """Refuse settings that only the native reader honours, if Spark reads the source."""
        if reader_settings is None and self.job_tables.keeps_transactions:
            raise UsageError(
                "only the native reader ends epochs between transactions, and it cannot read these "
                "topics",
                where="sync.transactions",
                fix="see the log for what source.reader = 'native' lacks, or leave "
                "sync.transactions out",
            )
        has_pace = (
            self.stream_config.freshness is not None and not self.stream_config.is_available_now
        )
        if reader_settings is None and has_pace:
            raise UsageError(
                "only the native reader chooses the length of epochs, and it cannot read this "
                "source",
                where="stream.freshness",
                fix="give stream.trigger in its place; for topics, the log says what "
                "source.reader = 'native' lacks",
            )

    def _check_folders(self) -> None:
        """Create the local folders, and check that the job can write to them."""
        warehouse = "" if self.job_tables.catalog else self.job_tables.location
        quarantine = self.stream_config.quarantine or ""
        create_local_folder(quarantine)
        check_folders_writable(warehouse, self.stream_config.checkpoint, quarantine)

    def _open_state(self) -> JobStateFile:
        """Check that a local checkpoint is whole, and open the file of the job's state."""
        checkpoint = self.stream_config.checkpoint
        if is_local(checkpoint):
            check_whole(Path(local_path(checkpoint)))
        return JobStateFile(self.open_folder(checkpoint))


def _check_not_recreated(topics: Mapping[str, TopicInfo], state_file: JobStateFile) -> None:
    """Refuse topics that were recreated since the checkpoint was begun; else remember their ids."""
    if recreated_names := recreated_topics(state_file.state.topic_ids, topics):
        raise WrongSourceError(
            f"the topic {', '.join(sorted(recreated_names))} was deleted and recreated since this "
            "checkpoint was begun: its offsets point to other records",
            where=str(state_file.checkpoint),
            fix=RECREATED_FIX,
        )
    topic_ids = {name: topic.topic_id for name, topic in topics.items() if topic.topic_id}
    write_topics(state_file, topic_ids)


def _warnings_of(stream_config: StreamConfig) -> list[JobWarning]:
    """Return warnings about configuration keys that have no effect."""
    if stream_config.otlp_endpoint is None or stream_config.metrics_port is not None:
        return []
    problem = "stream.otlp-endpoint receives traces, but no metrics"
    fix = "set stream.metrics-port, which the collector's Prometheus receiver can scrape"
    return [JobWarning(problem=problem, fix=fix)]


def _decoder_of(source_config: SourceConfig) -> str:
    """Return and log the decoder that runs; empty for a format that has only one.

    Raises:
        UsageError: the configuration wants the compiled decoder, which is not available.
    """
    if DECODER_OPTION not in format_named(source_config.format).options:
        return ""
    decoder = decoder_in_use(source_config.format_options.get(DECODER, AUTO))
    _LOG.info("messages are decoded by %s", decoder)
    return decoder


def _checked_source_topics(source_config: SourceConfig) -> Mapping[str, TopicInfo]:
    if source_config.kind is not SourceKind.KAFKA:
        return {}
    if settings := unaskable_settings(source_config):
        _LOG.warning("the topics are not checked, because of %s", ", ".join(settings))
        return {}
    return checked_topics(source_config)
