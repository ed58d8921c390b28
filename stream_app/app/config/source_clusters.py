"""The Kafka clusters of a job: that of ``[source]``, and those of ``[source.clusters.NAME]``.

`app_config` reads them, and `app.source` connects to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.app.config import values
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.model.near_names import unknown_name

_CLIENT = "kafka."
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CLUSTER_KEYS: Mapping[str, Callable[[Setting], str | tuple[str, ...]]] = {
    "bootstrap-servers": values.text,
    "topics": values.some_names,
    "topic-pattern": values.regular_expression,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster, with the topics that the job reads there.

    Attributes:
        name: the cluster's name; empty for the cluster of ``[source]`` itself.
        topics: the topics' names; empty if `topic_pattern` chooses them.
        kafka_options: options of Kafka's Java client, without the prefix ``kafka.``.
    """

    name: str = ""
    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def section(self) -> str:
        """The cluster's section of the configuration."""
        return f"source.clusters.{self.name}" if self.name else "source"


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """One setting under ``source.clusters.NAME.``."""

    value: str | tuple[str, ...] = field(repr=False)


def cluster_setting(setting: Setting, key: str) -> ClusterSetting:
    """Convert a value of a key under ``source.clusters.``.

    Raises:
        WrongValueError: the key is unknown, or its value is invalid.
    """
    name, dot, rest = key.partition(".")
    if not dot:
        raise WrongValueError("must be a table, such as [source.clusters.eu]")
    if not _NAME.fullmatch(name):
        raise WrongValueError(f"{name!r} must be letters, digits, hyphens and underscores")
    if rest.startswith(_CLIENT):
        return ClusterSetting(values.free_text(setting))
    if (converter := _CLUSTER_KEYS.get(rest)) is None:
        raise WrongValueError(unknown_name("key", rest, [*_CLUSTER_KEYS, f"{_CLIENT}…"]))
    return ClusterSetting(converter(setting))


def further_clusters(
    settings: Mapping[str, ClusterSetting], source_cluster: Cluster
) -> list[Cluster]:
    """Return the clusters that settings under ``source.clusters.`` describe.

    Args:
        settings: ``NAME.KEY`` → its value.
        source_cluster: the cluster of ``[source]``, whose topics are the default of the others.
    """
    by_name: dict[str, dict[str, str | tuple[str, ...]]] = {}
    for key, setting in settings.items():
        name, _, rest = key.partition(".")
        by_name.setdefault(name, {})[rest] = setting.value
    return [
        _cluster(name, cluster_settings, source_cluster)
        for name, cluster_settings in sorted(by_name.items())
    ]


def _cluster(
    name: str, settings: Mapping[str, str | tuple[str, ...]], source_cluster: Cluster
) -> Cluster:
    """Return a further cluster, with the topics of ``[source]`` by default."""
    topics, pattern = settings.get("topics", ()), settings.get("topic-pattern")
    if not topics and pattern is None:
        topics, pattern = source_cluster.topics, source_cluster.topic_pattern
    return Cluster(
        name=name,
        bootstrap_servers=str(settings.get("bootstrap-servers", "")),
        topics=tuple(topics),
        topic_pattern=None if pattern is None else str(pattern),
        kafka_options={
            key.removeprefix(_CLIENT): str(value)
            for key, value in settings.items()
            if key.startswith(_CLIENT)
        },
    )


def cluster_problems(clusters: list[Cluster]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for the clusters other than that of ``[source]``."""
    for cluster in clusters:
        if not cluster.bootstrap_servers:
            yield (
                f"{cluster.section}.bootstrap-servers",
                "is missing: HOST:PORT of a broker of this cluster",
            )
        if cluster.topics and cluster.topic_pattern is not None:
            yield f"{cluster.section}.topics", "give either topics or topic-pattern, not both"


def client_problems(clusters: list[Cluster]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for options of Kafka's client."""
    for cluster in clusters:
        for key in sorted(values.SET_BY_SPARK.keys() & cluster.kafka_options.keys()):
            alternative = values.SET_BY_SPARK[key].replace(
                "source.bootstrap", f"{cluster.section}.bootstrap"
            )
            yield f"{cluster.section}.kafka.{key}", f"cannot be set: {alternative}"
