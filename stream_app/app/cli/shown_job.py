"""Selects the settings that a job's pages show, for ``stream-app web`` and the job itself."""

from __future__ import annotations

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.toml_text import toml_settings
from stream_app.app.web.job_site import ShownJob


def shown_job(config: AppConfig) -> ShownJob:
    """The part of the configuration that pages show or need."""
    return ShownJob(
        tables=config.tables,
        quarantine=config.stream.quarantine,
        max_staleness_s=config.stream.max_staleness // 1000,
        spark=config.spark,
        settings=toml_settings(config),
        secrets=config.secrets,
    )
