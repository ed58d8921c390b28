"""Splits the configuration of an ingest job into the values that the job's parts need.

`ingest_main` calls it once, so that no other part gets the whole configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.shown_job import ShownJob, shown_job
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.job.session_starter import SessionStarter


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The settings of an ingest job, one for each part of the job.

    Attributes:
        job_tables: the job's tables, and the source of the messages.
        stream_config: settings of the stream, the quarantine and the monitoring.
        session_starter: starts Spark with the job's settings.
        shown_job: the values that the web page shows.
        secrets: texts that no output may contain.
        events_file: the file that gets a JSON line for each epoch and commit, or None.
    """

    job_tables: SingleTable | WholeDatabase
    stream_config: StreamConfig
    session_starter: SessionStarter
    shown_job: ShownJob
    secrets: Secrets = field(repr=False)
    events_file: Path | None


def job_settings(config: AppConfig, events_file: Path | None = None) -> JobSettings:
    """Split the configuration into the settings of the job's parts."""
    job_tables = config.job_tables
    return JobSettings(
        job_tables=job_tables,
        stream_config=config.stream,
        session_starter=SessionStarter(
            job_tables.name, config.stream.checkpoint, job_tables.file_system, config.spark
        ),
        shown_job=shown_job(config),
        secrets=config.secrets,
        events_file=events_file,
    )
