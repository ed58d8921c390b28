"""Reads a job's topics again, up to the newest epoch of its tables, and decodes them as it does.

Up to where: the newest snapshot of a job says where its epoch ends in each topic. From where: the
beginning of each topic; what is gone there cannot be compared, and that is a finding.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from stream_app.app.check.uncompared import Uncompared
from stream_app.app.config.format_setup import format_setup, table_format, without_narrowed
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.job.preflight import TIMEOUT_S, client_settings, reachable_servers
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, concat_rows
from stream_app.errors import SourceError, UsageError
from stream_app.model.merge_engine import traits_of
from stream_app.model.options.compaction_options import RECORD_LEVEL_EXPIRE_TIME
from stream_app.model.snapshot import Snapshot
from stream_app.spark.epoch.epoch_plan import MessageSplitter
from stream_app.spark.epoch.unchanged_values import bad_records_of_refused, with_messages
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.commit.job_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable

CHUNK_ROWS = 200_000
"""Changes in memory before they are written to a sorted run of each bucket."""
_POLL_MS = 10_000
_RECORDS_MAX = 20_000
Ends = Mapping[tuple[str, int], int]


class Filling:
    """Decodes a table's messages as its job does, into sorted runs beside the table.

    Attributes:
        count: of changes so far.
        waiting_rows: of these, those in memory.
    """

    def __init__(
        self, check: SourceCheck, source: SourceConfig, rules: TableConfig, left: Uncompared
    ) -> None:
        """Begin.

        Args:
            left: gets the bad records.
        """
        schema = check.table.schema
        setup = format_setup(source, rules, schema, restores=True)
        setup = replace(setup, keep_update_before=False)
        decode = table_format(source, rules, schema, setup)
        self._decode = without_narrowed(decode, source, check.table, rules.made)
        self._assigner = check.assigner
        self._check, self._left = check, left
        self._waiting: list[pa.RecordBatch] = []
        self.count = self.waiting_rows = 0

    def take(self, messages: pa.RecordBatch) -> None:
        """Decode messages of the table; those of a Kafka partition come in their order."""
        decoded = self._decode.decode(messages)
        self._left.see(messages, decoded)
        changes = decoded.changes
        if decoded.truncated is not None:  # the source empties its table: what was so far is void
            self._waiting, self.waiting_rows = [], 0
            self._check.empty()
            changes = changes.behind(decoded.truncated)
        rows = with_messages(changes, messages)
        self._waiting.append(rows)
        self.waiting_rows += rows.num_rows
        self.count += rows.num_rows

    def flush(self) -> None:
        """Write what waits into a sorted run of each bucket."""
        if self.waiting_rows:
            self._check.add(self._assigner.assign(concat_rows(self._waiting)))
        self._waiting, self.waiting_rows = [], 0

    def finish(self) -> None:
        """Write the rest; what the writer refuses are bad records."""
        self.flush()
        if self._check.refused:
            self._left.see_bad(bad_records_of_refused(self._check.refused))


def fill(
    check: SourceCheck,
    messages: Iterable[pa.RecordBatch],
    source: SourceConfig,
    rules: TableConfig,
    left: Uncompared,
) -> int:
    """Decode all messages of a table; returns the number of their changes. See `Filling`."""
    filling = Filling(check, source, rules, left)
    for batch in messages:
        filling.take(batch)
        if filling.waiting_rows >= CHUNK_ROWS:
            filling.flush()
    filling.finish()
    return filling.count


def incomparable(table: FileStoreTable, rules: TableConfig) -> str:
    """Why none of the table's rows can be compared; empty: they can."""
    if not table.kind.merges_by_key:
        return "rows of a table without a primary key cannot be matched"
    if not rules.made.is_repeatable:
        return "the time of decoding stands in its rows (now())"
    if table.options[RECORD_LEVEL_EXPIRE_TIME] is not None:
        return "rows of the table expire"
    if not traits_of(table.options.merge_engine).keeps_newest:
        return f"rows are merged by merge-engine = {table.options.merge_engine}"
    if table.skips_level_0:
        return "rows of level 0 are not read before they are compacted"
    return ""


def table_end(table: FileStoreTable, source: SourceConfig) -> tuple[Snapshot, Ends]:
    """The newest snapshot, and up to where the newest epoch in it has read.

    Others may have compacted since, which changes no row.
    """
    latest = table.snapshots.latest()
    epochs = newest_epochs(table.snapshots).values()
    for epoch in sorted(epochs, key=lambda epoch: epoch.time_millis, reverse=True):
        if epoch.source_end is None:
            continue
        ends = {
            (topic, int(partition)): int(end)
            for topic, partitions in json.loads(epoch.source_end).items()
            if not source.topics or topic in source.topics
            for partition, end in partitions.items()
        }
        if ends and latest is not None:
            return latest, ends
    raise UsageError(
        f"no snapshot records how far a job has read {', '.join(source.topics) or 'its topics'}",
        where=table.location,
        fix="give the topic that the table is written from",
    )


def own_messages(
    batches: Iterable[pa.RecordBatch], splitter: MessageSplitter
) -> Iterator[pa.RecordBatch]:
    """The messages of the table at index 0."""
    for messages in batches:
        yield from (part.messages for part in splitter.split(messages) if part.table == 0)


def topic_messages(
    source: SourceConfig,
    readers: Sequence[tuple[Ends, Uncompared]],
    progress: Progress,
    since_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages of topics, each once, a batch of one partition; up to the last reader's end.

    Args:
        readers: up to where each wants them; what is gone is noted for each.
        since_ms: the time of the oldest messages, since 1970; None: from the beginning.
    """
    consumer = consumer_of(source)
    try:
        ranges = _ranges(consumer, readers, since_ms)
        consumer.assign(list(ranges))
        for place, (begin, _) in ranges.items():
            consumer.seek(place, begin)
        total = sum(end - begin for begin, end in ranges.values())
        unread = {place for place, (begin, end) in ranges.items() if begin < end}
        while unread:
            consumer.pause(*(ranges.keys() - unread))
            for place, records in consumer.poll(timeout_ms=_POLL_MS).items():
                if kept := [record for record in records if record.offset < ranges[place][1]]:
                    yield batch_of(kept)
            done = sum(consumer.position(place) - begin for place, (begin, _) in ranges.items())
            progress("offsets", min(done, total), total)
            unread = {place for place in unread if consumer.position(place) < ranges[place][1]}
    except KafkaError as error:
        raise SourceError(
            f"the topics cannot be read: {error}",
            where=source.bootstrap_servers,
            fix="check that the broker runs, and that the user may read the topics",
        ) from error
    finally:
        consumer.close()


def consumer_of(source: SourceConfig) -> KafkaConsumer:
    """A consumer of the source's brokers, which keeps no offsets.

    Raises:
        SourceError: no broker answers.
    """
    servers = reachable_servers(source.bootstrap_servers, time.monotonic() + TIMEOUT_S)
    try:
        return KafkaConsumer(
            bootstrap_servers=servers,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=_RECORDS_MAX,
            **client_settings(source.kafka_options),
        )
    except (KafkaError, OSError, ValueError, AssertionError) as error:
        raise SourceError(
            f"no Kafka broker answers at {', '.join(servers)} ({error})",
            where="--source-kafka, or source.bootstrap-servers of --conf",
            fix="give HOST:PORT of a broker that runs",
        ) from error


def _ranges(
    consumer: KafkaConsumer, readers: Sequence[tuple[Ends, Uncompared]], since_ms: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    """The range to read of each partition; deleted offsets become a finding of each reader."""
    furthest: dict[TopicPartition, int] = {}
    for ends, _ in readers:
        for place, end in ends.items():
            furthest[TopicPartition(*place)] = max(end, furthest.get(TopicPartition(*place), 0))
    places = list(furthest)
    begins, lasts = consumer.beginning_offsets(places), consumer.end_offsets(places)
    for ends, left in readers:
        for place, end in ends.items():
            known = TopicPartition(*place)
            _note_gone(left, known, 0 if since_ms is not None else begins[known], lasts[known], end)
    if since_ms is not None:
        since = consumer.offsets_for_times(dict.fromkeys(places, since_ms))
        # Without a message of that time or a later one there is no offset.
        begins = {at: lasts[at] if since[at] is None else since[at].offset for at in places}
    stops = {place: min(end, lasts[place]) for place, end in furthest.items()}
    return {place: (min(begins[place], stops[place]), stops[place]) for place in places}


def _note_gone(left: Uncompared, place: TopicPartition, begin: int, last: int, end: int) -> None:
    name = f"{place.topic}/{place.partition}"
    if begin:
        left.has_gaps = True
        left.add(
            f"the first {begin} offsets of {name} are gone and were not compared; "
            f"rows that differ may be older ones",
            "compare while the topic still has all records (its retention.ms)",
        )
    if last < end:
        left.is_other_topic = True
        left.add(
            f"{name} ends at {last}, and the table has read up to {end}: the topic "
            f"was recreated, and its older records were not compared",
            "give the table's job a new checkpoint",
        )


def batch_of(records: Sequence[Any]) -> pa.RecordBatch:
    """Records of Kafka's Python client as `MESSAGE_SCHEMA`."""
    # Python's client gives one object a record; this is the only place that reads them.
    columns = [
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.timestamp * 1000 for record in records],
        [record.key for record in records],
        [record.value for record in records],
    ]
    arrays = [
        pa.array(values, kind) for values, kind in zip(columns, MESSAGE_SCHEMA.types, strict=False)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)
