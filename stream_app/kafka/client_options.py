"""Translates Java's options of Kafka's consumer to librdkafka's, and rejects those without a match.

The driver calls it before it reads anything. `source.kafka.*` has Java's names for both readers, so
a configuration does not depend on the reader. A few of librdkafka's names are accepted, too. The
module is pure. `security_options` translates the options of logins and certificates.

Source: Kafka `ConsumerConfig.java`, `CommonClientConfigs.java`; librdkafka `CONFIGURATION.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from stream_app.kafka.security_options import SECURITY_KEYS, security_options
from stream_app.model.near_names import did_you_mean

EQUAL_OPTIONS = (
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "isolation.level",
    "max.partition.fetch.bytes",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
"""Options with the same name, meaning and unit."""

RENAMED_OPTIONS: Mapping[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

VALUE_BOUNDS: Mapping[str, tuple[int, int]] = {
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1000, 2**31 - 1),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "topic.metadata.refresh.interval.ms": (10, 3_600_000),
    "fetch.wait.max.ms": (0, 300_000),
}
"""librdkafka's least and greatest values. Java's clients accept more, and -1 for the default."""

_NO_GROUP = "the reader joins no group"
_BATCHES = "the reader chooses the size of its batches by their bytes"
_JVM_METRICS = "metrics of Java's client"
_OPENSSL = "OpenSSL, not the JVM, secures the connections"
_LOGIN_TIMES = "librdkafka has its own times for logins"
_BROKER_SIDE = "brokers check tokens, not clients"

IGNORED_OPTIONS: Mapping[str, str] = {
    "allow.auto.create.topics": "the reader never makes a topic",
    "auto.commit.interval.ms": _NO_GROUP,
    "auto.include.jmx.reporter": _JVM_METRICS,
    "default.api.timeout.ms": "a range that makes no progress fails after 120 s",
    "exclude.internal.topics": "ranges name their topics",
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "max.poll.records": _BATCHES,
    "metric.reporters": _JVM_METRICS,
    "metrics.num.samples": _JVM_METRICS,
    "metrics.recording.level": _JVM_METRICS,
    "metrics.sample.window.ms": _JVM_METRICS,
    "partition.assignment.strategy": _NO_GROUP,
    "sasl.kerberos.kinit.cmd": "librdkafka runs kinit in its own way",
    "sasl.kerberos.ticket.renew.jitter": _LOGIN_TIMES,
    "sasl.kerberos.ticket.renew.window.factor": _LOGIN_TIMES,
    "sasl.login.connect.timeout.ms": _LOGIN_TIMES,
    "sasl.login.read.timeout.ms": _LOGIN_TIMES,
    "sasl.login.refresh.buffer.seconds": _LOGIN_TIMES,
    "sasl.login.refresh.min.period.seconds": _LOGIN_TIMES,
    "sasl.login.refresh.window.factor": _LOGIN_TIMES,
    "sasl.login.refresh.window.jitter": _LOGIN_TIMES,
    "sasl.login.retry.backoff.max.ms": _LOGIN_TIMES,
    "sasl.login.retry.backoff.ms": _LOGIN_TIMES,
    "sasl.oauthbearer.clock.skew.seconds": _BROKER_SIDE,
    "sasl.oauthbearer.expected.audience": _BROKER_SIDE,
    "sasl.oauthbearer.expected.issuer": _BROKER_SIDE,
    "sasl.oauthbearer.header.urlencode": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.url": _BROKER_SIDE,
    "sasl.oauthbearer.scope.claim.name": _BROKER_SIDE,
    "session.timeout.ms": _NO_GROUP,
    "socket.connection.setup.timeout.max.ms": "librdkafka has one time for all attempts",
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.protocol": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.truststore.password": "a PEM file of certificates has none",
}
"""Options without a meaning for ranges of offsets, and why."""

_JAVA_CODE = "it names a Java class"

REFUSED_OPTIONS: Mapping[str, str] = {
    "config.providers": "values are read as they are",
    "sasl.client.callback.handler.class": _JAVA_CODE,
    "sasl.login.class": _JAVA_CODE,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CODE,
    "security.providers": _JAVA_CODE,
    "ssl.cipher.suites": "Java's names of cipher suites are not OpenSSL's",
    "ssl.engine.factory.class": _JAVA_CODE,
    "ssl.provider": _JAVA_CODE,
}
"""Options without a counterpart, although the connection depends on them."""

NATIVE_OPTIONS = (
    "broker.address.family",
    "fetch.queue.backoff.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "socket.keepalive.enable",
    "ssl.ca.location",
    "topic.metadata.propagation.max.ms",
)
"""Options of librdkafka alone; Java's client warns that they are unknown, and continues."""


DEFAULT_OPTIONS: Mapping[str, str] = {
    # A range defines its start; the reader handles missing offsets.
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
    # Delay before the client uses free space in the queue; the default is a second.
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
        options: the options of librdkafka.
        ignored_reasons: Java's names without a meaning here → why.
        problems: Java's names that cannot be translated → why, and what would work. When empty, the
            native reader can replace Java's.
    """

    options: Mapping[str, str] = field(repr=False)
    ignored_reasons: Mapping[str, str]
    problems: Mapping[str, str]


def client_options(
    bootstrap_servers: str, java_options: Mapping[str, str], features: Collection[str]
) -> ClientOptions:
    """Translate `java_options`, options of Kafka's Java consumer without the prefix ``kafka.``.

    Args:
        features: the features of this build of librdkafka.
    """
    security = security_options(java_options)
    problems = dict(security.problems)
    needed_feature = _FEATURES.get(security.options.get("sasl.mechanism", ""))
    if needed_feature is not None and needed_feature not in features:
        problems["sasl.mechanism"] = (
            f"{security.options['sasl.mechanism']} needs a confluent-kafka that was built with it "
            "(pip install --no-binary confluent-kafka, with librdkafka and libsasl2)"
        )
    options = dict(DEFAULT_OPTIONS)
    ignored_reasons = {}
    for key, value in java_options.items():
        if key in SECURITY_KEYS:
            continue
        if key in EQUAL_OPTIONS or key in RENAMED_OPTIONS or key in NATIVE_OPTIONS:
            name = RENAMED_OPTIONS.get(key, key)
            options[name] = _within_bounds(name, value)
        elif key in IGNORED_OPTIONS:
            ignored_reasons[key] = IGNORED_OPTIONS[key]
        else:
            problems[key] = REFUSED_OPTIONS.get(key) or _unknown_problem(key)
    options |= security.options
    options["bootstrap.servers"] = bootstrap_servers
    return ClientOptions(options=options, ignored_reasons=ignored_reasons, problems=problems)


def _within_bounds(name: str, value: str) -> str:
    """Return the nearest value that librdkafka accepts; a text that is not a number stays."""
    if name not in VALUE_BOUNDS or not value.strip().lstrip("-").isdigit():
        return value
    lowest, highest = VALUE_BOUNDS[name]
    return str(min(max(int(value), lowest), highest))


def _unknown_problem(key: str) -> str:
    keys = [
        *EQUAL_OPTIONS,
        *RENAMED_OPTIONS,
        *NATIVE_OPTIONS,
        *IGNORED_OPTIONS,
        *REFUSED_OPTIONS,
        *SECURITY_KEYS,
    ]
    return f"is unknown{did_you_mean(key, keys)}"
