"""Section ``[stream]`` of the configuration, with its fields and their keys.

`app_config` reads it, and also checks combinations of keys.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from stream_app.app.config import values
from stream_app.app.config.config_keys import config_key
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.model.options.option import parse_duration_ms
from stream_app.planning.sync.table_share import TableShare

ENVIRONMENT_ADDRESS = "environment"
"""The value of an address that the client library takes from its own variables."""


class NonInsertRecords(enum.Enum):
    """The reaction to a change that needs a primary key, on a table without one."""

    ERROR = "error"
    QUARANTINE = "quarantine"


class RepeatedRecords(enum.Enum):
    """The treatment of records that a job with another checkpoint has already stored."""

    REFUSE = "refuse"
    STORE = "store"


class CompactionPolicy(enum.Enum):
    """The table's options or the job itself, which decides when a bucket is compacted."""

    OPTIONS = "options"
    AUTO = "auto"


class LogFormat(enum.Enum):
    """The format of the job's log."""

    TEXT = "text"
    JSON = "json"


def share_text(setting: Setting) -> str:
    """Convert a share of a database's tables, such as ``3/8``."""
    text = values.text(setting)
    if TableShare.parse(text) is None:
        raise WrongValueError(
            f"{text[:20]!r} is not a share: give 1/1 to 9999/9999, such as '3/8' for the third of "
            "eight jobs"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Section ``[stream]``: the job's checkpoint, its epochs, and the channels that report it."""

    checkpoint: str = config_key(
        values.folder,
        "",
        meaning="The folder with the job's progress in source and table, of this job alone, "
        "on any file system that Spark reaches "
        "([stores](setup/stores.md#checkpoint-and-quarantine)).",
        required="always",
    )
    share: str | None = config_key(
        share_text,
        None,
        meaning="The job's share of a database's tables, such as `3/8` for the third of "
        "eight jobs that share them ([databases](setup/databases.md#several-jobs)).",
    )
    trigger: str = config_key(
        values.trigger,
        "5 seconds",
        meaning="`availableNow`, or the time between the starts of two epochs.",
    )
    freshness: int | None = config_key(
        values.milliseconds,
        None,
        meaning="The maximum age of rows when readers see them, in place of `trigger` "
        "([epochs](reference/scaling.md#freshness)).",
    )
    quarantine: str | None = config_key(
        values.folder,
        None,
        meaning="The folder for bad records, on any file system that Spark reaches; absent: "
        "the first bad record stops the job.",
    )
    max_bad_records: int | None = config_key(
        values.integer(0),
        None,
        meaning="The number of bad records in one run beyond which the job stops; absent: no "
        "limit.",
    )
    non_insert_records: NonInsertRecords = config_key(
        values.member_of(NonInsertRecords),
        NonInsertRecords.ERROR,
        meaning="Effect of an update or a delete on a table without a primary key: `error` "
        "stops the job, `quarantine` treats it as a bad record.",
    )
    repeated_records: RepeatedRecords = config_key(
        values.member_of(RepeatedRecords),
        RepeatedRecords.REFUSE,
        meaning="`refuse`: a job with a new checkpoint does not begin where it would read "
        "records that the table has already, and that would count twice: without a primary "
        "key, and with functions such as `sum`. `store`: it stores them again.",
    )
    write_parallelism: int | None = config_key(
        values.integer(1),
        None,
        meaning="The number of tasks that write; absent: Spark's default parallelism.",
    )
    driver_messages: int = config_key(
        values.integer(0),
        5000,
        meaning="The maximum number of messages of an epoch that the driver itself writes, "
        "without a job of Spark; for a whole database a tenth of it. With 0, tasks of Spark "
        "write every epoch ([small epochs](performance/whole-jobs.md#small-epochs)).",
    )
    compaction_policy: CompactionPolicy = config_key(
        values.member_of(CompactionPolicy),
        CompactionPolicy.OPTIONS,
        meaning="`options`: the table's options decide when a bucket is compacted. `auto`: "
        "the job chooses by the bucket's size and flushes "
        "([rules](reference/scaling.md#rules-that-fit-a-buckets-size)).",
    )
    compaction_freshness: int = config_key(
        values.integer(5, 1000),
        20,
        meaning="The number of sorted runs beyond which a bucket's writes wait, with `auto`.",
    )
    compaction_cores: int | None = config_key(
        values.integer(1),
        None,
        meaning="The number of compactions at a time; absent: half of Spark's cores. "
        "`compaction.max-parallelism` wins ([cores](reference/scaling.md#cores-of-compactions)).",
    )
    metrics_port: int | None = config_key(
        values.integer(1, 65535),
        None,
        meaning="The port of `http://…/metrics`, for Prometheus; absent: no metrics.",
    )
    metrics_address: str = config_key(
        values.text,
        "0.0.0.0",
        meaning="The address at which the metrics port listens; `0.0.0.0` is all of IPv4, "
        "and `::` all of both versions.",
    )
    max_staleness: int = config_key(
        values.milliseconds,
        300_000,
        meaning="How far a table may be behind its source for `/readyz` to answer 200.",
    )
    web_port: int | None = config_key(
        values.integer(1, 65535),
        None,
        meaning="The port of the job's page in a browser; absent: no page.",
    )
    web_host: str = config_key(
        values.text,
        "127.0.0.1",
        meaning="The address at which the page is served. Another address than this "
        "machine's own lets the network read the tables ([in a browser](operate/web.md#security)).",
    )
    web_names: tuple[str, ...] = config_key(
        values.host_names,
        (),
        meaning="Names that browsers call the page by, beside `localhost`, addresses and the "
        "machine's own name; `*`: any ([in a browser](operate/web.md#security)).",
    )
    log_format: LogFormat = config_key(
        values.member_of(LogFormat),
        LogFormat.TEXT,
        meaning="`text`, or `json`: one object a line ([the log](operate/operating.md#the-log)).",
    )
    webhook_url: str | None = config_key(
        values.web_address(),
        None,
        is_secret=True,
        meaning="The address that gets a notice when the job stops, holds a table back or "
        "quarantines records ([notices](operate/monitoring.md#notices)). It is a secret.",
    )
    webhook_secret: str | None = config_key(
        values.text, None, is_secret=True, meaning="The secret that signs notices."
    )
    otlp_endpoint: str | None = config_key(
        values.web_address(ENVIRONMENT_ADDRESS),
        None,
        meaning="The address of an OpenTelemetry collector for traces of epochs, such as "
        "`http://collector:4318`. `environment`: OpenTelemetry's variables name it; absent: "
        "the job sends none ([OpenTelemetry](operate/monitoring.md#opentelemetry)).",
    )
    openlineage_url: str | None = config_key(
        values.web_address(ENVIRONMENT_ADDRESS),
        None,
        meaning="The address of a lineage service, such as `http://marquez:5000`. "
        "`environment`: the client's own variables and file name it; absent: the job sends "
        "nothing ([lineage](operate/monitoring.md#lineage)).",
    )
    openlineage_namespace: str = config_key(
        values.text,
        "stream_app",
        meaning="The namespace in which the lineage service keeps the job.",
    )

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
