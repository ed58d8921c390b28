"""The checks before a start translate Java's security settings, and ask servers that answer."""

from __future__ import annotations

import socket

import pytest

from stream_app.app.source.bootstrap_servers import reachable_servers
from stream_app.app.source.broker_connection import (
    TopicInfo,
    client_settings,
    uncheckable_settings,
)
from stream_app.app.source.topic_checks import recreated_topics
from stream_app.errors import SourceError

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="a\\"b;c";'
)


def test_settings_of_sasl_over_ssl_are_translated() -> None:
    options = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": JAAS,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
        "fetch.max.wait.ms": "10",
    }
    assert uncheckable_settings(options) == []
    assert client_settings(options) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a"b;c',
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(
            {"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"},
            "into a PEM file",
            id="java-key-store",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.truststore.certificates": "x"},
            "from PEM files only",
            id="inline",
        ),
        pytest.param({"security.protocol": "SASL_SSL"}, "GSSAPI", id="kerberos-is-the-default"),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: is missing",
            id="no-user",
        ),
    ],
)
def test_settings_that_cannot_be_checked_are_reported(options: dict[str, str], reason: str) -> None:
    assert reason in "; ".join(uncheckable_settings(options))


def test_plain_needs_nothing() -> None:
    assert uncheckable_settings({}) == []
    assert client_settings({"isolation.level": "read_committed"}) == {}


def test_a_topic_without_a_known_id_is_not_called_recreated() -> None:
    now = {
        "a": TopicInfo(topic_id="1", partition_count=1),
        "b": TopicInfo(topic_id=None, partition_count=1),
    }
    assert recreated_topics({"b": "2"}, now) == []
    assert recreated_topics({"a": None, "b": None}, now) == []
    assert recreated_topics({"a": "0"}, now) == ["a"]


def test_a_server_that_refuses_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = f"127.0.0.1:{server.getsockname()[1]}"
        bootstrap = f"127.0.0.1:1,{listening},127.0.0.1:2"
        assert reachable_servers(bootstrap, 60) == [listening, "127.0.0.1:2"]
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1: connection refused"):
        reachable_servers(bootstrap, 60)
