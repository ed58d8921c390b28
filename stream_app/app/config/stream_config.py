"""Section ``[stream]`` of the configuration, with its fields and their keys.

`app_config` reads it, and also checks combinations of keys.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from stream_app.app.config import values
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.model.options.option import parse_duration_ms
from stream_app.planning.sync.table_share import TableShare

ENVIRONMENT = "environment"
"""The value of an address for which the client library's own variables decide."""


class NonInsertRecords(enum.Enum):
    """The reaction to a change that needs a primary key, on a table without one."""

    ERROR = "error"
    QUARANTINE = "quarantine"


class RepeatedRecords(enum.Enum):
    """Whether to store records that a job with another checkpoint has already stored."""

    REFUSE = "refuse"
    STORE = "store"


class CompactionPolicy(enum.Enum):
    """Whether the table's options or the job itself decides when a bucket is compacted."""

    OPTIONS = "options"
    AUTO = "auto"


class LogFormat(enum.Enum):
    """The format of the job's log."""

    TEXT = "text"
    JSON = "json"


def share_text(setting: Setting) -> str:
    """Convert a share of a database's tables, such as ``3/8``."""
    text = values.text(setting)
    if TableShare.parsed(text) is None:
        raise WrongValueError(
            f"{text[:20]!r} is not a share: give 1/1 to 9999/9999, such as '3/8' for the third of "
            "eight jobs"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Section ``[stream]``.

    Attributes:
        share: the job's share of a database's tables, such as ``3/8``, or None for all tables.
        trigger: ``availableNow``, or the time between the starts of two epochs.
        freshness: the maximum age of rows when readers see them, in ms, from which the job derives
            the length of epochs; without it ``trigger`` decides.
        quarantine: the folder for records that cannot be decoded, or None to stop at the first one.
        max_bad_records: the maximum number of bad records of a run, or None without a limit.
        write_parallelism: the number of writing tasks, or None for Spark's default.
        driver_messages: the maximum number of messages of an epoch that the driver itself writes;
            0: none.
        compaction_policy: whether the job chooses the rules of its compactions.
        compaction_freshness: the number of sorted runs that compactions may leave for readers to
            merge.
        compaction_cores: the number of concurrent compactions, or None for half of Spark's cores.
        metrics_port, metrics_address: port and address of the Prometheus endpoint, or no port
            without it.
        max_staleness: how far a table of a ready job may be behind, in ms.
        web_port, web_host: port and address of the web page, or no port without it.
        web_names: the host names under which the page responds, in addition to ``localhost``,
            addresses and the machine's own name.
        webhook_url, webhook_secret: the URL that gets notifications, and the secret that signs
            them.
        otlp_endpoint: the address that gets traces by OTLP, ``environment`` to use OpenTelemetry's
            variables, or None to send none.
        openlineage_url: the address of a lineage service, or ``environment`` to use the client's
            own settings.
        openlineage_namespace: the job's namespace in that service.
    """

    checkpoint: str = values.key(values.folder, "")
    share: str | None = values.key(share_text, None)
    trigger: str = values.key(values.trigger, "5 seconds")
    freshness: int | None = values.key(values.milliseconds, None)
    quarantine: str | None = values.key(values.folder, None)
    max_bad_records: int | None = values.key(values.integer(0), None)
    non_insert_records: NonInsertRecords = values.key(
        values.member(NonInsertRecords), NonInsertRecords.ERROR
    )
    repeated_records: RepeatedRecords = values.key(
        values.member(RepeatedRecords), RepeatedRecords.REFUSE
    )
    write_parallelism: int | None = values.key(values.integer(1), None)
    driver_messages: int = values.key(values.integer(0), 5000)
    compaction_policy: CompactionPolicy = values.key(
        values.member(CompactionPolicy), CompactionPolicy.OPTIONS
    )
    compaction_freshness: int = values.key(values.integer(5, 1000), 20)
    compaction_cores: int | None = values.key(values.integer(1), None)
    metrics_port: int | None = values.key(values.integer(1, 65535), None)
    metrics_address: str = values.key(values.text, "0.0.0.0")
    max_staleness: int = values.key(values.milliseconds, 300_000)
    web_port: int | None = values.key(values.integer(1, 65535), None)
    web_host: str = values.key(values.text, "127.0.0.1")
    web_names: tuple[str, ...] = values.key(values.host_names, ())
    log_format: LogFormat = values.key(values.member(LogFormat), LogFormat.TEXT)
    webhook_url: str | None = values.key(values.web_address(), None, is_secret=True)
    webhook_secret: str | None = values.key(values.text, None, is_secret=True)
    otlp_endpoint: str | None = values.key(values.web_address(ENVIRONMENT), None)
    openlineage_url: str | None = values.key(values.web_address(ENVIRONMENT), None)
    openlineage_namespace: str = values.key(values.text, "stream_app")

    @property
    def is_available_now(self) -> bool:
        """Whether the job ends after it has stored the messages that existed at its start."""
        return self.trigger == "availableNow"

    @property
    def pause_s(self) -> float:
        """The maximum time between two looks at the source, if epochs take no longer."""
        if self.is_available_now:
            return 0.0
        return (self.freshness or parse_duration_ms(self.trigger)) / 1000


def with_bad_record_limit(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the section's values, with a limit of 0 bad records unless there is a quarantine."""
    return settings if "quarantine" in settings else {"max_bad_records": 0} | settings
