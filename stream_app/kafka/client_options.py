"""Java's options of Kafka's consumer → librdkafka's: which fit, mean nothing, or cannot be.

Called on the driver, before anything is read. `source.kafka.*` has Java's names for both readers,
so that a configuration does not depend on the reader. A few of librdkafka's own names pass.
Pure: the facts are in `java_options` and `security_options`.
"""

from __future__ import annotations

import difflib
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

READING_OPTIONS: Mapping[str, str] = {
    # A range tells where to begin; what is not there is for the reader to judge.
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    # The end of a partition shows where no message tells that a range is over.
    "enable.partition.eof": "true",
    "log_level": "0",  # what goes wrong comes as events
    # As Java's clients do.
    "check.crcs": "true",
    # A fetch that waits holds up the next one of this broker.
    "fetch.wait.max.ms": "10",
    "isolation.level": "read_committed",
    # Of each partition, what is fetched ahead: as much as a batch or two, because what a range does
    # not need is fetched for nothing. Bytes bound it, not messages.
    "queued.max.messages.kbytes": "8192",
    "queued.min.messages": "1000000",
    # How soon room in the queue is used; a second without this.
    "fetch.queue.backoff.ms": "10",
    "max.partition.fetch.bytes": str(4 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.message.max.bytes": str(2**31 - 1),
    "topic.metadata.propagation.max.ms": "10000",
}
"""Of librdkafka, unless the configuration says otherwise."""

_NEAR = 0.8
_FEATURES = {"GSSAPI": "sasl_gssapi", "OAUTHBEARER": "sasl_oauthbearer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What becomes of a configuration.

    Attributes:
        options: of librdkafka.
        ignored: Java's names that mean nothing here → why.
        problems: Java's names that cannot be translated → why, and what would work. Empty: the
            native reader can read as Java's would.
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
    """The nearest value that librdkafka takes; it judges itself what is no number."""
    if name not in ALLOWED or not value.strip().lstrip("-").isdigit():
        return value
    least, most = ALLOWED[name]
    return str(min(max(int(value), least), most))


def _unknown(key: str) -> str:
    known = [*SAME, *RENAMED, *NATIVE_ONLY, *IGNORED, *REFUSED, *SECURITY_KEYS]
    near = difflib.get_close_matches(key, known, n=1, cutoff=_NEAR)
    return "is unknown" + (f"; did you mean {near[0]!r}?" if near else "")
