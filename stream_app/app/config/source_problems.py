"""Checks ``[source]`` before a message is read, and reports each problem with its key.

`app_config` calls it, and reports these problems with those of other sections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_clusters import client_problems, cluster_problems
from stream_app.app.config.source_config import SourceConfig, SourceKind, TopicReader
from stream_app.cdc.json_records.json_options import TRUNCATE_KEY, OnTruncate
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.cdc.schema_registry_port import HEADERS
from stream_app.message_format_registry import FORMATS

_SOURCE = "source."
_CLUSTERS = "source.clusters"
_LOAD = "source.snapshot-from"
_STARTS = (
    "source.starting-offsets",
    "source.starting-timestamp",
    "source.starting-offsets-by-timestamp",
)
"""Keys that set where a new job begins, of which at most one may be given."""


def source_section_problems(
    job_tables: JobTables, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for the section, in combination with the other sections.

    Args:
        given_keys: the keys of the whole configuration.
    """
    source_config = job_tables.source
    for key in [key for key in _STARTS if key in given_keys][1:]:
        yield key, f"give only one of {', '.join(_STARTS)}"
    if source_config.kind is SourceKind.FILES and "source.path" not in given_keys:
        yield "source.path", "is missing: the folder of *.jsonl files"
    if source_config.kind is SourceKind.KAFKA:
        if "source.bootstrap-servers" not in given_keys:
            yield "source.bootstrap-servers", "is missing: HOST:PORT of a Kafka broker"
        topic_keys = {"source.topics", "source.topic-pattern"} & set(given_keys)
        if len(topic_keys) != 1:
            not_both = ", not both" if topic_keys else ""
            yield "source.topics", f"give either topics or topic-pattern{not_both}"
    yield from _first_load_problems(source_config, given_keys)
    yield from _cluster_problems(job_tables, given_keys)
    yield from client_problems(source_config.kafka_clusters)
    applies_truncate = source_config.format_options.get(TRUNCATE_KEY) == OnTruncate.APPLY.value
    if source_config.merge_shards and applies_truncate:
        key = FORMATS[source_config.format].full_key(TRUNCATE_KEY)
        yield key, "'apply' deletes the rows of all shards: it needs merge-shards = false"
    yield from _format_problems(source_config, given_keys)
    if source_config.reader is TopicReader.SPARK and HEADERS in source_config.format_options:
        yield "source.reader", f"must be 'native': Spark's source reads no headers ({HEADERS})"
    yield from job_tables.format_problems()


def _cluster_problems(
    job_tables: JobTables, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for further clusters, in combination with other settings."""
    source_config = job_tables.source
    if not source_config.clusters:
        return
    if source_config.kind is not SourceKind.KAFKA:
        yield _CLUSTERS, "are for Kafka topics"
    if source_config.reader is TopicReader.SPARK:
        yield "source.reader", "must be 'native': Spark's source reads one cluster"
    if source_config.snapshot_from is not None:
        yield _LOAD, "reads one database, whose topics are in one cluster: give it a job of its own"
    if job_tables.keeps_transactions:
        yield "sync.transactions", "'whole' follows the transactions of one cluster's topics"
    if "merge-shards" in job_tables.replaced_keys and "sync.merge-shards" not in given_keys:
        yield (
            "sync.merge-shards",
            "must be given beside source.clusters: true joins tables of one name of all clusters, "
            "false names those of a further cluster CLUSTER_DATABASE_TABLE",
        )
    elif not job_tables.joins_sources:
        yield (
            "source.merge-shards",
            "must be true beside source.clusters: the table takes the rows of all clusters, and "
            "its primary key must distinguish them",
        )
    yield from cluster_problems(source_config.kafka_clusters[1:])


def _differs_from_default(source_config: SourceConfig, key: str) -> bool:
    """Return whether a key's value differs from its default.

    Printed configurations also contain defaults.
    """
    name = key.removeprefix("source.").replace("-", "_")
    return bool(getattr(source_config, name) != getattr(SourceConfig(), name))


def _first_load_problems(
    source_config: SourceConfig, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for a first load from a database."""
    if source_config.snapshot_from is None:
        for key in sorted(given_keys):
            if key.startswith("source.snapshot-") and _differs_from_default(source_config, key):
                yield key, "needs source.snapshot-from, the URL of the database"
        return
    if source_config.kind is not SourceKind.KAFKA:
        yield _LOAD, "is for topics, which bring the changes after the load"
    if source_config.reader is TopicReader.SPARK:
        yield _LOAD, "needs source.reader = native"
    for key in _STARTS:
        if key in given_keys:
            reason = "the job reads the topics from the ends that they had before the load"
            yield key, f"has no effect beside {_LOAD}: {reason}"


def _format_problems(
    source_config: SourceConfig, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    declaration = FORMATS[source_config.format]
    yield from _foreign_option_problems(declaration, given_keys)
    for option in declaration.options:
        if option.example and option.key not in source_config.format_options:
            yield declaration.full_key(option.key), f"is missing: such as {option.example!r}"


def _foreign_option_problems(
    declaration: FormatDeclaration, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for options that belong to a format other than the chosen one."""
    names: dict[str, list[str]] = {}
    for other in FORMATS.values():
        names.setdefault(other.section, []).append(other.name)
    del names[declaration.section]
    for key in sorted(given_keys):
        section, _, rest = key.removeprefix(_SOURCE).partition(".")
        if rest and key.startswith(_SOURCE) and section in names:
            yield (
                key,
                f"is of source.format = {' or '.join(names[section])}, not {declaration.name}",
            )
