"""Configuration of a job → the replay of its quarantine."""

from __future__ import annotations

from dataclasses import replace

from stream_app.app.config.app_config import AppConfig
from stream_app.app.job.job_feeds import job_format
from stream_app.app.quarantine.kept_records import Quarantine
from stream_app.app.quarantine.later_changes import topic_reader
from stream_app.app.quarantine.replay import Replay
from stream_app.cdc.alike.options import TRUNCATE, OnTruncate
from stream_app.errors import CheckpointError, UsageError
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.spark.ingest.checkpoint_state import remembered_tables
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.job_folder import Folder
from stream_app.table.opening import open_table


def job_replay(config: AppConfig, quarantine: Quarantine) -> Replay:
    """The replay of a job with one table, whose source is Kafka.

    Raises:
        UsageError: the job has many tables, or another source.
        CheckpointError: the job has not begun.
        TableNotFoundError: there is no table.
    """
    if config.sync is not None or config.source.kind != "kafka":
        raise UsageError(
            "only a job with one table, [table], that reads Kafka can replay its records",
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
    table = open_table(config.table.path, file_io_options=config.file_system)
    # A record that stops the job where it is read must not stop a replay of others.
    config = replace(config, stream=replace(config.stream, non_insert_records="quarantine"))
    unfiltered = replace(config, table=replace(config.table, filter=None))
    names = [] if config.source.merge_shards else remembered_tables(checkpoint).values()
    return Replay(
        quarantine=quarantine,
        table=table,
        job=log.query_id(),
        decode=job_format(config, table),
        decode_all=job_format(unfiltered, table, restores=True),
        read=topic_reader(config.source),
        source_tables=frozenset(name for told in names for name in told),
        empties=config.source.format_options.get(TRUNCATE) == OnTruncate.APPLY.value,
    )
