"""Translates Java's options of Kafka's consumer to librdkafka's, and rejects those without a match.

Called on the driver, before anything is read. `source.kafka.*` has Java's names for both readers,
so that a configuration does not depend on the reader. A few of librdkafka's own names pass. It is
pure: the facts are in `java_options` and `security_options`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from stream_app.kafka.java_options import (
    ALLOWED,
    IGNORED,
    NATIVE_ONLY,
    REFUSED,
    RENAMED,
    SAME,
)
from stream_app.kafka.security_options import SECURITY_KEYS, security_options
from stream_app.model.near_names import did_you_mean

READING_OPTIONS: Mapping[str, str] = {
    # A range defines its begin; the reader decides about missing offsets.
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    # The end of the partition marks the end of a range that no message follows.
    "enable.partition.eof": "true",
    "log_level": "0",  # errors arrive as events
    # As in Java's clients.
    "check.crcs": "true",
    # A waiting fetch delays the next one from the same broker.
    "fetch.wait.max.ms": "10",
    "isolation.level": "read_committed",
    # Prefetch of each partition: about one or two batches, because data beyond a range is fetched
    # in vain. The limit is in bytes, not in messages.
    "queued.max.messages.kbytes": "8192",
    "queued.min.messages": "1000000",
    # Delay before the client uses free room in the queue; the default is a second.
    "fetch.queue.backoff.ms": "10",
    "max.partition.fetch.bytes": str(4 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.message.max.bytes": str(2**31 - 1),
    "topic.metadata.propagation.max.ms": "10000",
}
"""Defaults of librdkafka's options here; the configuration overrides them."""

_FEATURES = {"GSSAPI": "sasl_gssapi", "OAUTHBEARER": "sasl_oauthbearer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """The translated configuration.

    Attributes:
        options: of librdkafka.
        ignored: Java's names without a meaning here → why.
        problems: Java's names that cannot be translated → why, and what would work. When empty, the
            native reader can replace Java's.
    """

    options: Mapping[str, str] = field(repr=False)
    ignored: Mapping[str, str]
    problems: Mapping[str, str]


def client_options(
    bootstrap_servers: str, java: Mapping[str, str], features: Collection[str]
) -> ClientOptions:
    """Translate `java`, options of Kafka's Java consumer without the prefix ``kafka.``.

    Args:
        features: of this build of librdkafka.
    """
    security = security_options(java)
    problems = dict(security.problems)
    needed = _FEATURES.get(security.options.get("sasl.mechanism", ""))
    if needed is not None and needed not in features:
        problems["sasl.mechanism"] = (
            f"{security.options['sasl.mechanism']} needs a confluent-kafka that was built with it "
            "(pip install --no-binary confluent-kafka, with librdkafka and libsasl2)"
        )
    options = dict(READING_OPTIONS)
    ignored = {}
    for key, value in java.items():
        if key in SECURITY_KEYS:
            continue
        if key in SAME or key in RENAMED or key in NATIVE_ONLY:
            name = RENAMED.get(key, key)
            options[name] = _within_bounds(name, value)
        elif key in IGNORED:
            ignored[key] = IGNORED[key]
        else:
            problems[key] = REFUSED.get(key) or _unknown(key)
    options |= security.options
    options["bootstrap.servers"] = bootstrap_servers
    return ClientOptions(options=options, ignored=ignored, problems=problems)


def _within_bounds(name: str, value: str) -> str:
    """The nearest value that librdkafka accepts; a text that is not a number stays."""
    if name not in ALLOWED or not value.strip().lstrip("-").isdigit():
        return value
    least, most = ALLOWED[name]
    return str(min(max(int(value), least), most))


def _unknown(key: str) -> str:
    known = [*SAME, *RENAMED, *NATIVE_ONLY, *IGNORED, *REFUSED, *SECURITY_KEYS]
    return f"is unknown{did_you_mean(key, known)}"
