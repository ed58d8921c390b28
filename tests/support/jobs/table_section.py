"""The section of a job of one table, as a test expects it."""

from __future__ import annotations

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.table_config import TableConfig


def table_section(config: AppConfig) -> TableConfig:
    """Return the section ``[table]`` of a configuration that has it."""
    assert isinstance(config.job_tables, SingleTable)
    return config.job_tables.table
