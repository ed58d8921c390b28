"""Moves postponed rows to their buckets, in one COMPACT snapshot.

The move writes the rows of ``bucket-postpone`` again in order, through the writers of the real
buckets, as new rows of level 0. So it writes the changelog of ``changelog-producer = input``, and
the table's usual compactions follow. A partition keeps its number of buckets, or gets one if it has
none.

The job of `stream-app compact` calls it, before its compactions.

Source: Paimon `flink/postpone/PostponeBucketCompactSplitSource.java`,
`flink/postpone/RewritePostponeBucketCommittableOperator.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.write_options import WRITE_BUFFER_SIZE
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.buckets.postponed_counts import FirstBucketRules, first_bucket_count
from stream_app.planning.buckets.postponed_order import files_in_write_order
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.commit.file_store_commit import CompactOutcome
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.merge_errors import merge_errors
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.bucket_assigner import key_buckets, rows_by_bucket
from stream_app.table.write.bucket_writer import BucketWriter

_BUFFER_BYTES_MIN = 8 << 20
"""The smallest write buffer of a bucket, however many buckets share the table's buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostponedMove:
    """The outcome of a move.

    Attributes:
        row_count, file_count: the numbers of rows and files that were in ``bucket-postpone``.
        outcome: the commit's outcome; a conflict says why nothing has moved.
    """

    row_count: int
    file_count: int
    outcome: CompactOutcome


def move_postponed(
    table: FileStoreTable, partitions: Collection[bytes] | None = None
) -> PostponedMove | None:
    """Move the postponed rows of the latest snapshot; None if there are none.

    Args:
        partitions: the serialized partitions; None: all.

    Raises:
        CorruptFileError: a file cannot be read; nothing has moved.
    """
    commit = batch_commit(table)
    live_entries = FileStoreScan(table).live(commit.commit_history.latest_snapshot)
    postponed_entries: dict[bytes, list[ManifestEntry]] = {}
    bucket_counts: dict[bytes, int] = {}
    for entry in live_entries:
        if entry.bucket != POSTPONED:
            bucket_counts[entry.partition] = entry.total_buckets
        elif partitions is None or entry.partition in partitions:
            postponed_entries.setdefault(entry.partition, []).append(entry)
    if not postponed_entries:
        return None
    rules = FirstBucketRules.of_options(table.options)
    next_sequence_number = 1 + max(entry.file.max_sequence_number for entry in live_entries)
    changes: list[BucketChange] = []

    def move(partition: bytes) -> None:
        postponed_files = [entry.file for entry in postponed_entries[partition]]
        row_count = sum(file.row_count for file in postponed_files)
        size = sum(file.file_size for file in postponed_files)
        bucket_count = bucket_counts.get(partition) or first_bucket_count(row_count, size, rules)
        changes.extend(
            _move_partition(table, partition, postponed_files, bucket_count, next_sequence_number)
        )

    try:
        map_in_threads(thread_count(table), move, postponed_entries)
    except BaseException:
        table.discard(changes)
        raise
    committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=tuple(changes))
    outcome = commit.commit_compactions(committable)
    if outcome.snapshot is None:
        table.discard(changes)
    moved_files = [entry.file for entries in postponed_entries.values() for entry in entries]
    row_count = sum(file.row_count for file in moved_files)
    return PostponedMove(row_count=row_count, file_count=len(moved_files), outcome=outcome)


def _move_partition(
    table: FileStoreTable,
    partition: bytes,
    postponed_files: Sequence[DataFileMeta],
    bucket_count: int,
    next_sequence_number: int,
) -> list[BucketChange]:
    """Write one partition's rows and return the changes; a failure deletes the new files.

    Args:
        bucket_count: the partition's number of buckets.
        next_sequence_number: a number greater than any in the table.
    """
    buffer_size = max(table.options[WRITE_BUFFER_SIZE] // bucket_count, _BUFFER_BYTES_MIN)
    options = {**table.schema.options, WRITE_BUFFER_SIZE.key: f"{buffer_size} b"}
    table_to_write = replace(table, schema=replace(table.schema, options=options))
    reader = table.bucket_files(partition, POSTPONED)
    writers: dict[int, BucketWriter] = {}
    changes: list[BucketChange] = []

    def write(rows: pa.RecordBatch) -> None:
        buckets = key_buckets(rows, table.schema, bucket_count)
        for _, bucket, bucket_rows in rows_by_bucket(rows, table.schema, buckets, bucket_count):
            if bucket not in writers:
                writers[bucket] = KEYED_KIND.make_bucket_writer(
                    table_to_write, partition, bucket, next_sequence_number=next_sequence_number
                )
            writers[bucket].write(bucket_rows)

    files = files_in_write_order(postponed_files)
    try:
        with merge_errors(table.paths.bucket_folder(partition, POSTPONED)):
            for file in files:
                for batch in reader.read(file):
                    write(batch.drop_columns([SEQUENCE_NUMBER]))
            for bucket in list(writers):
                written_files = writers[bucket].prepare_commit()
                changes.append(written_files.bucket_change(partition, bucket, bucket_count))
                del writers[bucket]
    except BaseException:
        for writer in writers.values():
            writer.abort()
        table.discard(changes)
        raise
    removal = BucketChange(
        partition=partition, bucket=POSTPONED, total_buckets=POSTPONED, removed_files=tuple(files)
    )
    return [removal, *changes]
