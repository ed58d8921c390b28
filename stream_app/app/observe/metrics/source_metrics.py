"""Measures how far a job's tables are behind their source, as metrics for Prometheus.

`job_metrics` passes the job's events on to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from prometheus_client import Gauge

from stream_app.app.observe.metrics.health import OFFSET_REPORT_S, SourceState
from stream_app.checkpoint.held_table import HeldTable
from stream_app.clock import Clock
from stream_app.epochs.stages.decode_counts import PartitionEnd
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.kafka.offset_ranges import JobOffsets, KafkaPartition
from stream_app.model.job_epoch import Offsets

PARTITIONS_MAX = 1000
"""The maximum number of Kafka partitions with a metric of their own; the total includes others."""
SeriesKey = tuple[str, str]
"""A label, and the name of a table that has it."""
PartitionLabels = tuple[str, str]
"""Topic and Kafka partition, as text."""
MakesGauge = Callable[..., Gauge]
"""Makes a gauge by its name, its meaning, and its labels beside the table."""


class SourceMetrics:
    """The metrics of all tables of a job, by the label of each.

    Attributes:
        clock: the clock from which each scrape computes ages.
        look_interval_s: the maximum time between two checks of the source, outside of epochs.
    """

    def __init__(
        self, make_gauge: MakesGauge, clock: Clock, look_interval_s: float = OFFSET_REPORT_S
    ) -> None:
        self.clock = clock
        self.look_interval_s = look_interval_s
        self._read_offsets: Callable[[], JobOffsets | None] = lambda: None
        self._progress: SourceProgress | None = None
        self._offsets: JobOffsets | None = None
        self._partitions: set[PartitionLabels] = set()
        self._lag: int | None = None
        self._looked_at_s: float | None = None
        self._is_committed = False
        self._newest_s: dict[SeriesKey, float] = {}
        self._ready_at_s: float | None = None
        self._held_tables: dict[SeriesKey, HeldTable] = {}
        self._complete_s: dict[SeriesKey, float] = {}
        self._topics: dict[SeriesKey, set[str]] = {}
        self._lagging_tables: set[str] = set()
        self._lags = make_gauge(
            "lag_messages", "Messages of the source that are not committed yet."
        )
        self._table_lags = make_gauge(
            "table_lag_messages",
            "Messages that a table lacks; absent where it shares a topic with other tables.",
        )
        self._partition_lags = make_gauge(
            "partition_lag_messages",
            "Messages of a Kafka partition that are not committed yet.",
            "topic",
            "partition",
        )
        self._newest_time = make_gauge(
            "newest_message_timestamp_seconds",
            "Time of the newest message that is in the table, as Kafka has it.",
        )
        self._freshness = make_gauge(
            "freshness_seconds",
            "Age of the newest message in the table while there are newer ones; 0: there are none.",
        )
        self._looked = make_gauge(
            "source_looked_timestamp_seconds",
            "When the stream last reported how far it has read; before that when the job began.",
        )

    def read_from(self, read_offsets: Callable[[], JobOffsets | None]) -> None:
        """Read the job's progress from this function, which returns None if it is unknown.

        The stream reports only which epochs were read, and not whether they were committed.
        """
        self._read_offsets = read_offsets

    def note_start(self, label: str) -> None:
        """Record that the job begins, and that it must check the source from now on."""
        self._looked.labels(label).set(self.clock.now_ms() / 1000)

    def note_open_table(
        self, label: str, name: str, source_time_ms: int | None, topics: Collection[str]
    ) -> None:
        """Record an opened table, before its first epoch of this run.

        Args:
            source_time_ms: the time of the table's newest message, in ms since 1970, or None if
                unknown.
            topics: the topics from which the table has messages.
        """
        self._topics.setdefault((label, name), set()).update(topics)
        if source_time_ms is not None:
            self._note_message_time(label, name, source_time_ms / 1000)

    def note_progress(self, label: str, progress: SourceProgress, time_ms: int) -> None:
        """Record the source's state that the stream reports at this time."""
        self._looked_at_s = time_ms / 1000
        self._looked.labels(label).set(time_ms / 1000)
        self._progress = progress
        self._set_lag(label)

    def note_heartbeat(self, label: str) -> None:
        """Record a check of the stream, since which an epoch may have begun or been committed."""
        if self._read_offsets() != self._offsets:
            self._set_lag(label)

    def _set_lag(self, label: str) -> None:
        """Export the lag of the source, of its tables and partitions, as far as it is known."""
        progress, self._offsets = self._progress, self._read_offsets()
        partition_lags: Mapping[PartitionLabels, int] = (
            {} if progress is None else progress.partition_lags
        )
        lag = None if progress is None else progress.lag
        if self._offsets is not None:
            newest_offsets: Offsets = {} if progress is None else progress.newest_offsets
            partition_lags = self._offsets.lag(newest_offsets)
            unread_count = sum(partition_lags.values())
            lag = unread_count if newest_offsets else unread_count or None
        if lag is not None:
            self._lags.labels(label).set(lag)
            self._lag = lag
            self._set_table_lags(partition_lags)
        if self._knows_source:
            for table_label in {table_label for table_label, _ in dict(self._newest_s)}:
                self._export_age(table_label)
        for partition_labels, partition_lag in partition_lags.items():
            if partition_labels in self._partitions or len(self._partitions) < PARTITIONS_MAX:
                self._partitions.add(partition_labels)
                self._partition_lags.labels(label, *partition_labels).set(partition_lag)

    def note_commit(
        self, label: str, name: str, ends: Mapping[KafkaPartition, PartitionEnd]
    ) -> None:
        """Record that a table has an epoch's newest messages. Tables may share a label."""
        self._is_committed = True
        self._topics.setdefault((label, name), set()).update(topic for topic, _ in ends)
        times = [end.timestamp_ms for end in ends.values() if end.timestamp_ms is not None]
        if times:
            self._note_message_time(label, name, max(times) / 1000)

    def note_held_table(self, label: str, name: str, held_table: HeldTable | None) -> None:
        """Record a table that waits because of an error or compactions; None ends the wait."""
        key = label, name
        if held_table is None:
            self._held_tables.pop(key, None)
            return
        if key not in self._held_tables:
            # Until then the table was as complete as the ready ones, which may have advanced since:
            # the job may have restarted.
            since_s = held_table.since_ms / 1000
            self._complete_s[key] = min(since_s, self._ready_at_s or since_s)
        self._held_tables[key] = held_table
        self._export_age(label)

    def state(self) -> SourceState:
        """Return the state of all tables."""
        newest_s = dict(self._newest_s)
        looked_at_s = self._looked_at_s
        keys = {*newest_s, *self._held_tables} if self._knows_source else {*self._held_tables}
        return SourceState(
            staleness_s=self._greatest_age(newest_s, keys) if keys else None,
            look_age_s=None if looked_at_s is None else self._now_s() - looked_at_s,
            lag=self._lag,
            is_committed=self._is_committed,
        )

    def _note_message_time(self, label: str, name: str, time_s: float) -> None:
        key = label, name
        self._newest_s[key] = max(time_s, self._newest_s.get(key, time_s))
        self._newest_time.labels(label).set(self._newest_s[key])
        if key not in self._held_tables:
            self._ready_at_s = max(time_s, self._ready_at_s or time_s)
        if self._knows_source:
            self._export_age(label)

    @property
    def _knows_source(self) -> bool:
        """Whether the stream has reported the source, or messages are known to wait."""
        return self._progress is not None or self._lag is not None

    def _export_age(self, label: str) -> None:
        self._freshness.labels(label).set_function(partial(self._age, label))

    def _set_table_lags(self, partition_lags: Mapping[PartitionLabels, int]) -> None:
        ends: Offsets = {} if self._progress is None else self._progress.end_offsets
        if self._offsets is not None:
            ends = self._offsets.committed_offsets
        starts = {key: held_table.start for key, held_table in dict(self._held_tables).items()}
        topics = {key: set(names) for key, names in dict(self._topics).items()}
        lags = table_lags(topics, partition_lags, ends, starts)
        totals: Counter[str] = Counter()
        for (label, _), lag in lags.items():
            totals[label] += lag
        # By now other tables have the messages of these labels' topics.
        for label in self._lagging_tables - totals.keys():
            self._table_lags.remove(label)
        for label, lag in totals.items():
            self._table_lags.labels(label).set(lag)
        self._lagging_tables = set(totals)

    def _age(self, label: str) -> float:
        newest_s = dict(self._newest_s)
        keys = {*newest_s, *self._held_tables}
        return self._greatest_age(newest_s, [key for key in keys if key[0] == label])

    def _greatest_age(
        self, newest_s: Mapping[SeriesKey, float], keys: Iterable[SeriesKey]
    ) -> float:
        now_s = self._now_s()
        held_tables = dict(self._held_tables)
        complete_s = [
            max(newest_s.get(key, 0), self._complete_s[key]) for key in keys if key in held_tables
        ]
        if complete_s:
            return max(0.0, now_s - min(complete_s))
        # An epoch without messages for a table also brings it as far as the others.
        start_s = max(newest_s.values(), default=now_s)
        if self._lag == 0 and self._looked_at_s is not None:
            if now_s - self._looked_at_s <= self.look_interval_s:
                return 0.0
            start_s = max(start_s, self._looked_at_s)  # then the tables had all messages
        return max(0.0, now_s - start_s)

    def _now_s(self) -> float:
        return self.clock.now_ms() / 1000


TableT = TypeVar("TableT", bound=Hashable)


def table_lags(
    topics: Mapping[TableT, Collection[str]],
    partition_lags: Mapping[tuple[str, str], int],
    ends: Offsets,
    starts: Mapping[TableT, Offsets],
) -> dict[TableT, int]:
    """Return the number of messages that each table lacks.

    Tables that share a topic are omitted.

    Args:
        topics: table → the topics from which it has messages.
        partition_lags: topic and partition → messages that the job's tables do not have.
        ends: the offsets up to which the job's tables have messages.
        starts: held table → the first offsets that it lacks. It lacks every message of later
            partitions.
    """
    owners = Counter(topic for names in topics.values() for topic in set(names))
    unread_counts: Counter[str] = Counter()
    for (topic, _), count in partition_lags.items():
        unread_counts[topic] += count
    lags = {}
    for table, names in topics.items():
        if not names or any(owners[topic] > 1 for topic in names):
            continue
        lag = sum(unread_counts[topic] for topic in names)
        if table in starts:
            lag += sum(
                max(0, end - starts[table].get(topic, {}).get(partition_number, 0))
                for topic in names
                for partition_number, end in ends.get(topic, {}).items()
            )
        lags[table] = lag
    return lags
