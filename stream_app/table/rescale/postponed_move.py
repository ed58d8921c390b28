"""Moves postponed rows to their buckets, in one COMPACT snapshot.

The move replays the rows of ``bucket-postpone`` in order, through the writers of the real buckets,
as new rows of level 0. So it writes the changelog of ``changelog-producer = input``, and the
table's usual compactions follow. A partition keeps its number of buckets, or gets one if it has
none.

Called by the job of `stream-app compact`, before its compactions.

Source: Paimon `flink/postpone/PostponeBucketCompactSplitSource.java`,
`flink/postpone/RewritePostponeBucketCommittableOperator.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.write_options import WRITE_BUFFER_SIZE
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.buckets.postponed_counts import FirstBucketRules, first_bucket_count
from stream_app.planning.buckets.postponed_order import replay_order
from stream_app.table.commit.batch_commit import batch_committer
from stream_app.table.commit.file_store_commit import CompactOutcome
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.storage_errors import merge_errors
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.bucket_assigner import key_buckets, rows_by_bucket
from stream_app.table.write.bucket_writer import BucketWriter, change_of

_BUFFER_MIN = 8 << 20
"""Bytes of a bucket's write buffer, however many buckets share the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedMove:
    """The outcome of a move.

    Attributes:
        rows, files: the numbers of rows and files that were in ``bucket-postpone``.
        outcome: the commit's outcome; a conflict says why nothing has moved.
    """

    rows: int
    files: int
    outcome: CompactOutcome


def move_postponed(
    table: FileStoreTable, partitions: Collection[bytes] | None = None
) -> PostponedMove | None:
    """Move the postponed rows of the newest snapshot; None if there are none.

    Args:
        partitions: the serialized partitions; None: all.

    Raises:
        CorruptFileError: a file cannot be read; nothing has moved.
    """
    commit = batch_committer(table)
    live = FileStoreScan(table).live(commit.commit_history.newest)
    waiting: dict[bytes, list[ManifestEntry]] = {}
    counts: dict[bytes, int] = {}
    for entry in live:
        if entry.bucket != POSTPONED:
            counts[entry.partition] = entry.total_buckets
        elif partitions is None or entry.partition in partitions:
            waiting.setdefault(entry.partition, []).append(entry)
    if not waiting:
        return None
    rules = FirstBucketRules.of_options(table.options)
    first = 1 + max(entry.file.max_sequence_number for entry in live)
    changes: list[BucketChange] = []

    def move(partition: bytes) -> None:
        entries = waiting[partition]
        rows = sum(entry.file.row_count for entry in entries)
        size = sum(entry.file.file_size for entry in entries)
        count = counts.get(partition) or first_bucket_count(rows, size, rules)
        changes.extend(_move_partition(table, partition, entries, count, first))

    try:
        map_in_threads(thread_count(table), move, waiting)
    except BaseException:
        table.discard(changes)
        raise
    committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=tuple(changes))
    outcome = commit.commit_compactions(committable)
    if outcome.snapshot is None:
        table.discard(changes)
    moved = [entry for entries in waiting.values() for entry in entries]
    rows = sum(entry.file.row_count for entry in moved)
    return PostponedMove(rows=rows, files=len(moved), outcome=outcome)


def _move_partition(
    table: FileStoreTable,
    partition: bytes,
    entries: Sequence[ManifestEntry],
    count: int,
    first: int,
) -> list[BucketChange]:
    """Write one partition's rows and return the changes; a failure deletes the new files.

    Args:
        count: the partition's number of buckets.
        first: a sequence number above all others.
    """
    buffer = max(table.options[WRITE_BUFFER_SIZE] // count, _BUFFER_MIN)
    options = {**table.schema.options, WRITE_BUFFER_SIZE.key: f"{buffer} b"}
    writing = replace(table, schema=replace(table.schema, options=options))
    reader = table.bucket_files(partition, POSTPONED)
    writers: dict[int, BucketWriter] = {}
    changes: list[BucketChange] = []

    def write(rows: pa.RecordBatch) -> None:
        buckets = key_buckets(rows, table.schema, count)
        for _, bucket, part in rows_by_bucket(rows, table.schema, buckets, count):
            if bucket not in writers:
                writers[bucket] = KEYED_KIND.bucket_writer(
                    writing, partition, bucket, next_sequence_number=first
                )
            writers[bucket].write(part)

    files = replay_order(entry.file for entry in entries)
    try:
        with merge_errors(table.paths.bucket_folder(partition, POSTPONED)):
            for file in files:
                for batch in reader.read(file):
                    write(batch.drop_columns([SEQUENCE_NUMBER]))
            for bucket in list(writers):
                files_of_bucket = writers[bucket].prepare_commit()
                changes.append(change_of(files_of_bucket, partition, bucket, count))
                del writers[bucket]
    except BaseException:
        for writer in writers.values():
            writer.abort()
        table.discard(changes)
        raise
    emptied = BucketChange(
        partition=partition, bucket=POSTPONED, total_buckets=POSTPONED, removed=tuple(files)
    )
    return [emptied, *changes]
