"""Selects the part of a job's configuration that pages show or need.

`app.submit.job_settings` calls it for the page of a running job, and
`app.cli.arguments.shown_site` for ``stream-app web``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.toml_text import toml_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """The parts of a job's configuration that pages show.

    Attributes:
        quarantine: the folder of the job's bad records, or None.
        max_staleness_s: seconds without success after which the job is not healthy.
        spark_settings: Spark's settings, for compactions that a page starts.
        settings: section → key → the value as TOML, with secrets hidden.
        secrets: texts that no page may show.
    """

    job_tables: SingleTable | WholeDatabase
    quarantine: str | None
    max_staleness_s: int
    spark_settings: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, Mapping[str, str]]
    secrets: Secrets = field(repr=False)


def shown_job(config: AppConfig) -> ShownJob:
    """Return the part of the configuration that pages show or need."""
    return ShownJob(
        job_tables=config.job_tables,
        quarantine=config.stream.quarantine,
        max_staleness_s=config.stream.max_staleness // 1000,
        spark_settings=config.spark,
        settings=toml_settings(config),
        secrets=config.secrets,
    )
