"""A job in one process that writes a table whose keys find their rows in any partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer, table_write
from stream_app.table.opening import create_or_open
from stream_app.table.versions.bucket_basis import BucketBasis
from tests.support.files.flushed_files import flushed_files
from tests.support.tables.small_table import KINDS, Change, CompactHere, SteppingClock

COLUMNS = "id BIGINT NOT NULL, p STRING, v INT"


@dataclass
class CrossPartitionJob:
    """A writer that begins and commits each epoch at once."""

    table: FileStoreTable
    user: str = "job"
    commit: StreamTableCommit = field(init=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.commit = StreamTableCommit(self.table, self.user, CompactHere(self.table))

    def write(self, *changes: Change) -> None:
        """Write and commit an epoch of changes."""
        self.publish(self.written(changes))

    def written(self, changes: Sequence[Change]) -> list[BucketChange]:
        """Begin an epoch, and write its files."""
        first = self.commit.follow_and_wait()
        basis_id = self.commit.bucket_state.basis.snapshot_id
        with table_write(
            self.table, next_sequence_number=first, basis=BucketBasis(snapshot_id=basis_id)
        ) as write:
            for _, share, rows in bucket_assigner(self.table).assign(self.rows(changes)):
                write.write(BucketId(b"", share), rows)
            return write.prepare_commit()

    def write_into(self, bucket: int, *changes: Change) -> None:
        """Write an epoch as a foreign writer: each row goes to the partition that it names."""
        first, types = self.commit.follow_and_wait(), self.table.schema.partition_type.types
        written = []
        for number, (kind, row) in enumerate(changes):
            partition = serialize_row([row["p"]], types)
            writer = bucket_writer(
                self.table, partition, bucket, next_sequence_number=first + number
            )
            writer.write(self.rows([(kind, row)]))
            written.append(flushed_files(writer, partition, bucket))
        self.publish(written)

    def publish(self, changes: Sequence[BucketChange]) -> None:
        """Commit the epoch's files."""
        basis = self.commit.bucket_state.basis
        self.commit.commit_epoch(self.epoch, changes, basis=basis)
        self.epoch += 1

    def rows(self, changes: Sequence[Change]) -> pa.RecordBatch:
        """Return changes as the rows of a format."""
        schema = schema_of_changes(arrow_schema(self.table.schema.fields))
        kinds = pa.array([int(KINDS[kind]) for kind, _ in changes], pa.int8())
        columns = [
            pa.array([row.get(name) for _, row in changes], schema.field(name).type)
            for name in schema.names[1:]
        ]
        return pa.RecordBatch.from_arrays([kinds, *columns], schema=schema)


def cross_partition_table(
    folder: Path | str, columns: str = COLUMNS, **more: str
) -> FileStoreTable:
    """Create a table with the key `id`, or `keys`, and partitions by `p`; `__` is a dot, _ a -."""
    keys = tuple(more.pop("keys", "id").split(","))
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=keys,
        partition_keys=("p",),
        options={key.replace("__", ".").replace("_", "-"): text for key, text in more.items()},
        time_ms=1,
    )
    return create_or_open(str(folder), schema, SteppingClock())
