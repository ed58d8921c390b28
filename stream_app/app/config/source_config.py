"""Section ``[source]`` of the configuration, with its fields and their keys.

`app_config` reads it, and also checks combinations of keys.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from stream_app.app.config import values
from stream_app.app.config.config_keys import config_key, config_key_family
from stream_app.app.config.source_clusters import (
    Cluster,
    ClusterSetting,
    cluster_setting,
    further_clusters,
)
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.cdc.message_format import FormatDeclaration, SourceExtractor
from stream_app.cdc.source_tables import origins_with_clusters
from stream_app.errors import UsageError
from stream_app.message_format_registry import DEFAULT_FORMAT, FORMATS, make_source_extractor
from stream_app.model.schema.data_type import RowType
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
    """Section ``[source]``: the topics or the database that the job reads, and their format.

    Attributes:
        lowers_names: whether columns have the source's names converted to lower case, according to
            ``sync.case-sensitive``.
    """

    kind: SourceKind = config_key(
        values.member_of(SourceKind),
        SourceKind.KAFKA,
        meaning="The kind of source: `kafka`, or `files`, a folder of `*.jsonl` with a "
        "message in each line.",
    )
    bootstrap_servers: str = config_key(
        values.text,
        "",
        meaning="The brokers, as `HOST:PORT`, comma separated.",
        required="with `kafka`",
    )
    topics: tuple[str, ...] = config_key(
        values.some_names,
        (),
        meaning="The topics that the job reads.",
        required="with `kafka`, or a pattern",
    )
    topic_pattern: str | None = config_key(
        values.regular_expression,
        None,
        meaning="A regular expression for whole names of topics, instead of `topics`.",
    )
    format: str = config_key(
        values.one_of(*FORMATS), DEFAULT_FORMAT, meaning="The format of the messages."
    )
    format_options: Mapping[str, str] = config_key_family(
        *dict.fromkeys(f"{declaration.section}." for declaration in FORMATS.values()),
        meaning="Options of the format, below.",
    )
    starting_offsets: str = config_key(
        values.offsets,
        "earliest",
        meaning="Where a job with a new checkpoint begins: `earliest`, `latest`, or JSON "
        'such as `{"orders": {"0": 23, "1": -2}}` (-2 earliest, -1 latest).',
    )
    starting_timestamp: int | None = config_key(
        values.timestamp,
        None,
        meaning="The time of the first messages, instead of offsets, as milliseconds since "
        "1970 or as `2026-11-27T08:00:00Z`. A partition without such a message begins at its "
        "end.",
    )
    starting_offsets_by_timestamp: values.TopicTimes | None = config_key(
        values.topic_times,
        None,
        meaning="The time of the first messages for each topic or partition, instead of "
        'offsets, as JSON such as `{"orders": 1764230400000}` or `{"orders": {"0": '
        "1764230400000}}`.",
    )
    group_id: str | None = config_key(
        values.text,
        None,
        meaning="A consumer group. A new job begins at its offsets, and where it has none at "
        "`starting-offsets`. The group gets the job's offsets, for tools that watch lag.",
    )
    snapshot_from: str | None = config_key(
        values.database_address,
        None,
        meaning="JDBC URL of a database whose rows the job reads [first](setup/first-load.md).",
    )
    snapshot_password: str | None = config_key(
        values.text,
        None,
        is_secret=True,
        meaning="The password of the database's user; absent: `PGPASSWORD` or `MYSQL_PWD`.",
    )
    snapshot_table: str | None = config_key(
        values.text,
        None,
        meaning="The table of the database for a job of one table, as `TABLE` or "
        "`SCHEMA.TABLE`; absent: the name of the job's table.",
    )
    snapshot_rows: int = config_key(
        values.integer(1),
        250_000,
        meaning="The maximum number of rows that a task reads at once.",
    )
    max_offsets_per_trigger: int | None = config_key(
        values.integer(1),
        None,
        meaning="The maximum number of records of an epoch; absent: all that exist when it begins.",
    )
    min_partitions: int | None = config_key(
        values.integer(1),
        None,
        meaning="The minimum number of tasks that read; absent: one for each core.",
    )
    fail_on_data_loss: bool = config_key(
        values.boolean,
        True,
        meaning="Whether the job stops when a topic has dropped unread records.",
    )
    reader: TopicReader | None = config_key(
        values.member_of(TopicReader),
        None,
        meaning="The client that reads topics: `native` (librdkafka) or `spark` (Spark's "
        "source); absent: `native` where it can read them.",
    )
    kafka_options: Mapping[str, str] = config_key_family(
        "kafka.",
        is_secret=True,
        meaning="Options of Kafka's Java consumer; the native reader translates them.",
    )
    clusters: Mapping[str, ClusterSetting] = config_key_family(
        "clusters.",
        convert=cluster_setting,
        is_secret=True,
        meaning="`NAME.KEY` is a key of a [further cluster](setup/stores.md#several-clusters).",
    )
    merge_shards: bool = config_key(
        values.boolean,
        False,
        meaning="`true`: several source tables are shards of this table, and their keys "
        "differ. Otherwise the job quarantines records of a second table, and many of them "
        "stop it.",
    )
    path: str | None = config_key(
        values.text,
        None,
        meaning="The folder of messages, with `files`.",
        required="with `files`",
    )
    max_files_per_trigger: int | None = config_key(
        values.integer(1),
        None,
        meaning="The maximum number of files of an epoch, with `files`; absent: all files.",
    )
    lowers_names: bool = False

    def column_of(self, name: str) -> str:
        """Return the table's column for a column of the source."""
        aliases = parse_aliases(self.format_options.get(COLUMN_ALIASES, ""))
        source_name = name.lower() if self.lowers_names else name
        return aliases.get(source_name, source_name)

    @property
    def format_declaration(self) -> FormatDeclaration:
        """The declaration of the messages' format."""
        return FORMATS[self.format]

    def format_problems(self, columns: RowType) -> Iterator[tuple[str, str]]:
        """Yield (key, problem) for options of the format that do not fit these columns."""
        if self.format_options:
            try:
                self.format_declaration.check(self.format_options, columns)
            except UsageError as error:
                yield f"source.{self.format_declaration.section}", error.problem

    @property
    def source_extractor(self) -> SourceExtractor:
        """The functions that extract facts about the source from its messages."""
        source_extractor = make_source_extractor(self.format, self.format_options)
        if not self.clusters:
            return source_extractor
        return replace(
            source_extractor,
            find_origins=partial(origins_with_clusters, source_extractor.find_origins),
        )

    @property
    def kafka_clusters(self) -> list[Cluster]:
        """The clusters with the job's topics, of which the first has an empty name."""
        source_cluster = Cluster(
            bootstrap_servers=self.bootstrap_servers,
            topics=self.topics,
            topic_pattern=self.topic_pattern,
            kafka_options=self.kafka_options,
        )
        return [source_cluster, *further_clusters(self.clusters, source_cluster)]

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
