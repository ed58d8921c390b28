"""Gives each change of a key share its partition and bucket, by the key index.

A writing task calls it for tables with cross-partition upsert. The rows of a key share arrive in
the order of the source, in parts of bounded size. Each part sees the keys that earlier parts moved.

Source: Paimon `crosspartition/GlobalIndexAssigner.java`, `DeleteExistingProcessor.java`,
`UseOldExistingProcessor.java`, `SkipNewExistingProcessor.java`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.format.arrow_schema import arrow_scalar
from stream_app.format.binary_row import deserialize_row, serialize_arrow_row
from stream_app.mergetree.key_value_batch import retract_kind_mask
from stream_app.mergetree.write.fill_unchanged import REASON
from stream_app.mergetree.write.mergeable_rows import check_mergeable
from stream_app.mergetree.write.row_kinds import accepted_mask, ignored_kinds
from stream_app.model.bucket_id import BucketId
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, UNCHANGED
from stream_app.model.traits.merge_engine import OlderRowRule
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndex, KeyIndexes
from stream_app.table.key_index.key_layer import GONE, BucketCodes, Keys
from stream_app.table.key_index.placed_changes import (
    NOWHERE,
    KeyChanges,
    PlacedChanges,
    place_changes,
)
from stream_app.table.key_index.table_key_reader import TableKeyReader
from stream_app.table.write.bucket_assigner import BucketRows, row_codes

_PAIR_BASE = 1 << 32
"""A number above the number of every bucket.

One integer stands for a partition and a bucket: the partition's number times this base, plus the
bucket.
"""


@dataclass(slots=True)
class KeyPlacement:
    """The placement of the rows of one task's key shares, one share after another.

    Attributes:
        snapshot_id: the number of the snapshot on which the epoch is based; 0: the table has no
            rows.
        refused_batches: rows that cannot be placed; see `WrittenFiles.refused_batches`.
    """

    table: FileStoreTable
    rule: IndexRule
    indexes: KeyIndexes
    snapshot_id: int
    refused_batches: list[pa.RecordBatch] = field(default_factory=list)
    _share: int = field(init=False, default=-1)
    _key_index: KeyIndex | None = field(init=False, default=None)

    def place(self, share: int, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Yield the rows by partition and bucket; inside a bucket in the order of the source.

        Args:
            rows: rows of a key share in the order of the source: `_VALUE_KIND`, the table's
                columns, and further columns if rows omit values.

        Raises:
            MergeError: the merge engine does not accept a row of this kind.
        """
        rows = self._without_ignored_rows(rows)
        if not rows.num_rows:
            return
        schema = self.table.schema
        check_mergeable(rows, schema.refusal_rules, schema.primary_keys)
        if self._key_index is None or share != self._share:
            self._key_index = self.indexes.index_at(share, self.snapshot_id)
            self._share = share
        rows_to_place = _RowsToPlace(self.table, self.rule, self._key_index, share, rows)
        while len(refused_indices := rows_to_place.unmovable_indices):
            self.refused_batches.append(_refused_records(rows, refused_indices))
            rows = rows.take(pa.array(np.setdiff1d(np.arange(rows.num_rows), refused_indices)))
            rows_to_place = _RowsToPlace(self.table, self.rule, self._key_index, share, rows)
        if rows.num_rows:
            yield from rows_to_place.place()

    def _without_ignored_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows that the writer would ignore, so that they move no key."""
        is_accepted = accepted_mask(rows, ignored_kinds(self.table.options))
        return rows if is_accepted.all() else rows.filter(pa.array(is_accepted))


def _refused_records(rows: pa.RecordBatch, refused_indices: Int64s) -> pa.RecordBatch:
    indices = pa.array(refused_indices)
    names = rows.column(UNCHANGED).take(indices)
    texts = pc.binary_join_element_wise(
        "column", names, "is unchanged and its value was not sent; the row moves to another "
        "partition, which has no value for it", " ",
    )  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [rows.column(MESSAGE_COLUMN).take(indices), texts], [MESSAGE_COLUMN, REASON]
    )


class _DecidedChanges(NamedTuple):
    """The changes of some rows, and the partitions where they take effect.

    Attributes:
        keys: the distinct keys of the changes [k].
        bucket_codes: int32 [k]; the code of the bucket of each key's row before the changes.
    """

    changes: KeyChanges
    placed_changes: PlacedChanges
    keys: Keys
    bucket_codes: BucketCodes


@dataclass
class _RowsToPlace:
    """Rows of one key share that are placed together."""

    table: FileStoreTable
    rule: IndexRule
    key_index: KeyIndex
    share: int
    rows: pa.RecordBatch
    _partitions: list[bytes] = field(init=False, default_factory=list)
    _partition_indices: dict[bytes, int] = field(init=False, default_factory=dict)

    def place(self) -> Iterator[BucketRows]:
        """Yield the rows by partition and bucket, and record their buckets in the index."""
        changes, placed_changes, keys, bucket_codes = self._decision
        partitions_before = changes.partitions_before
        stored_ids = [bucket for _, bucket in self.key_index.coded_buckets.ids]
        stored_buckets = np.array(stored_ids or [0], np.int64)
        new_key_buckets = self._buckets_of_new_keys()

        def buckets_in(key_numbers: Int64s, partitions: Int64s) -> Int64s:
            is_unmoved = (partitions == partitions_before[key_numbers]) | (partitions == NOWHERE)
            return np.where(
                is_unmoved, stored_buckets[bucket_codes[key_numbers]], new_key_buckets[partitions]
            )

        buckets = buckets_in(
            changes.key_numbers[placed_changes.change_indices], placed_changes.partitions
        )
        self._index_keys(
            keys,
            bucket_codes,
            buckets_in(np.arange(len(partitions_before)), placed_changes.partitions_after),
            placed_changes,
        )
        if len(buckets):
            yield from self._rows_by_bucket(placed_changes, changes.partitions, buckets)

    @cached_property
    def unmovable_indices(self) -> Int64s:
        """The rows that change partition but omit a value of the older row: int64 [m]."""
        if UNCHANGED not in self.rows.schema.names:
            return np.empty(0, np.int64)
        placed_changes = self._decision.placed_changes
        moving_indices = placed_changes.change_indices[placed_changes.deletes_older]
        omits_value = valid_of(self.rows.column(UNCHANGED))
        return moving_indices[omits_value[moving_indices]]

    @cached_property
    def _decision(self) -> _DecidedChanges:
        """Decide in which partition each change of the rows takes effect."""
        columns = self.rows.select(self.rule.keys)
        codes = row_codes(columns.columns, self.rows.num_rows)
        _, first_indices, codes = np.unique(codes, return_index=True, return_inverse=True)
        keys = TableKeyReader(self.table, self.rule).with_hashes(
            columns.take(pa.array(first_indices))
        )
        bucket_codes = self.key_index.find(keys)
        partitions = [
            self._partition_index(partition) for partition, _ in self.key_index.coded_buckets.ids
        ]
        is_stored = bucket_codes >= 0
        partitions_before = np.full(len(bucket_codes), NOWHERE, np.int64)
        partitions_before[is_stored] = np.array(partitions, np.int64)[bucket_codes[is_stored]]
        kinds = self.rows.column(VALUE_KIND).to_numpy()
        changes = KeyChanges(
            key_numbers=codes.astype(np.int64),
            partitions=self._named_partitions(),
            is_removal=self._is_removal(kinds),
            partitions_before=partitions_before,
        )
        placed_changes = place_changes(changes, self.rule.older_row_rule)
        return _DecidedChanges(changes, placed_changes, keys, bucket_codes)

    def _is_removal(self, kinds: npt.NDArray[np.int8]) -> Bools:
        """Return whether a key has no row after a change of each kind: bool [n]."""
        if self.rule.older_row_rule is OlderRowRule.MOVES:
            return retract_kind_mask(kinds)
        return np.asarray((kinds == int(RowKind.DELETE)) & self.rule.deletes_remove_rows)

    def _partition_index(self, partition: bytes) -> int:
        if partition not in self._partition_indices:
            self._partition_indices[partition] = len(self._partitions)
            self._partitions.append(partition)
        return self._partition_indices[partition]

    def _named_partitions(self) -> Int64s:
        """Return the index of the partition that each row names: int64 [n]."""
        columns = [self.rows.column(name) for name in self.table.schema.partition_keys]
        codes = row_codes(columns, self.rows.num_rows)
        _, first_indices, codes = np.unique(codes, return_index=True, return_inverse=True)
        types = self.table.schema.partition_type.types
        # The loop is over partitions, of which an epoch has few.
        partition_indices = [
            self._partition_index(serialize_arrow_row(columns, types, index))
            for index in first_indices.tolist()
        ]
        return np.array(partition_indices, np.int64)[codes]

    def _buckets_of_new_keys(self) -> Int64s:
        """Return each partition's bucket for the key share's new keys: int64 [partitions].

        A key share fills its buckets one after another. Their numbers differ by the number of
        shares.
        """
        shares = self.rule.share_count
        coded_buckets = self.key_index.coded_buckets
        if not self.rule.fills_buckets:
            return np.full(len(self._partitions), self.share, np.int64)
        counts: dict[bytes, dict[int, int]] = defaultdict(dict)
        for (partition, bucket), key_count in zip(
            coded_buckets.ids, coded_buckets.key_counts, strict=True
        ):
            if bucket % shares == self.share:
                counts[partition][bucket // shares] = key_count
        rules = DynamicBucketRules.of_options(self.table.options)
        bucket_count = len(range(self.share, rules.max_buckets, shares))
        rules = replace(rules, width=1, max_buckets=bucket_count)
        new_key_buckets = [
            open_buckets(counts[partition], rules)[0] for partition in self._partitions
        ]
        return np.array(new_key_buckets, np.int64) * shares + self.share

    def _index_keys(
        self, keys: Keys, bucket_codes: BucketCodes, buckets: Int64s, placed_changes: PlacedChanges
    ) -> None:
        """Record the keys' current buckets in the index.

        Args:
            buckets: the bucket of each key's row, int64 [k]; arbitrary for a key without a row.
        """
        new_codes = np.full(len(bucket_codes), GONE, np.int64)
        has_row = placed_changes.partitions_after != NOWHERE
        pairs = placed_changes.partitions_after[has_row] * _PAIR_BASE + buckets[has_row]
        distinct_pairs, pair_of_key = np.unique(pairs, return_inverse=True)
        # The loop is over buckets, of which an epoch has few.
        pair_codes = [
            self.key_index.coded_buckets.code(
                BucketId(self._partitions[pair // _PAIR_BASE], pair % _PAIR_BASE)
            )
            for pair in distinct_pairs.tolist()
        ]
        new_codes[has_row] = np.array(pair_codes, np.int64)[pair_of_key]
        moved_indices = np.flatnonzero(new_codes != bucket_codes)
        if len(moved_indices):
            self.key_index.move(
                keys.keys_at(moved_indices),
                bucket_codes[moved_indices],
                new_codes[moved_indices].astype(np.int32),
            )

    def _rows_by_bucket(
        self, placed_changes: PlacedChanges, named_partitions: Int64s, buckets: Int64s
    ) -> Iterator[BucketRows]:
        """Yield the placed changes as rows, by partition and bucket."""
        order = np.lexsort((buckets, placed_changes.partitions))
        partitions, buckets = placed_changes.partitions[order], buckets[order]
        change_indices = placed_changes.change_indices[order]
        is_delete = placed_changes.deletes_older[order]
        is_moved = partitions != named_partitions[change_indices]
        rows = self.rows.take(pa.array(change_indices))
        if is_delete.any():
            kinds = np.where(is_delete, np.int8(RowKind.DELETE), rows.column(0).to_numpy())
            rows = rows.set_column(0, rows.schema.field(0), pa.array(kinds, pa.int8()))
        differs = (partitions[1:] != partitions[:-1]) | (buckets[1:] != buckets[:-1])
        starts = [0, *(np.flatnonzero(differs) + 1).tolist(), len(order)]
        for start, end in itertools.pairwise(starts):
            bucket_partition = self._partitions[partitions[start]]
            bucket_rows = rows.slice(start, end - start)
            if is_moved[start:end].any():
                bucket_rows = self._with_partition(bucket_rows, bucket_partition)
            yield bucket_partition, int(buckets[start]), bucket_rows

    def _with_partition(self, rows: pa.RecordBatch, partition: bytes) -> pa.RecordBatch:
        """Return the rows with the values of a partition in their partition columns."""
        partition_type = self.table.schema.partition_type
        values = deserialize_row(partition, partition_type.types)
        for column, value in zip(partition_type, values, strict=True):
            index = rows.schema.get_field_index(column.name)
            scalar = arrow_scalar(value, column.data_type)
            rows = rows.set_column(
                index, rows.schema.field(index), pa.repeat(scalar, rows.num_rows)
            )
        return rows
