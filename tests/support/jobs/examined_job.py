"""Examines a job by its configuration."""

from __future__ import annotations

from stream_app.app.config.app_config import AppConfig
from stream_app.app.ops.doctor.examination import Examination
from stream_app.clock import Clock


def examination_of(config: AppConfig, clock: Clock, broker_timeout_s: float = 10) -> Examination:
    return Examination(
        config.job_tables,
        config.stream.quarantine,
        config.spark,
        clock,
        broker_timeout_s=broker_timeout_s,
    )
