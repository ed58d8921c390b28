"""Checks a job before it reads its first record; Spark's session starts only for its folders.

Called by `ingest_job`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.tables_of_job import SingleTable, WholeDatabase
from stream_app.app.source.broker_connection import TopicInfo, uncheckable
from stream_app.app.source.kafka_reader import native_reader
from stream_app.app.source.preflight import RECREATED_FIX, check_topics, recreated
from stream_app.app.tables.damaged_checkpoint import check_whole
from stream_app.app.tables.first_messages import (
    check_first_messages,
    first_messages_of_all,
    first_remarks,
    warn_of_first_messages,
)
from stream_app.app.tables.format_setup import format_setup
from stream_app.app.tables.job_folders import check_writable, make_local
from stream_app.app.tables.one_table import column_warnings, job_table, wanted_schema
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.json_records.decoder_choice import AUTO, DECODER, DECODER_OPTION, decoder_in_use
from stream_app.clock import Clock
from stream_app.errors import WrongSourceError
from stream_app.fileio.file_io_registry import is_local
from stream_app.fileio.local_file_io import local_path
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.message_formats import format_named
from stream_app.spark.ingest.checkpoint_owner import DATABASE, own_checkpoint, remember_topics
from stream_app.spark.ingest.job_state import JobStateFile, JobWarning
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger("stream_app")


class CheckedJob(NamedTuple):
    """The parts of a job that have passed the checks.

    Attributes:
        table: the only table; None: the job has a whole database.
        state_file: the job's state in its checkpoint.
        reader: settings of the native reader; None: Spark reads.
        first_messages: of a whole database, to make its tables of; `MESSAGE_SCHEMA`.
    """

    table: FileStoreTable | None
    state_file: JobStateFile
    reader: ReaderSettings | None
    first_messages: pa.Table


def checked_job(
    tables: SingleTable | WholeDatabase,
    stream: StreamConfig,
    clock: Clock,
    open_folder: Callable[[str], Folder],
) -> CheckedJob:
    """Check all that can be checked before the job, and claim its checkpoint.

    Args:
        open_folder: opens the checkpoint.

    Raises:
        StreamAppError: a check fails.
    """
    source = tables.source
    reader = native_reader(source)
    _tell_decoder(source)
    quarantine = stream.quarantine or ""
    make_local(quarantine)
    check_writable("" if tables.catalog else tables.location, stream.checkpoint, quarantine)
    topic_ids = _check_source(source)
    if is_local(stream.checkpoint):
        check_whole(Path(local_path(stream.checkpoint)))
    state = JobStateFile(open_folder(stream.checkpoint))
    reads_first = source.begins_at_oldest and not state.state.table
    table, first = None, MESSAGE_SCHEMA.empty_table()
    warnings = _warnings_of(stream)
    if isinstance(tables, SingleTable):
        table, of_columns = _checked_table(tables, clock, topic_ids, reads_first=reads_first)
        warnings += of_columns
        own_checkpoint(state, table.location, table.identity())
    else:
        if reads_first and topic_ids:
            first = first_messages_of_all(source, topic_ids)
            warn_of_first_messages(tables, first, clock)
        own_checkpoint(state, tables.location, DATABASE)
    state.begin()
    state.warn(warnings)
    if lost := recreated(state.state.topic_ids, topic_ids):
        raise WrongSourceError(
            f"the topic {', '.join(sorted(lost))} was deleted and made anew since this checkpoint "
            "was begun: its offsets mean other records now",
            where=str(state.folder),
            fix=RECREATED_FIX,
        )
    remember_topics(
        state, {name: topic.topic_id for name, topic in topic_ids.items() if topic.topic_id}
    )
    return CheckedJob(table, state, reader, first)


def _warnings_of(stream: StreamConfig) -> list[JobWarning]:
    """Warnings about keys that look complete but have no effect."""
    if stream.otlp_endpoint is None or stream.metrics_port is not None:
        return []
    what = "stream.otlp-endpoint gets traces, and no numbers"
    fix = "set stream.metrics-port, from where the collector's Prometheus receiver takes them"
    return [JobWarning(what=what, fix=fix)]


def _checked_table(
    only: SingleTable, clock: Clock, topics: Mapping[str, TopicInfo], *, reads_first: bool
) -> tuple[FileStoreTable, list[JobWarning]]:
    """The job's table, and warnings about its columns from the first messages."""
    wanted, warnings = wanted_schema(only.table, clock), list[JobWarning]()
    if topics:
        setup = format_setup(only.source, only.table, wanted)
        seen = check_first_messages(only.source, setup, topics, reads_them=reads_first)
        remarks = first_remarks(only.source, seen, wanted.fields)
        warnings = column_warnings(only.name, remarks, only.full_key)
    return job_table(only, wanted, clock), warnings


def _tell_decoder(source: SourceConfig) -> None:
    """Log which decoder runs, for a format that has two.

    Raises:
        UsageError: the compiled decoder is wanted, and cannot be had.
    """
    if DECODER_OPTION in format_named(source.format).options:
        wanted = source.format_options.get(DECODER, AUTO)
        _LOG.info("messages are decoded by %s", decoder_in_use(wanted))


def _check_source(source: SourceConfig) -> Mapping[str, TopicInfo]:
    if source.kind is not SourceKind.KAFKA:
        return {}
    if settings := uncheckable(source.kafka_options):
        _LOG.warning("the topics are not checked, because of %s", ", ".join(settings))
        return {}
    return check_topics(
        source.bootstrap_servers,
        topics=source.topics,
        pattern=source.topic_pattern,
        kafka_options=source.kafka_options,
    )
