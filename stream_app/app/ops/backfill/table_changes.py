"""Turns the differences between a table and its source into changes, one bucket at a time.

Both kinds of backfill write these changes. A scope restricts them to some keys, and all other rows
stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.app.config.table_config import TableConfig
from stream_app.app.table_setup.comparable_rows import why_incomparable
from stream_app.errors import UnsupportedTableError
from stream_app.mergetree.key_differences import Differences, differences
from stream_app.mergetree.key_value_batch import retract_mask
from stream_app.model.bucket_id import BucketId
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.model.snapshot import Snapshot
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import to_expression
from stream_app.table.check.compared_rows import SnapshotRows, compared_table, deletes_of
from stream_app.table.check.doubled_keys import doubled_keys
from stream_app.table.check.source_check import SourceCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write.bucket_assigner import BucketRows

Scope = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Returns those of the given rows whose keys the backfill may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The number of rows that a backfill has changed, and its snapshot.

    Attributes:
        added_count, changed_count, deleted_count: numbers of the table's rows.
        snapshot: the new snapshot, or None for a dry run or without differences.
        waiting_note: a note that readers get rows only after a compaction; empty otherwise.
    """

    added_count: int
    changed_count: int
    deleted_count: int
    snapshot: Snapshot | None
    waiting_note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the table equals its source."""
        return not (self.added_count or self.changed_count or self.deleted_count)


def all_keys(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return all rows, as the scope of all keys."""
    return rows


def scope_of(condition: str | None, table: FileStoreTable) -> Scope:
    """Return the scope of the keys that meet a condition, or of all keys for None.

    Raises:
        UsageError: the condition is invalid, or reads columns outside of the key.
    """
    if condition is None:
        return all_keys
    keys = compared_table(table).schema
    fields = [field for field in keys.fields if field.name in keys.primary_keys]
    expression = to_expression(parse_predicate(condition, RowType(tuple(fields))))
    return lambda rows: rows.filter(expression)


def check_newest_row_decides(table: FileStoreTable, table_config: TableConfig) -> None:
    """Refuse a table in which the newest row of a key does not always replace the older ones.

    Raises:
        UnsupportedTableError: this is such a table.
    """
    if reason := why_incomparable(table.schema, table_config) or _why_unordered(table):
        raise UnsupportedTableError(
            f"the source does not determine the rows of the table: {reason}",
            where=table.location,
            fix="let a job with a new checkpoint make the table again",
        )


def _why_unordered(table: FileStoreTable) -> str:
    """Return why a key's last written row may lose against an older one, or an empty text."""
    fields = table.schema.sequence_fields
    return f"sequence.field = {','.join(fields)} may keep an older row" if fields else ""


@dataclass(slots=True, kw_only=True)
class TableChanges:
    """The differences between a table and the state of its source.

    Attributes:
        snapshot: the table's snapshot, or None for an empty table.
        is_whole: whether the state has all rows of the scope; if not, keys that it lacks stay.
        scope: selects the rows whose keys may be written.
    """

    table: FileStoreTable
    source_check: SourceCheck
    snapshot: Snapshot | None
    is_whole: bool
    scope: Scope = all_keys
    _counts: Counter[int] = field(init=False, default_factory=Counter)
    _duplicates: pa.RecordBatch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # Keys without a message must not change.
        if self.is_whole and self.snapshot is not None:
            duplicates = doubled_keys(self.table, self.snapshot)
            self._duplicates = None if duplicates is None else self.scope(duplicates)

    def duplicate_deletes(self) -> Iterator[BucketRows]:
        """Yield deletes of all rows of keys that are in several partitions, and count them."""
        if self._duplicates is not None:
            rows = SnapshotRows.of_snapshot(self.table, self.snapshot)
            for partition, bucket, deletes in deletes_of(
                rows, self.source_check.compared_table, self._duplicates
            ):
                yield from self._count(BucketId(partition, bucket), deletes)

    def bucket_changes(self) -> Iterator[BucketRows]:
        """Yield the changes of each bucket, and count them."""
        stored_state = self.source_check.stored_rows(self.snapshot, self._duplicates)
        buckets = {
            *self.source_check.source_rows.buckets,
            *(stored_state.buckets if self.is_whole else ()),
        }
        for bucket in sorted(buckets):
            expected_rows = self._in_scope(
                self.source_check.source_rows.rows(bucket, keeps_deletes=True)
            )
            stored_rows = self._in_scope(stored_state.rows(bucket))
            for row_differences in differences(
                self.source_check.compared_table.layout(), stored_rows, expected_rows
            ):
                yield from self._count(bucket, self._as_changes(row_differences))

    def written_rows(self, snapshot: Snapshot | None, waiting_note: str) -> WrittenRows:
        """Return the counts of the changes that the other methods have yielded."""
        return WrittenRows(
            added_count=self._counts[RowKind.INSERT],
            changed_count=self._counts[RowKind.UPDATE_AFTER],
            deleted_count=self._counts[RowKind.DELETE],
            snapshot=snapshot,
            waiting_note=waiting_note,
        )

    def _in_scope(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (rows for rows in map(self.scope, batches) if rows.num_rows)

    def _as_changes(self, row_differences: Differences) -> pa.RecordBatch:
        """Return the differences as changes in key order: +I, -D, and -U before its +U."""
        is_delete = retract_mask(row_differences.batch)[row_differences.order]
        becomes_delete = is_delete[row_differences.newer_indices]
        is_changed = ~row_differences.has_same_values() & ~becomes_delete
        older_indices = row_differences.older_indices[is_changed]
        newer_indices = row_differences.newer_indices[is_changed]
        update_keys = np.minimum(older_indices, newer_indices)
        inserted_indices = row_differences.added_indices[~is_delete[row_differences.added_indices]]
        deleted_indices = (
            row_differences.removed_indices
            if self.is_whole
            else row_differences.removed_indices[:0]
        )
        deleted_indices = np.concatenate(
            (deleted_indices, row_differences.older_indices[becomes_delete])
        )
        before_count = len(older_indices) if self.table.options.writes_changelog else 0
        parts = [
            (older_indices[:before_count], RowKind.UPDATE_BEFORE, update_keys[:before_count]),
            (newer_indices, RowKind.UPDATE_AFTER, update_keys),
            (inserted_indices, RowKind.INSERT, inserted_indices),
            (deleted_indices, RowKind.DELETE, deleted_indices),
        ]
        rows = np.concatenate([rows_of_kind for rows_of_kind, _, _ in parts])
        key_rows = np.concatenate([keys for _, _, keys in parts])
        kinds = np.concatenate([np.full(len(keys), kind, np.int8) for _, kind, keys in parts])
        order = np.argsort(key_rows, kind="stable")  # a -U precedes its +U
        batch = row_differences.batch.take(pa.array(row_differences.order[rows[order]]))
        return self._with_kinds(batch, kinds[order])

    def _with_kinds(
        self, batch: pa.RecordBatch, kinds: np.ndarray[tuple[int], np.dtype[np.int8]]
    ) -> pa.RecordBatch:
        names = [VALUE_KIND, *self.table.schema.fields.names]
        assert SEQUENCE_NUMBER not in names, "the writer gives it"
        columns = [pa.array(kinds), *(batch.column(name) for name in names[1:])]
        fields = [self.table.layout().schema.field(name) for name in names]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _count(self, bucket_id: BucketId, batch: pa.RecordBatch) -> Iterator[BucketRows]:
        if batch.num_rows:
            kinds, counts = np.unique(batch.column(VALUE_KIND).to_numpy(), return_counts=True)
            self._counts.update(dict(zip(kinds.tolist(), counts.tolist(), strict=True)))
            yield (*bucket_id, batch)
