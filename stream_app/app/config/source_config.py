"""Section ``[source]`` of the configuration: its fields, and what each key may be.

Read by `app_config`, which judges keys beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stream_app.app.config.values import (
    Setting,
    boolean,
    integer,
    offsets,
    one_of,
    regular_expression,
    some_names,
    text,
)
from stream_app.message_formats import DEFAULT_FORMAT, FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """Section ``[source]``.

    Attributes:
        kind: ``kafka`` or ``files``.
        topics: names; empty when `topic_pattern`, a regular expression, chooses them.
        format_options: the message format's own options, e.g. ``decimal.handling.mode``.
        starting_offsets: ``earliest``, ``latest`` or Spark's JSON; only for a new checkpoint.
        max_offsets_per_trigger: records of an epoch; None: all that there are.
        min_partitions: least number of tasks that read; None: as many as there are cores.
        reader: ``native`` or ``spark``; None: the native one if it can.
        kafka_options: of Kafka's Java client, without the prefix ``kafka.``.
        merge_shards: whether records of several tables of the source belong into the table.
        path: folder of ``*.jsonl`` when the kind is ``files``.
        lowers_names: whether columns have the source's names in lower case; follows from
            ``sync.case-sensitive``.
    """

    kind: str = "kafka"
    bootstrap_servers: str = ""
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    format: str = DEFAULT_FORMAT
    format_options: Mapping[str, str] = field(default_factory=dict)
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    reader: str | None = None
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    merge_shards: bool = False
    path: str | None = None
    max_files_per_trigger: int | None = None
    lowers_names: bool = field(default=False, metadata={"is_shown": False})


SOURCE_KEYS: Mapping[str, Callable[[Setting], object]] = {
    "kind": one_of("kafka", "files"),
    "bootstrap-servers": text,
    "topics": some_names,
    "topic-pattern": regular_expression,
    "format": one_of(*FORMATS),
    "starting-offsets": offsets,
    "max-offsets-per-trigger": integer(1),
    "min-partitions": integer(1),
    "fail-on-data-loss": boolean,
    "reader": one_of("native", "spark"),
    "merge-shards": boolean,
    "path": text,
    "max-files-per-trigger": integer(1),
}
