"""Reads a job's topics again, up to the table's newest epoch, and compares the table with them.

Up to where: the newest snapshot of a job says where its epoch ends in each topic. From where: the
beginning of each topic; what is gone there cannot be compared, and that is a finding.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from stream_app.app.check.uncompared import Uncompared
from stream_app.app.config.app_config import SourceConfig
from stream_app.app.config.format_setup import format_setup, table_format
from stream_app.app.config.table_config import TableConfig
from stream_app.app.job.preflight import client_settings
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, concat_rows
from stream_app.cdc.formats import format_named
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import SourceError, UsageError
from stream_app.model.finding import Finding
from stream_app.model.options.compaction_options import RECORD_LEVEL_EXPIRE_TIME
from stream_app.model.snapshot import Snapshot
from stream_app.spark.epoch.epoch_plan import MessageSplitter
from stream_app.spark.epoch.unchanged_values import bad_records_of_refused, with_messages
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.check.table_check import CheckReport
from stream_app.table.commit.job_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.tasks import bucket_assigner
from stream_app.table.versions.read_refusals import check_readable

_CHUNK_ROWS = 200_000
"""Changes that are written to a sorted run of each bucket at a time."""
_POLL_MS = 10_000
_RECORDS_MAX = 20_000
Ends = Mapping[tuple[str, int], int]


def source_findings(
    table: FileStoreTable,
    source: SourceConfig,
    rules: TableConfig,
    progress: Progress,
    report: CheckReport,
    splitter: MessageSplitter | None = None,
) -> Iterator[Finding]:
    """What differs between the table's newest snapshot of a job and its topics.

    Args:
        rules: the made columns and the filter of the job's configuration.
        report: gets what was compared. What could not be compared is a finding.
        splitter: gives the table its messages, as index 0; None: all are its own.

    Raises:
        UsageError: no snapshot of the table has offsets of these topics.
        UnsupportedTableError: stream_app cannot merge the table's rows.
        SourceError: a message stops a job, or the broker does not answer.
    """
    left = Uncompared(table.location, format_named(source.format))
    snapshot, ends = table_end(table, source)
    if why := incomparable(table, rules):
        left.add(
            f"{snapshot.total_record_count} records of the table were not compared with the "
            f"source: {why}",
            "leave --conf and --source-kafka out for such a table",
        )
        yield from left.findings()
        return
    check_readable(table, merges=True)
    for topic in sorted(set(source.topics) - {topic for topic, _ in ends}):
        left.add(f"the topic {topic} was not read by the table's job", "let the job read it")
    with tempfile.TemporaryDirectory(prefix="stream_app-check-") as folder:
        check = SourceCheck(table, folder, snapshot.index_manifest)
        messages = own_messages(topic_messages(source, ends, progress, left), splitter)
        count = fill(check, messages, source, rules, left)
        yield from check.findings(snapshot)
        if len(left.key_names) == 1:
            yield from check.repeated(snapshot, *left.key_names.values())
    yield from left.findings()
    topics = ", ".join(sorted({topic for topic, _ in ends}))
    report.replayed.append(f"{count} changes of {topics}, up to where the table is")


def fill(
    check: SourceCheck,
    messages: Iterable[pa.RecordBatch],
    source: SourceConfig,
    rules: TableConfig,
    left: Uncompared,
) -> int:
    """Decode a table's messages as its job does; returns the number of their changes.

    Args:
        left: gets the bad records.
    """
    schema, count = check.table.schema, 0
    setup = format_setup(source, rules, schema, restores=True)
    setup = replace(setup, keep_update_before=False)
    decode = table_format(source, rules, schema, setup)
    assigner = bucket_assigner(check.table, check.index)
    for rows in _changes(messages, decode, left, check.empty):
        count += rows.num_rows
        check.add(assigner.assign(rows))
    if check.refused:
        left.see_bad(bad_records_of_refused(check.refused))
    return count


def incomparable(table: FileStoreTable, rules: TableConfig) -> str:
    """Why none of the table's rows can be compared; empty: they can."""
    if not table.kind.merges_by_key:
        return "rows of a table without a primary key cannot be matched"
    if not rules.made.is_repeatable:
        return "the time of decoding stands in its rows (now())"
    if table.options[RECORD_LEVEL_EXPIRE_TIME] is not None:
        return "rows of the table expire"
    if table.options.merge_engine != "deduplicate":
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
    batches: Iterable[pa.RecordBatch], splitter: MessageSplitter | None
) -> Iterator[pa.RecordBatch]:
    """The messages of the table."""
    for messages in batches:
        if splitter is None:
            yield messages
        else:
            yield from (part.messages for part in splitter.split(messages) if part.table == 0)


def _changes(
    batches: Iterable[pa.RecordBatch],
    decode: MessageFormat,
    left: Uncompared,
    on_truncate: Callable[[], None],
) -> Iterator[pa.RecordBatch]:
    """The changes of all topics, some at a time; a partition's stay in their order.

    Args:
        on_truncate: called where the source empties its table: the changes so far are void.
    """
    waiting: list[pa.RecordBatch] = []
    for messages in batches:
        decoded = decode.decode(messages)
        left.see(messages, decoded)
        changes = decoded.changes
        if decoded.truncated is not None:
            waiting = []
            on_truncate()
            changes = changes.behind(decoded.truncated)
        waiting.append(with_messages(changes, messages))
        if sum(rows.num_rows for rows in waiting) >= _CHUNK_ROWS:
            yield concat_rows(waiting)
            waiting = []
    if any(rows.num_rows for rows in waiting):
        yield concat_rows(waiting)


def topic_messages(
    source: SourceConfig,
    ends: Ends,
    progress: Progress,
    left: Uncompared,
    since_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages of topics, up to their ends; what is gone is noted.

    Args:
        since_ms: the time of the oldest messages, since 1970; None: from the beginning.
    """
    consumer = consumer_of(source)
    try:
        ranges = _ranges(consumer, ends, left, since_ms)
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
    try:
        return KafkaConsumer(
            bootstrap_servers=source.bootstrap_servers.split(","),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=_RECORDS_MAX,
            **client_settings(source.kafka_options),
        )
    except (KafkaError, OSError, ValueError, AssertionError) as error:
        raise SourceError(
            f"no Kafka broker answers at {source.bootstrap_servers} ({error})",
            where="--source-kafka, or source.bootstrap-servers of --conf",
            fix="give HOST:PORT of a broker that runs",
        ) from error


def _ranges(
    consumer: KafkaConsumer, ends: Ends, left: Uncompared, since_ms: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    """The range to read of each partition; deleted offsets become a finding."""
    places = [TopicPartition(*place) for place in ends]
    begins, lasts = consumer.beginning_offsets(places), consumer.end_offsets(places)
    since = {}
    if since_ms is not None:
        since = consumer.offsets_for_times(dict.fromkeys(places, since_ms))
    ranges = {}
    for place in places:
        name, end = f"{place.topic}/{place.partition}", ends[place.topic, place.partition]
        if begins[place] and since_ms is None:
            left.has_gaps = True
            left.add(
                f"the first {begins[place]} offsets of {name} are gone and were not compared; "
                f"rows that differ may be older ones",
                "compare while the topic still has all records (its retention.ms)",
            )
        if lasts[place] < end:
            left.is_other_topic = True
            left.add(
                f"{name} ends at {lasts[place]}, and the table has read up to {end}: the topic "
                f"was recreated, and its older records were not compared",
                "give the table's job a new checkpoint",
            )
        begin, end = begins[place], min(end, lasts[place])
        if since_ms is not None:
            # Without a message of that time or a later one there is no offset.
            begin = end if since[place] is None else min(since[place].offset, end)
        ranges[place] = begin, end
    return ranges


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
