"""How far a job's tables are behind their source, as numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import Gauge

from stream_app.app.metrics.health import SourceState
from stream_app.clock import Clock
from stream_app.kafka.job_position import JobPosition
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.epoch.decode_counts import PartitionEnd
from stream_app.spark.ingest.streaming_query import SourceProgress

PARTITIONS_MAX = 1000
"""Kafka partitions with a lag of their own; the lag of all has them too."""
Key = tuple[str, str]
"""A label, and the name of a table that has it."""
Partition = tuple[str, str]
"""Topic and Kafka partition."""
MakesGauge = Callable[..., Gauge]
"""Makes a gauge by its name, its meaning, and its labels beside the table."""


@dataclass(slots=True)
class SourceMetrics:
    """The numbers of all tables of a job, by the label of each.

    Attributes:
        clock: ages are as of its time, at each scrape.
        position: how far the job is; None: it does not know. Spark tells only of epochs that are
            read, and not whether the tables have them.
    """

    gauge: MakesGauge
    clock: Clock
    position: Callable[[], JobPosition | None] = field(default=lambda: None)
    _progress: SourceProgress | None = None
    _seen: JobPosition | None = None
    _partitions: set[Partition] = field(default_factory=set)
    _lag: int | None = None
    _looked_at_s: float | None = None
    _is_committed: bool = False
    _newest_s: dict[Key, float] = field(default_factory=dict)
    _held: set[Key] = field(default_factory=set)
    _lags: Gauge = field(init=False)
    _behind: Gauge = field(init=False)
    _newest: Gauge = field(init=False)
    _freshness: Gauge = field(init=False)
    _looked: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self._lags = self.gauge(
            "lag_messages", "Messages of the source that are not in the tables yet."
        )
        self._behind = self.gauge(
            "partition_lag_messages",
            "Messages of a Kafka partition that are not in the tables yet.",
            "topic",
            "partition",
        )
        self._newest = self.gauge(
            "newest_message_timestamp_seconds",
            "Time of the newest message that is in the table, as Kafka has it.",
        )
        self._freshness = self.gauge(
            "freshness_seconds",
            "Age of the newest message in the table while there are newer ones; 0: there are none.",
        )
        self._looked = self.gauge(
            "source_looked_timestamp_seconds",
            "When Spark last told how far the source was read, also if there was nothing new.",
        )

    def progress(self, label: str, progress: SourceProgress, time_ms: int) -> None:
        """Spark has reported the source's state at this time."""
        self._looked_at_s = time_ms / 1000
        self._looked.labels(label).set(time_ms / 1000)
        self._progress = progress
        self._set_lag(label)

    def looked(self, label: str) -> None:
        """The job looks at its query: an epoch may have begun, or have been committed."""
        if self.position() != self._seen:
            self._set_lag(label)

    def _set_lag(self, label: str) -> None:
        progress, self._seen = self._progress, self.position()
        behind: Mapping[Partition, int] = {} if progress is None else progress.behind
        lag = None if progress is None else progress.lag
        if self._seen is not None:
            newest: Offsets = {} if progress is None else progress.newest
            behind = self._seen.behind(newest)
            lag = sum(behind.values()) if newest else sum(behind.values()) or None
        if lag is not None:
            self._lags.labels(label).set(lag)
            self._lag = lag
        for partition, count in behind.items():
            if partition in self._partitions or len(self._partitions) < PARTITIONS_MAX:
                self._partitions.add(partition)
                self._behind.labels(label, *partition).set(count)

    def committed(self, label: str, name: str, ends: Iterable[PartitionEnd]) -> None:
        """The newest messages of an epoch are in a table, which may share its label with others."""
        self._is_committed = True
        times = [end.timestamp_ms for end in ends if end.timestamp_ms is not None]
        if times:
            self._newest_s[label, name] = max(times) / 1000
            self._newest.labels(label).set(max(times) / 1000)
            self._freshness.labels(label).set_function(partial(self._age, label))

    def held(self, label: str, name: str, *, is_held: bool) -> None:
        """Whether an error holds a table back."""
        (self._held.add if is_held else self._held.discard)((label, name))

    def state(self) -> SourceState:
        """Of all tables."""
        newest_s, looked_at_s = dict(self._newest_s), self._looked_at_s
        return SourceState(
            stale_s=self._greatest_age(newest_s, newest_s) if newest_s else None,
            looked_s=None if looked_at_s is None else self.clock.now_ms() / 1000 - looked_at_s,
            lag=self._lag,
            is_committed=self._is_committed,
        )

    def _age(self, label: str) -> float:
        newest_s = dict(self._newest_s)
        return self._greatest_age(newest_s, [key for key in newest_s if key[0] == label])

    def _greatest_age(self, newest_s: Mapping[Key, float], keys: Iterable[Key]) -> float:
        held = [newest_s[key] for key in keys if key in self._held]
        # An epoch that had nothing for a table has brought it as far as the others.
        begin_s = min(held, default=max(newest_s.values()))
        if not held and self._lag == 0:
            return 0.0
        return max(0.0, self.clock.now_ms() / 1000 - begin_s)
