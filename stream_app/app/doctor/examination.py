"""All that a job's configuration names, looked at without a JVM and without reading a record.

The store gets some small files in the folders of the warehouse and the checkpoint, which are
deleted again. A missing table is not created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stream_app.app.config.app_config import AppConfig
from stream_app.app.doctor import machine
from stream_app.app.doctor.observation import Observation, fine, observed, warning
from stream_app.app.job.job_folders import is_reached_without_spark, open_folder
from stream_app.app.job.one_table import wanted_schema
from stream_app.app.job.preflight import BrokerConnection, TopicInfo, recreated, uncheckable
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError
from stream_app.fileio.file_io_registry import file_io_of, is_local
from stream_app.fileio.store_time import store_now_ms
from stream_app.spark.ingest.checkpoint_state import DATABASE, checked_checkpoint
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import check_fits, open_for_writing, open_table

_BROKER_S = 10.0
_CLOCK_S = 5.0


@dataclass(slots=True)
class Examination:
    """One job."""

    config: AppConfig
    clock: Clock
    _topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def observations(self) -> Iterator[Observation]:
        """Everything, part by part; what one part lacks stops no other."""
        spark, warehouse = self.config.spark, self._warehouse()
        yield from observed("java", machine.java)
        yield from observed("python", machine.packages)
        yield from observed("memory", partial(machine.memory, spark, machine.machine_memory()))
        yield from observed("disk", partial(machine.disk, warehouse))
        yield from observed("broker", self._broker)
        yield from observed("warehouse", partial(self._store, "warehouse", warehouse))
        yield from observed("checkpoint", self._checkpoint)
        if self.config.stream.quarantine is not None:
            folder = self.config.stream.quarantine
            if is_reached_without_spark(folder):
                yield from observed("quarantine", partial(self._store, "quarantine", folder))
            else:
                yield _needs_spark("quarantine", folder)
        if self.config.sync is None:
            yield from observed("table", self._table)

    def _warehouse(self) -> str:
        sync = self.config.sync
        return self.config.table.warehouse if sync is None else sync.warehouse

    def _broker(self) -> Iterator[Observation]:
        source = self.config.source
        if source.kind != "kafka":
            return
        if settings := uncheckable(source.kafka_options):
            what = f"not asked, because of {', '.join(settings)}"
            yield warning("broker", what, "start the job, and read its log")
            return
        with BrokerConnection(
            source.bootstrap_servers, source.kafka_options, timeout_s=_BROKER_S
        ) as connection:
            topics = self._topics = connection.topics(source.topics, pattern=source.topic_pattern)
            ends = connection.end_offsets(topics)
            begins = connection.begin_offsets(topics)
        records = sum(ends[place] - begins.get(place, 0) for place in ends)
        partitions = sum(topic.partitions for topic in topics.values())
        yield fine(
            "broker",
            f"{source.bootstrap_servers}: {len(topics)} topics, {partitions} partitions, "
            f"about {records:,} messages",
        )

    def _store(self, part: str, location: str) -> Iterator[Observation]:
        """Rights, the promise of one winner, and the clock."""
        folder, files = file_io_of(location, self.config.file_system)
        files.check_atomic_create(folder)
        there = _nearest(folder) if is_local(location) else folder
        apart_s = (store_now_ms(files, there) - self.clock.now_ms()) / 1000
        yield fine(part, f"{folder} can be written, and of two writers of a file one wins")
        if abs(apart_s) > _CLOCK_S:
            which = "ahead of" if apart_s > 0 else "behind"
            yield warning(
                part,
                f"the store's clock is {abs(apart_s):.0f} s {which} this machine's",
                "let both follow a time server: expiry and tags go by them",
            )

    def _checkpoint(self) -> Iterator[Observation]:
        location = self.config.stream.checkpoint
        if not is_reached_without_spark(location):
            yield _needs_spark("checkpoint", location)
            return
        folder = open_folder(location, self.config.file_system, _no_session)
        yield from self._store("checkpoint", location)
        sync = self.config.sync
        if sync is not None:
            state = checked_checkpoint(folder, sync.path(""), DATABASE)
        else:
            try:
                table = self._opened()
                place, identity = table.location, table.identity()
            except TableNotFoundError:  # a checkpoint that has known one refuses the next
                place, identity = file_io_of(self.config.table.path)[0], ""
            state = checked_checkpoint(folder, place, identity)
        if state is None:
            yield fine("checkpoint", "new: the job begins at source.starting-offsets")
        elif lost := recreated(state.topic_ids, self._topics):
            yield warning(
                "checkpoint",
                f"the topic {', '.join(sorted(lost))} was made anew since it was begun",
                "give the job a new checkpoint folder",
            )
        else:
            yield fine("checkpoint", "belongs to this job, which goes on where it was")

    def _table(self) -> Iterator[Observation]:
        try:
            table = self._opened()
        except TableNotFoundError:
            yield fine("table", f"{self.config.table.path} will be created")
            return
        open_for_writing(table)
        check_fits(table, wanted_schema(self.config, self.clock))
        latest = table.snapshots.latest()
        told = "no snapshot yet" if latest is None else f"snapshot {latest.snapshot_id}"
        yield fine("table", f"{table.location} fits the configuration: {told}")

    def _opened(self) -> FileStoreTable:
        return open_table(self.config.table.path, file_io_options=self.config.file_system)


def _nearest(folder: str) -> str:
    """The folder, or the nearest above it that exists: the doctor makes none."""
    there = Path(folder)
    while not there.exists():
        there = there.parent
    return str(there)


def _needs_spark(part: str, location: str) -> Observation:
    """A job can run with such a folder."""
    what = f"only Spark reaches {location}, and the doctor starts none"
    return warning(part, what, "start the job, and read its log")


def _no_session() -> Any:
    raise AssertionError("such folders are left to Spark")
