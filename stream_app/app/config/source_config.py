"""Section ``[source]`` of the configuration, with its fields and their keys.

`app_config` reads it, and also checks combinations of keys.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.app.config import values
from stream_app.app.config.source_clusters import (
    Cluster,
    ClusterSetting,
    cluster_setting,
    further_clusters,
)
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.message_format_registry import DEFAULT_FORMAT, FORMATS
from stream_app.model.source.topic_name import in_cluster


class SourceKind(enum.Enum):
    """The kind of the source of messages."""

    KAFKA = "kafka"
    FILES = "files"


class TopicReader(enum.Enum):
    """The reader of topics: librdkafka, or Spark's Kafka source."""

    NATIVE = "native"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """Section ``[source]``.

    Attributes:
        topics: the topics' names; empty if the regular expression `topic_pattern` chooses them.
        format_options: options of the message format, such as ``decimal.handling.mode``.
        starting_offsets: ``earliest``, ``latest`` or Spark's JSON; used only with a new checkpoint.
        starting_timestamp: instead, the time from which messages are read, in ms since 1970.
        starting_offsets_by_timestamp: instead, these times for each topic or partition.
        group_id: the consumer group at whose offsets a new job begins, and whose offsets the job
            commits.
        snapshot_from: URL of the database whose rows a new job loads first, or None to read only
            topics.
        snapshot_password: the password of the URL's user, or None to use the driver's variable.
        snapshot_table: the table in that database, or None if it has the name of the job's table.
        snapshot_rows: the maximum number of rows that one task reads of a table.
        max_offsets_per_trigger: the maximum number of records of an epoch, or None for all
            available ones.
        min_partitions: the minimum number of reading tasks, or None for the number of cores.
        reader: the reader to use, or None for the native one if it is able to.
        kafka_options: options of Kafka's Java client, without the prefix ``kafka.``.
        clusters: settings of further clusters, such as ``NAME.bootstrap-servers``.
        merge_shards: whether the table stores records of several source tables.
        path: the folder of ``*.jsonl``, for `SourceKind.FILES`.
        lowers_names: whether columns have the source's names converted to lower case, according to
            ``sync.case-sensitive``.
    """

    kind: SourceKind = values.key(values.member(SourceKind), SourceKind.KAFKA)
    bootstrap_servers: str = values.key(values.text, "")
    topics: tuple[str, ...] = values.key(values.some_names, ())
    topic_pattern: str | None = values.key(values.regular_expression, None)
    format: str = values.key(values.one_of(*FORMATS), DEFAULT_FORMAT)
    format_options: Mapping[str, str] = values.key_family(
        *dict.fromkeys(f"{declaration.section}." for declaration in FORMATS.values())
    )
    starting_offsets: str = values.key(values.offsets, "earliest")
    starting_timestamp: int | None = values.key(values.timestamp, None)
    starting_offsets_by_timestamp: values.TopicTimes | None = values.key(values.topic_times, None)
    group_id: str | None = values.key(values.text, None)
    snapshot_from: str | None = values.key(values.database_address, None)
    snapshot_password: str | None = values.key(values.text, None, is_secret=True)
    snapshot_table: str | None = values.key(values.text, None)
    snapshot_rows: int = values.key(values.integer(1), 250_000)
    max_offsets_per_trigger: int | None = values.key(values.integer(1), None)
    min_partitions: int | None = values.key(values.integer(1), None)
    fail_on_data_loss: bool = values.key(values.boolean, True)
    reader: TopicReader | None = values.key(values.member(TopicReader), None)
    kafka_options: Mapping[str, str] = values.key_family("kafka.", is_secret=True)
    clusters: Mapping[str, ClusterSetting] = values.key_family(
        "clusters.", read=cluster_setting, is_secret=True
    )
    merge_shards: bool = values.key(values.boolean, False)
    path: str | None = values.key(values.text, None)
    max_files_per_trigger: int | None = values.key(values.integer(1), None)
    lowers_names: bool = False

    def column_of(self, name: str) -> str:
        """Return the table's column for a column of the source."""
        aliases = parse_aliases(self.format_options.get(COLUMN_ALIASES, ""))
        cased = name.lower() if self.lowers_names else name
        return aliases.get(cased, cased)

    @property
    def kafka_clusters(self) -> list[Cluster]:
        """The clusters with the job's topics, of which the first has an empty name."""
        first = Cluster(
            bootstrap_servers=self.bootstrap_servers,
            topics=self.topics,
            topic_pattern=self.topic_pattern,
            kafka_options=self.kafka_options,
        )
        return [first, *further_clusters(self.clusters, first)]

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The job's names of its topics; empty if a pattern chooses topics."""
        clusters = self.kafka_clusters
        if any(cluster.topic_pattern is not None for cluster in clusters):
            return ()
        return tuple(
            in_cluster(cluster.name, topic) for cluster in clusters for topic in cluster.topics
        )

    @property
    def begins_at_oldest(self) -> bool:
        """Whether a new job reads its topics from the oldest messages."""
        begins_elsewhere = self.begins_at_times or self.group_id or self.snapshot_from
        return self.starting_offsets == "earliest" and not begins_elsewhere

    @property
    def begins_at_times(self) -> bool:
        """Whether a new job begins at a time of messages."""
        return self.starting_timestamp is not None or self.starting_offsets_by_timestamp is not None

    @property
    def begins_at_group(self) -> bool:
        """Whether a new job begins at the offsets of a consumer group."""
        return (
            self.group_id is not None
            and not self.begins_at_times
            and self.starting_offsets in ("earliest", "latest")
        )
