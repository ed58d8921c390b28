"""A job in one process that writes a table whose keys find their rows in any partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stream_app.cdc.change_batch import change_schema
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_change import BucketChange
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_commit import StreamTableCommit
from stream_app.table.key_index.key_placement import placed_rows
from stream_app.table.key_index.key_shares import KeyShares
from stream_app.table.kinds.tasks import table_write
from stream_app.table.opening import create_or_open
from tests.support.small_table import KINDS, Change, CompactHere, SteppingClock

COLUMNS = "id BIGINT NOT NULL, p STRING, v INT"


@dataclass
class CrossPartitionJob:
    """Writes epochs; each is begun and committed at once."""

    table: FileStoreTable
    user: str = "job"
    commit: StreamTableCommit = field(init=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.commit = StreamTableCommit(self.table, self.user, CompactHere(self.table))

    def write(self, *changes: Change) -> None:
        """An epoch of changes."""
        self.publish(self.written(changes))

    def written(self, changes: Sequence[Change]) -> list[BucketChange]:
        """Begin an epoch, and write its files."""
        first = self.commit.begin_epoch()
        rule = index_rule(self.table.schema)
        assert rule is not None
        assigned = KeyShares(self.table.schema, rule).assign(self.rows(changes))
        known = self.commit.state.history.known_id
        with table_write(self.table, next_sequence_number=first) as write:
            for partition, bucket, rows in placed_rows(self.table, known, assigned):
                write.write((partition, bucket), rows)
            return write.prepare_commit()

    def write_into(self, bucket: int, *changes: Change) -> None:
        """An epoch as of a writer with other ways: each row goes to the partition that it names."""
        first, types = self.commit.begin_epoch(), self.table.schema.partition_type.types
        with table_write(self.table, next_sequence_number=first) as write:
            for kind, row in sorted(changes, key=lambda change: str(change[1]["p"])):
                partition = serialize_row([row["p"]], types)
                write.write((partition, bucket), self.rows([(kind, row)]))
            self.publish(write.prepare_commit())

    def publish(self, changes: Sequence[BucketChange]) -> None:
        """Commit the epoch's files."""
        self.commit.commit_epoch(self.epoch, changes, properties={})
        self.epoch += 1

    def rows(self, changes: Sequence[Change]) -> pa.RecordBatch:
        """Changes as the rows of a format."""
        schema = change_schema(arrow_schema(self.table.schema.fields))
        kinds = pa.array([int(KINDS[kind]) for kind, _ in changes], pa.int8())
        columns = [
            pa.array([row.get(name) for _, row in changes], schema.field(name).type)
            for name in schema.names[1:]
        ]
        return pa.RecordBatch.from_arrays([kinds, *columns], schema=schema)


def cross_partition_table(
    folder: Path | str, columns: str = COLUMNS, **more: str
) -> FileStoreTable:
    """A new table with the key `id`, or `keys`, in partitions by `p`; `__` for a dot, _ for -."""
    keys = tuple(more.pop("keys", "id").split(","))
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=keys,
        partition_keys=("p",),
        options={key.replace("__", ".").replace("_", "-"): text for key, text in more.items()},
        time_millis=1,
    )
    return create_or_open(str(folder), schema, SteppingClock())
