"""Section ``[stream]`` of the configuration: its fields and their keys.

Read by `app_config`, which also checks combinations of keys.
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
"""The value of an address that defers to the variables of the client's own project."""


class NonInsertRecords(enum.Enum):
    """The effect of a change that needs a primary key on a table without one."""

    ERROR = "error"
    QUARANTINE = "quarantine"


class RepeatedRecords(enum.Enum):
    """Whether records are stored that the table has from a job with another checkpoint."""

    REFUSE = "refuse"
    STORE = "store"


class CompactionPolicy(enum.Enum):
    """Whether a table's options decide when a bucket is compacted, or the job chooses by sizes."""

    OPTIONS = "options"
    AUTO = "auto"


class LogFormat(enum.Enum):
    """The format of the job's log."""

    TEXT = "text"
    JSON = "json"


def share_text(setting: Setting) -> str:
    """A share of a database's tables, such as ``3/8``."""
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
        share: the job's share of the tables of a database, such as ``3/8``; None: all tables.
        trigger: ``availableNow``, or the time between the starts of two epochs.
        freshness: milliseconds that rows may be old when readers see them; the job makes epochs as
            long as that allows. None: ``trigger`` decides.
        quarantine: folder for records that cannot be decoded; None: the first one stops the job.
        max_bad_records: most bad records of a run; None: no limit.
        write_parallelism: tasks that write; None: Spark's default.
        driver_messages: messages of an epoch that the driver itself writes; 0: it writes none.
        compaction_policy: whether compactions of the job choose their rules.
        compaction_freshness: sorted runs that they may leave a reader to merge.
        compaction_cores: compactions that run at a time; None: half of Spark's cores.
        metrics_port, metrics_address: where Prometheus asks; no port: there is no endpoint.
        max_staleness: milliseconds that a table may be behind for the job to be ready.
        web_port, web_host: port and address of the page in a browser; no port: there is none.
        web_names: hosts to which the page answers, beside ``localhost``, addresses and the
            machine's own.
        webhook_url, webhook_secret: where notices go, and what signs them; None: nowhere, nothing.
        otlp_endpoint: takes traces by OTLP; ``environment``: as its variables say; None: it is off.
        openlineage_url: address of a lineage service; ``environment``: as the client's own
            settings say.
        openlineage_namespace: the namespace in which that service keeps the job.
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
        """Whether the job ends when the messages that were there at its start are in the table."""
        return self.trigger == "availableNow"

    @property
    def pause_s(self) -> float:
        """Most seconds between two looks at the source, if epochs take no longer."""
        if self.is_available_now:
            return 0.0
        return (self.freshness or parse_duration_ms(self.trigger)) / 1000


def with_limit(given: dict[str, Any]) -> dict[str, Any]:
    """The same section; without a quarantine the limit is 0, because a bad record would be lost."""
    return given if "quarantine" in given else {"max_bad_records": 0} | given
