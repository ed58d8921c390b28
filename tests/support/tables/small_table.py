"""Small tables that our own writer makes in this process, for tests of readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.bucket_hash import bucket_of
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer, table_write
from stream_app.table.opening import create_or_open
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from tests.support.files.flushed_files import flushed_files

KINDS = {kind.short: kind for kind in RowKind}
TIME_MS = 1_767_225_600_000  # 2026-01-01
Change = tuple[str, Mapping[str, Any]]


@dataclass
class SteppingClock(Clock):
    """A clock that advances by a second at each look; waiting takes no time."""

    millis: int = TIME_MS

    def now_ms(self) -> int:
        self.millis += 1000
        return self.millis

    def steady_seconds(self) -> float:
        return self.now_ms() / 1000

    def sleep(self, seconds: float) -> None:
        self.millis += int(seconds * 1000)


@dataclass
class StandingClock(Clock):
    """A clock that stands still until a test sets it or a caller sleeps."""

    millis: int = TIME_MS

    def now_ms(self) -> int:
        return self.millis

    def steady_seconds(self) -> float:
        return self.millis / 1000

    def sleep(self, seconds: float) -> None:
        self.millis += int(seconds * 1000)


@dataclass
class CompactHere:
    """An executor that compacts at once, in the caller's thread."""

    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        future: Future[BucketChange] = Future()
        future.set_result(compact_bucket(self.table, request))
        return future


@dataclass
class SmallTable:
    """A table to which each call of `commit` commits an epoch of rows.

    Attributes:
        epoch: the number of the next epoch.
    """

    table: FileStoreTable
    committer: StreamTableCommit = field(init=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.committer = StreamTableCommit(self.table, "tester", CompactHere(self.table))

    @property
    def path(self) -> str:
        return self.table.location

    def commit(self, *changes: Change, properties: Mapping[str, str] | None = None) -> None:
        """Write changes, in order, and commit them; compactions that are due begin."""
        first = self.committer.follow_and_wait()
        basis = self.committer.bucket_state.basis
        bucket_changes = write_changes(self.table, changes, first, basis) if changes else []
        self.committer.commit_epoch(self.epoch, bucket_changes, properties=properties, basis=basis)
        self.epoch += 1

    def compact(self) -> None:
        """Commit the compactions that are due."""
        self.committer.compact_due()


def write_changes(
    table: FileStoreTable, changes: Sequence[Change], first: int, basis: BucketBasis = NO_BASIS
) -> list[BucketChange]:
    """Write changes, in order, to the files of their buckets.

    Args:
        first: a sequence number.
        basis: by which they find their buckets.
    """
    schema = table.schema
    kinds = pa.array([int(KINDS[kind]) for kind, _ in changes], pa.int8())
    rows = pa.RecordBatch.from_pylist(
        [dict(row) for _, row in changes], arrow_schema(schema.fields)
    )
    batch = rows.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds)
    if schema.kind_traits.indexes_hashes or schema.kind_traits.postpones or basis.bucket_counts:
        with table_write(table, next_sequence_number=first, basis=basis) as write:
            for partition, bucket, part in bucket_assigner(table, basis).assign(batch):
                write.write(BucketId(partition, bucket), part)
            return write.prepare_commit()
    keys = [rows.column(name) for name in schema.bucket_keys]
    types = schema.fields.project(schema.bucket_keys).types
    buckets = [0] * len(changes)
    if schema.kind_traits.has_buckets:
        buckets = bucket_of(keys, types, table.options.bucket).tolist()
    parts = [rows.column(name) for name in schema.partition_keys]
    places: dict[tuple[bytes, int], list[int]] = {}
    for place, bucket in enumerate(buckets):
        partition = serialize_arrow_row(parts, schema.partition_type.types, place)
        places.setdefault((partition, bucket), []).append(place)
    bucket_changes = []
    for (partition, bucket), indices in places.items():
        writer = bucket_writer(table, partition, bucket, next_sequence_number=first)
        try:
            writer.write(batch.take(pa.array(indices)))
            bucket_changes.append(flushed_files(writer, partition, bucket))
        except BaseException:
            writer.abort()
            raise
    return bucket_changes


def small_table(
    path: Path | str,
    columns: str,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    **options: Any,
) -> SmallTable:
    """Create a table; option names have _ for - and __ for a dot."""
    texts = {
        key.replace("__", ".").replace("_", "-"): str(value).lower()
        for key, value in options.items()
    }
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=tuple(primary_keys),
        partition_keys=tuple(partition_keys),
        options={"bucket": "1" if primary_keys else "-1", **texts},
        time_ms=TIME_MS,
    )
    return SmallTable(create_or_open(str(path), schema, SteppingClock()))
