"""What each option of Kafka's Java consumer is to the native reader: the one table of facts.

Used by `client_options`. Options of logins and certificates need more than a name; they stand in
`security_options`.

Source: Kafka `ConsumerConfig.java`, `CommonClientConfigs.java`; librdkafka `CONFIGURATION.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

SAME = (
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
"""Of the same name, meaning and unit."""

RENAMED: Mapping[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

ALLOWED: Mapping[str, tuple[int, int]] = {
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1000, 2**31 - 1),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "topic.metadata.refresh.interval.ms": (10, 3_600_000),
    "fetch.wait.max.ms": (0, 300_000),
}
"""What librdkafka takes, least and most. Java's clients take more, and -1: the system chooses."""

_NO_GROUP = "the reader joins no group"
_BATCHES = "the reader chooses the size of its batches by their bytes"
_JVM_METRICS = "metrics of Java's client"
_OPENSSL = "OpenSSL, not the JVM, secures the connections"
_LOGIN_TIMES = "librdkafka has its own times for logins"
_BROKER_SIDE = "brokers check tokens, not clients"

IGNORED: Mapping[str, str] = {
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
"""Without a meaning for reading ranges of offsets, and why."""

_JAVA_CODE = "it names a Java class"

REFUSED: Mapping[str, str] = {
    "config.providers": "values are read as they stand",
    "sasl.client.callback.handler.class": _JAVA_CODE,
    "sasl.login.class": _JAVA_CODE,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CODE,
    "security.providers": _JAVA_CODE,
    "ssl.cipher.suites": "Java's names of cipher suites are not OpenSSL's",
    "ssl.engine.factory.class": _JAVA_CODE,
    "ssl.provider": _JAVA_CODE,
}
"""Without a counterpart, although the connection depends on it."""

NATIVE_ONLY = (
    "broker.address.family",
    "fetch.queue.backoff.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "socket.keepalive.enable",
    "ssl.ca.location",
    "topic.metadata.propagation.max.ms",
)
"""Of librdkafka alone; Java's client says that it does not know them, and goes on."""
