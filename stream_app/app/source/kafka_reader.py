"""Decides which reader reads the topics: the native one where it can, else Spark's.

`ingest_job` asks before there is a session, and `ingest`, which gives Spark's source its jars. All
else that reads messages (the look at the first ones, `init`, `doctor`, `check`, `backfill`,
replays) has no Spark, and reads natively.
"""

from __future__ import annotations

import logging

from stream_app.app.config.source_config import SourceConfig, SourceKind, TopicReader
from stream_app.errors import UsageError
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import LibraryMissingError, library
from stream_app.kafka.range_reader import ReaderSettings

_LOG = logging.getLogger("stream_app")


def native_reader(source: SourceConfig) -> ReaderSettings | None:
    """Settings of the native reader; None: Spark's source reads.

    Raises:
        UsageError: ``source.reader`` asks for the native reader, which cannot follow
            ``source.kafka``.
    """
    if source.kind is not SourceKind.KAFKA or source.reader is TopicReader.SPARK:
        return None
    options, problems = _judged(source)
    if not problems:
        _LOG.info("the native reader reads the topics (source.reader)")
        return ReaderSettings(
            client=tuple(sorted(options.items())), fails_on_loss=source.fail_on_data_loss
        )
    if source.reader is TopicReader.NATIVE:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"the native reader cannot read these topics:{lines}",
            where="source.reader = 'native'",
            fix="correct these, or leave source.reader out: then Spark's source reads",
        )
    _LOG.info("Spark's source reads the topics (source.reader): %s", "; ".join(problems))
    return None


def reader_without_spark(source: SourceConfig) -> ReaderSettings:
    """Settings of the native reader, for a process that has no Spark.

    Raises:
        UsageError: the native reader cannot follow ``source.kafka``.
    """
    options, problems = _judged(source)
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"only the job itself can read these topics, by Spark:{lines}",
            where="source.kafka",
            fix="correct these; a job with source.reader = 'spark' runs with them",
        )
    return ReaderSettings(
        client=tuple(sorted(options.items())), fails_on_loss=source.fail_on_data_loss
    )


def needs_sparks_source(source: SourceConfig) -> bool:
    """Whether Spark's Kafka source, whose jars PySpark lacks, reads the topics."""
    if source.kind is not SourceKind.KAFKA or source.reader is TopicReader.NATIVE:
        return False
    return source.reader is TopicReader.SPARK or bool(_judged(source)[1])


def _judged(source: SourceConfig) -> tuple[dict[str, str], list[str]]:
    """librdkafka's options, and the obstacles to the native reader."""
    try:
        librdkafka = library()
    except LibraryMissingError as error:
        return {}, [f"librdkafka of confluent-kafka cannot be used: {error}"]
    judged = client_options(source.bootstrap_servers, source.kafka_options, librdkafka.features)
    problems = [f"source.kafka.{key}: {what}" for key, what in judged.problems.items()]
    for key, why in judged.ignored.items():
        _LOG.debug("source.kafka.%s means nothing to the native reader: %s", key, why)
    if not problems:
        try:
            librdkafka.conf_destroy(librdkafka.configured(judged.options))
        except UsageError as error:
            problems.append(error.what)
    return dict(judged.options), problems
