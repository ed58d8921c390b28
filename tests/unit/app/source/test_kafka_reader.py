"""The native reader is the default; the configuration may choose another, which must support it."""

from __future__ import annotations

import logging

import pytest

from stream_app.app.config.source_config import SourceConfig, SourceKind, TopicReader
from stream_app.app.source.kafka_reader import native_reader
from stream_app.errors import UsageError


def source(reader: TopicReader | None = None, **options: str) -> SourceConfig:
    names = {key.replace("_", "."): value for key, value in options.items()}
    return SourceConfig(bootstrap_servers="b:9092", reader=reader, kafka_options=names)


@pytest.mark.parametrize("reader", [None, TopicReader.NATIVE])
def test_the_native_reader_is_the_default(reader: TopicReader | None) -> None:
    settings = native_reader(source(reader, client_rack="r1"))
    assert settings is not None
    assert dict(settings.client_settings)["client.rack"] == "r1"
    assert dict(settings.client_settings)["bootstrap.servers"] == "b:9092"
    assert settings.fails_on_loss


@pytest.mark.parametrize(
    "other",
    [source(TopicReader.SPARK), SourceConfig(kind=SourceKind.FILES, path="f")],
    ids=["spark", "files"],
)
def test_the_configuration_may_choose_another_reader(other: SourceConfig) -> None:
    assert native_reader(other) is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ssl_provider": "BC"}, "source.kafka.ssl.provider: it names a Java class"),
        ({"fetch_min_bytes": "many"}, "fetch.min.bytes"),
    ],
)
def test_topics_that_the_native_reader_cannot_follow_are_left_to_spark(
    options: dict[str, str], complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert native_reader(source(None, **options)) is None
    [line] = caplog.messages
    assert line.startswith("Spark's source reads the topics")
    assert complaint in line
    with pytest.raises(UsageError) as caught:
        native_reader(source(TopicReader.NATIVE, **options))
    assert complaint in caught.value.problem
