"""Makes a table of some size, and writes, commits and compacts epochs of changes.

The job's own `TableJob` runs in this process, with the writers of its tasks and with its upkeep.
There is no Spark, no broker and no decoding. All seconds are the processor's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.growth.changed_rows import COLUMNS, KEYS, OLD_KEYS, partition_rows, random_changes
from bench.shop.shop_changes import fresh_folder
from stream_app.clock import SystemClock
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer, table_write
from stream_app.table.opening import create_or_open
from stream_app.table.write.bucket_writer import BucketWriter
from tests.support.files.flushed_files import flushed_files

BUCKETS = 2
_CHANGELOG = {"changelog-producer": "input"}
_TOP_LEVEL = 5
_UPDATE_AFTER = 2


@dataclass(frozen=True)
class EpochCost:
    """The processor seconds of writing files, of compactions, and of all else on the driver."""

    write_s: float
    compact_s: float
    commit_s: float

    @property
    def seconds(self) -> float:
        return self.write_s + self.compact_s + self.commit_s


@dataclass
class TimedCompactions:
    """A `CompactExecutor` that compacts in the caller, and counts the seconds."""

    table: FileStoreTable
    seconds: float = 0.0

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        """Compact at once; the next epoch publishes the change."""
        start_s = time.process_time()
        future: Future[BucketChange] = Future()
        future.set_result(compact_bucket(self.table, request))
        self.seconds += time.process_time() - start_s
        return future


@dataclass(frozen=True)
class Size:
    """The size of a table before its first epoch.

    Attributes:
        keys: the number of keys in each changing partition.
        changed_count: the number of partitions that each epoch changes.
        old: the number of further partitions, which do not change.
        snapshots: the number of snapshots that the table has and keeps.
    """

    keys: int
    changed_count: int = 1
    old: int = 0
    snapshots: int = 0


@dataclass
class GrowingTable:
    """A table and the job that writes it.

    Attributes:
        changes: the number of changes of an epoch.
    """

    folder: Path
    size: Size
    changes: int
    table: FileStoreTable = field(init=False)
    _job: TableJob = field(init=False)
    _compactions: TimedCompactions = field(init=False)
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    _epoch: int = 0

    def __post_init__(self) -> None:
        retention = {
            "snapshot.num-retained.min": str(self.size.snapshots),
            "snapshot.num-retained.max": str(self.size.snapshots),
        }
        schema = new_table_schema(
            columns=parse_columns(COLUMNS),
            primary_keys=KEYS,
            partition_keys=("p",),
            options={
                "bucket": str(BUCKETS),
                **_CHANGELOG,
                **(retention if self.size.snapshots else {}),
            },
            time_ms=1,
        )
        name = f"{self.size.keys}-{self.size.changed_count}-{self.size.old}-{self.size.snapshots}"
        self.table = create_or_open(fresh_folder(self.folder, name), schema, SystemClock())
        self._compactions = TimedCompactions(self.table)
        self._load()
        self._job = TableJob(self.table, lambda _: self._compactions)
        self._job.open("bench")
        while (self.table.snapshots.latest_id() or 0) < self.size.snapshots:
            self._commit([random_changes(self._rng, 1, range(1), self.size.keys)])

    def epoch(self) -> EpochCost:
        """Write, commit and compact an epoch of random changes."""
        changed_buckets = range(self.size.changed_count)
        return self._commit(
            [random_changes(self._rng, self.changes, changed_buckets, self.size.keys)]
        )

    def _commit(self, batches: Iterable[pa.RecordBatch]) -> EpochCost:
        start_s, earlier_compact_s = time.process_time(), self._compactions.seconds
        next_sequence_number = self._job.prepare_epoch()
        write_start_s = time.process_time()
        changes = _write(self.table, batches, next_sequence_number)
        write_s = time.process_time() - write_start_s
        self._job.stream_commit.commit_epoch(self._epoch, changes)
        self._job.upkeep.after_commit()
        compact_s = self._compactions.seconds - earlier_compact_s
        self._epoch += 1
        commit_s = time.process_time() - start_s - write_s - compact_s
        return EpochCost(write_s, compact_s, commit_s)

    def _load(self) -> None:
        """Commit the table's first rows, as one run of the highest level in each bucket."""
        options = {
            key: value for key, value in self.table.schema.options.items() if key not in _CHANGELOG
        }
        table = replace(self.table, schema=replace(self.table.schema, options=options))
        changes = []
        old_partitions = range(self.size.changed_count, self.size.changed_count + self.size.old)
        for partitions, keys in (
            (range(self.size.changed_count), self.size.keys),
            (old_partitions, OLD_KEYS),
        ):
            for partition in partitions:
                for change in _load(table, partition_rows(self._rng, partition, keys)):
                    files = tuple(file.at_level(_TOP_LEVEL) for file in change.added_files)
                    changes.append(replace(change, added_files=files))
        commit = FileStoreCommit(self.table, CommitHistory(self.table, "filled", None))
        commit.commit_appends(ManifestCommittable(identifier=0, changes=tuple(changes)))


def _load(table: FileStoreTable, batches: Iterable[pa.RecordBatch]) -> Iterator[BucketChange]:
    """Yield the files of a partition's rows. All its buckets have open writers at the same time."""
    assigner = bucket_assigner(table)
    writers: dict[BucketId, BucketWriter] = {}
    for batch in batches:
        for partition, bucket, part in assigner.assign(_as_changes(batch)):
            if (partition, bucket) not in writers:
                writer = bucket_writer(table, partition, bucket, next_sequence_number=0)
                writers[BucketId(partition, bucket)] = writer
            writers[BucketId(partition, bucket)].write(part)
    for (partition, bucket), writer in writers.items():
        yield flushed_files(writer, partition, bucket)


def _as_changes(rows: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.array(np.full(rows.num_rows, _UPDATE_AFTER, np.int8))
    return rows.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds)


def _write(
    table: FileStoreTable, batches: Iterable[pa.RecordBatch], next_sequence_number: int
) -> list[BucketChange]:
    """Return the output of one writing task of an epoch, bucket after bucket."""
    assigner = bucket_assigner(table)
    parts: dict[BucketId, list[pa.RecordBatch]] = {}
    for batch in batches:
        for partition, bucket, part in assigner.assign(_as_changes(batch)):
            parts.setdefault(BucketId(partition, bucket), []).append(part)
    with table_write(table, next_sequence_number=next_sequence_number) as task:
        for bucket_id, blocks in parts.items():
            for block in blocks:
                task.write(bucket_id, block)
        return task.prepare_commit()
