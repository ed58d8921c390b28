"""Decides whether the native reader or Spark's source reads the topics.

`start_checks` calls it before there is a session, and the verb `ingest` before it adds jars of
Spark's source. Everything else that reads messages (the first messages, `init`, `doctor`, `check`,
`backfill`, replays) runs without Spark and uses the native reader.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from stream_app.app.config.source_clusters import Cluster
from stream_app.app.config.source_config import SourceConfig, SourceKind, TopicReader
from stream_app.cdc.schema_registry_port import HEADERS
from stream_app.cdc.wire.registry_options import schema_headers
from stream_app.errors import UsageError
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import Library, LibraryMissingError, load_librdkafka
from stream_app.kafka.offset_client import OffsetClient, OffsetEnd
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.kafka.several_clusters import ClientSettings, JoinedOffsetClient
from stream_app.model.job_epoch import Offsets

_LOG = logging.getLogger(__name__)


def native_reader(source_config: SourceConfig) -> ReaderSettings | None:
    """Return the settings of the native reader, or None if Spark's source reads the topics.

    Raises:
        UsageError: the configuration demands the native reader, which cannot apply
            ``source.kafka``.
    """
    if source_config.kind is not SourceKind.KAFKA or source_config.reader is TopicReader.SPARK:
        return None
    settings, problems = _settings_and_problems(source_config)
    if not problems:
        _LOG.info("the native reader reads the topics (source.reader)")
        return settings
    if source_config.clusters or settings.headers:
        raise UsageError(
            f"the native reader cannot read these topics:{_problem_lines(problems)}",
            where="source.clusters" if source_config.clusters else f"source.…{HEADERS}",
            fix="correct these settings; Spark's source reads only one cluster, and no headers",
        )
    if source_config.reader is TopicReader.NATIVE:
        raise UsageError(
            f"the native reader cannot read these topics:{_problem_lines(problems)}",
            where="source.reader = 'native'",
            fix="correct these settings, or leave source.reader out to read by Spark's source",
        )
    _LOG.info("Spark's source reads the topics (source.reader): %s", "; ".join(problems))
    return None


def reader_without_spark(source_config: SourceConfig) -> ReaderSettings:
    """Return the settings of the native reader, for a process without Spark.

    Raises:
        UsageError: the native reader cannot apply ``source.kafka``.
    """
    settings, problems = _settings_and_problems(source_config)
    if problems:
        raise UsageError(
            f"only the job itself can read these topics, by Spark:{_problem_lines(problems)}",
            where="source.kafka",
            fix="correct these settings; a job with source.reader = 'spark' can run with them",
        )
    return settings


def needs_sparks_source(source_config: SourceConfig) -> bool:
    """Return whether Spark's Kafka source reads the topics. PySpark lacks its jars."""
    if source_config.kind is not SourceKind.KAFKA or source_config.reader is TopicReader.NATIVE:
        return False
    if source_config.clusters or schema_headers(source_config.format_options):
        return False
    return source_config.reader is TopicReader.SPARK or bool(
        _settings_and_problems(source_config)[1]
    )


def _problem_lines(problems: Sequence[str]) -> str:
    return "".join(f"\n  - {problem}" for problem in problems)


def _settings_and_problems(source_config: SourceConfig) -> tuple[ReaderSettings, list[str]]:
    """Return the settings of the native reader, and the reasons why it cannot be used."""
    clients: list[tuple[str, ClientSettings]] = []
    problems: list[str] = []
    try:
        librdkafka = load_librdkafka()
        for cluster in source_config.kafka_clusters:
            client, cluster_problems = _client_of(cluster, librdkafka)
            clients.append((cluster.name, client))
            problems += cluster_problems
    except LibraryMissingError as error:
        clients = [("", ())]
        problems = [f"librdkafka of confluent-kafka cannot be used: {error}"]
    (_, first_client), *other_clients = clients
    settings = ReaderSettings(
        client_settings=first_client,
        clusters=tuple(other_clients),
        headers=schema_headers(source_config.format_options),
        fails_on_loss=source_config.fail_on_data_loss,
    )
    return settings, problems


def _client_of(cluster: Cluster, librdkafka: Library) -> tuple[ClientSettings, list[str]]:
    """Return librdkafka's options for a cluster, and the reasons why they cannot be used."""
    client = client_options(cluster.bootstrap_servers, cluster.kafka_options, librdkafka.features)
    problems = [
        f"{cluster.section}.kafka.{key}: {reason}" for key, reason in client.problems.items()
    ]
    for key, reason in client.ignored_reasons.items():
        _LOG.debug(
            "%s.kafka.%s means nothing to the native reader: %s", cluster.section, key, reason
        )
    if not problems:
        try:
            librdkafka.conf_destroy(librdkafka.new_configuration(client.options))
        except UsageError as error:
            problems.append(error.problem)
    return tuple(sorted(client.options.items())), problems


def open_offset_client(
    source_config: SourceConfig, settings: ReaderSettings
) -> OffsetClient | JoinedOffsetClient:
    """Return a client for the beginning and end offsets of a source's topics, in all its clusters.

    Args:
        settings: the settings with which the messages are read.
    """
    client_settings = {"": settings.client_settings, **dict(settings.clusters)}
    clients = {
        cluster.name: OffsetClient(
            dict(client_settings[cluster.name]),
            topics=cluster.topics,
            pattern=cluster.topic_pattern,
        )
        for cluster in source_config.kafka_clusters
    }
    return JoinedOffsetClient(clients) if source_config.clusters else clients[""]


def end_offsets(source_config: SourceConfig, settings: ReaderSettings) -> Offsets:
    """Return topic → Kafka partition → end offset.

    Raises:
        SourceError: no broker of a cluster responds.
    """
    with closing(open_offset_client(source_config, settings)) as offset_client:
        return offset_client.offsets_at(OffsetEnd.NEWEST)
