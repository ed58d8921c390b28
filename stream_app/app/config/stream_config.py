"""Section ``[stream]`` of the configuration: its fields, and what each key may be.

Read by `app_config`, which judges keys beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stream_app.app.config.values import (
    Setting,
    folder,
    host_names,
    integer,
    milliseconds,
    one_of,
    text,
    trigger,
    web_address,
)
from stream_app.model.options.option import parse_duration_ms

ENVIRONMENT = "environment"
"""The value of ``otlp-endpoint`` that leaves it to OpenTelemetry's variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """Section ``[stream]``.

    Attributes:
        trigger: ``availableNow``, or how long after an epoch's start the next one starts.
        quarantine: folder for records that cannot be decoded; None: the first one stops the job.
        max_bad_records: most bad records of a run; None: no limit.
        non_insert_records: ``error`` or ``quarantine``: changes that need a primary key.
        repeated_records: ``refuse`` or ``store``: records that the table has from a job with
            another checkpoint, where they would count twice.
        write_parallelism, decode_parallelism: tasks; None: Spark's default; one a reading task.
        metrics_port, metrics_address: of the endpoint for Prometheus; no port: there is none.
        max_staleness: milliseconds that a table may be behind for the job to be ready.
        web_port, web_host: port and address of the page in a browser; no port: there is none.
        web_names: to which it answers beside ``localhost``, addresses and the machine's own.
        log_format: of the job's log: ``text`` or ``json``.
        webhook_url, webhook_secret: where notices go, and what signs them; None: nowhere, nothing.
        otlp_endpoint: takes traces by OTLP; ``environment``: as its variables say; None: it is off.
    """

    checkpoint: str = ""
    trigger: str = "5 seconds"
    quarantine: str | None = None
    max_bad_records: int | None = None
    non_insert_records: str = "error"
    repeated_records: str = "refuse"
    write_parallelism: int | None = None
    decode_parallelism: int | None = None
    metrics_port: int | None = None
    metrics_address: str = "0.0.0.0"
    max_staleness: int = 300_000
    web_port: int | None = None
    web_host: str = "127.0.0.1"
    web_names: tuple[str, ...] = ()
    log_format: str = "text"
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
    otlp_endpoint: str | None = None

    @property
    def is_available_now(self) -> bool:
        """Whether the job ends when all that there was at its start is in the table."""
        return self.trigger == "availableNow"

    @property
    def trigger_ms(self) -> int:
        """Milliseconds between the starts of two epochs at least."""
        return 0 if self.is_available_now else parse_duration_ms(self.trigger)


STREAM_KEYS: Mapping[str, Callable[[Setting], object]] = {
    "checkpoint": folder,
    "trigger": trigger,
    "quarantine": folder,
    "max-bad-records": integer(0),
    "non-insert-records": one_of("error", "quarantine"),
    "repeated-records": one_of("refuse", "store"),
    "write-parallelism": integer(1),
    "decode-parallelism": integer(1),
    "metrics-port": integer(1, 65535),
    "metrics-address": text,
    "max-staleness": milliseconds,
    "web-port": integer(1, 65535),
    "web-host": text,
    "web-names": host_names,
    "log-format": one_of("text", "json"),
    "webhook-url": web_address(),
    "webhook-secret": text,
    "otlp-endpoint": web_address(ENVIRONMENT),
}


def with_limit(values: dict[str, Any]) -> dict[str, Any]:
    """Without a quarantine the limit is 0, because a bad record would be lost."""
    return values if "quarantine" in values else {"max_bad_records": 0} | values
