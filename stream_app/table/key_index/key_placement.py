"""Takes the changes of a share and gives each its partition and bucket, by the index of keys.

The body of a writing task calls it for tables whose keys find their rows in any partition. The
rows of a share come in the order of the source, in parts of bounded size. What one part has moved,
the next one finds.

Source: Paimon `crosspartition/GlobalIndexAssigner.java`, `DeleteExistingProcessor.java`,
`UseOldExistingProcessor.java`, `SkipNewExistingProcessor.java`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import valid_of
from stream_app.format.arrow_schema import arrow_scalar
from stream_app.format.binary_row import deserialize_row, serialize_arrow_row
from stream_app.mergetree.fill_unchanged import REASON
from stream_app.mergetree.row_kinds import check_mergeable
from stream_app.model.merge_engine import Existing
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import MESSAGE, UNCHANGED
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndex, KeyIndexes
from stream_app.table.key_index.key_layer import GONE, Keys, Places, Rows, key_codes
from stream_app.table.key_index.table_keys import TableKeys
from stream_app.table.write.bucket_assigner import BucketRows
from stream_app.table.write.bucket_writer import ignored_kinds

_BUCKETS = 1 << 32


@dataclass(slots=True)
class KeyPlacement:
    """Places the rows of an epoch's shares in one task, a share after the other.

    Attributes:
        snapshot_id: of the version on which the epoch is written; 0: the table has no rows.
        refused: rows that cannot be placed; see `WrittenFiles.refused`.
    """

    table: FileStoreTable
    rule: IndexRule
    indexes: KeyIndexes
    snapshot_id: int
    refused: list[pa.RecordBatch] = field(default_factory=list)
    _share: int = -1
    _index: KeyIndex | None = None

    def place(self, share: int, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """The rows by partition and bucket; inside a bucket in the order of the source.

        Args:
            rows: `_VALUE_KIND` and the table's columns, and the further ones of rows that leave
                values out. Those of a share in the order of the source, a share after the other.

        Raises:
            MergeError: the merge engine does not take a row of this kind.
        """
        rows = self._without_ignored(rows)
        if not rows.num_rows:
            return
        schema = self.table.schema
        check_mergeable(rows, schema.refused_rows, schema.primary_keys)
        if self._index is None or share != self._share:
            self._share, self._index = share, self.indexes.at(share, self.snapshot_id)
        part = _PlacedRows(self.table, self.rule, self._index, share, rows)
        while len(refused := part.cannot_move):
            self.refused.append(_refusal(rows, refused))
            rows = rows.take(pa.array(np.setdiff1d(np.arange(rows.num_rows), refused)))
            part = _PlacedRows(self.table, self.rule, self._index, share, rows)
        if rows.num_rows:
            yield from part.placed()

    def _without_ignored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A row that its writer would drop moves nothing."""
        ignored = ignored_kinds(self.table.options)
        if not ignored:
            return rows
        kept = ~np.isin(rows.column(VALUE_KIND).to_numpy(), [int(kind) for kind in ignored])
        return rows if kept.all() else rows.filter(pa.array(kept))


def _refusal(rows: pa.RecordBatch, refused: Rows) -> pa.RecordBatch:
    at = pa.array(refused)
    names = rows.column(UNCHANGED).take(at)
    texts = pc.binary_join_element_wise(
        "column", names, "is unchanged and its value was not sent; its row moves to another "
        "partition, where no value is", " ",
    )  # fmt: skip
    return pa.RecordBatch.from_arrays([rows.column(MESSAGE).take(at), texts], [MESSAGE, REASON])


@dataclass
class _PlacedRows:
    """Rows of one share that are placed together."""

    table: FileStoreTable
    rule: IndexRule
    index: KeyIndex
    share: int
    rows: pa.RecordBatch
    _partitions: list[bytes] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def placed(self) -> Iterator[BucketRows]:
        """The rows by partition and bucket; the index knows it from then on."""
        changes, placed_changes, keys, places = self.decided
        before = changes.before
        of_places = np.array([bucket for _, bucket in self.index.places.buckets] or [0], np.int64)
        opened = self._open()

        def bucket_in(key: Rows, partition: Rows) -> Rows:
            stays = (partition == before[key]) | (partition == NOWHERE)
            return np.where(stays, of_places[places[key]], opened[partition])

        buckets = bucket_in(changes.key[placed_changes.source], placed_changes.partition)
        self._put(
            keys, places, bucket_in(np.arange(len(before)), placed_changes.after), placed_changes
        )
        if len(buckets):
            yield from self._cut(placed_changes, changes.partition, buckets)

    @cached_property
    def cannot_move(self) -> Rows:
        """The rows that leave out a value and move: it stands where the older row is."""
        if UNCHANGED not in self.rows.schema.names:
            return np.empty(0, np.int64)
        moving = self.decided[1].source[self.decided[1].deletes_older]
        leaves_out = valid_of(self.rows.column(UNCHANGED))
        return moving[leaves_out[moving]]

    @cached_property
    def decided(self) -> tuple[KeyChanges, PlacedChanges, Keys, Places]:
        """The changes, where they take effect, their keys, and the keys' places before."""
        columns = self.rows.select(self.rule.keys)
        codes = key_codes(columns.columns, self.rows.num_rows)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        keys = TableKeys(self.table, self.rule).hashed(columns.take(pa.array(first)))
        places = self.index.find(keys)
        partitions = [self._number(partition) for partition, _ in self.index.places.buckets]
        before = np.full(len(places), NOWHERE, np.int64)
        before[places >= 0] = np.array(partitions, np.int64)[places[places >= 0]]
        kinds = self.rows.column(VALUE_KIND).to_numpy()
        changes = KeyChanges(
            key=codes.astype(np.int64),
            partition=self._named_partitions(),
            adds=(kinds & 1) == 0,
            ends=self._ends(kinds),
            before=before,
        )
        return changes, placed(changes, self.rule.existing), keys, places

    def _ends(self, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        if self.rule.existing is Existing.MOVES:
            return np.asarray((kinds & 1) == 1)
        return np.asarray((kinds == int(RowKind.DELETE)) & self.rule.deletes_end)

    def _number(self, partition: bytes) -> int:
        if partition not in self._numbers:
            self._numbers[partition] = len(self._partitions)
            self._partitions.append(partition)
        return self._numbers[partition]

    def _named_partitions(self) -> Rows:
        """The number of the partition that each row names, int64 [n]."""
        columns = [self.rows.column(name) for name in self.table.schema.partition_keys]
        codes = key_codes(columns, self.rows.num_rows)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        types = self.table.schema.partition_type.types
        # A loop over partitions, of which an epoch has few.
        numbers = [self._number(serialize_arrow_row(columns, types, row)) for row in first.tolist()]
        return np.array(numbers, np.int64)[codes]

    def _open(self) -> Rows:
        """The bucket of each partition for the share's new keys, int64 [partitions].

        A share fills its buckets one after the other, in steps of the number of shares.
        """
        shares, places = self.rule.shares, self.index.places
        if not self.rule.fills_buckets:
            return np.full(len(self._partitions), self.share, np.int64)
        counts: dict[bytes, dict[int, int]] = defaultdict(dict)
        for (partition, bucket), keys in zip(places.buckets, places.counts, strict=True):
            if bucket % shares == self.share:
                counts[partition][bucket // shares] = keys
        rules = DynamicBucketRules.of(self.table.options)
        own = len(range(self.share, rules.max_buckets, shares))
        rules = replace(rules, width=1, max_buckets=own)
        opened = [open_buckets(counts[partition], rules)[0] for partition in self._partitions]
        return np.array(opened, np.int64) * shares + self.share

    def _put(
        self, keys: Keys, places: Places, buckets: Rows, placed_changes: PlacedChanges
    ) -> None:
        """Let the index know where the keys are now.

        Args:
            buckets: of each key's row, int64 [k]; any number where it has none.
        """
        numbers = np.full(len(places), GONE, np.int64)
        lives = placed_changes.after != NOWHERE
        pairs = placed_changes.after[lives] * _BUCKETS + buckets[lives]
        distinct, at = np.unique(pairs, return_inverse=True)
        # A loop over buckets, of which an epoch has few.
        of_pairs = [
            self.index.places.number((self._partitions[pair // _BUCKETS], pair % _BUCKETS))
            for pair in distinct.tolist()
        ]
        numbers[lives] = np.array(of_pairs, np.int64)[at]
        moved = np.flatnonzero(numbers != places)
        if len(moved):
            self.index.put(keys.take(moved), places[moved], numbers[moved].astype(np.int32))

    def _cut(
        self, placed_changes: PlacedChanges, named: Rows, buckets: Rows
    ) -> Iterator[BucketRows]:
        """The placed changes as rows, by partition and bucket."""
        order = np.lexsort((buckets, placed_changes.partition))
        partition, bucket = placed_changes.partition[order], buckets[order]
        source, deletes = placed_changes.source[order], placed_changes.deletes_older[order]
        elsewhere = partition != named[source]
        rows = self.rows.take(pa.array(source))
        if deletes.any():
            kinds = np.where(deletes, np.int8(RowKind.DELETE), rows.column(0).to_numpy())
            rows = rows.set_column(0, rows.schema.field(0), pa.array(kinds, pa.int8()))
        differs = (partition[1:] != partition[:-1]) | (bucket[1:] != bucket[:-1])
        starts = [0, *(np.flatnonzero(differs) + 1).tolist(), len(order)]
        for start, stop in itertools.pairwise(starts):
            where, part = self._partitions[partition[start]], rows.slice(start, stop - start)
            if elsewhere[start:stop].any():
                part = self._in_partition(part, where)
            yield where, int(bucket[start]), part

    def _in_partition(self, rows: pa.RecordBatch, partition: bytes) -> pa.RecordBatch:
        """The rows with the partition columns of the bucket to which they go."""
        partition_type = self.table.schema.partition_type
        values = deserialize_row(partition, partition_type.types)
        for column, value in zip(partition_type, values, strict=True):
            at = rows.schema.get_field_index(column.name)
            scalar = arrow_scalar(value, column.data_type)
            rows = rows.set_column(at, rows.schema.field(at), pa.repeat(scalar, rows.num_rows))
        return rows


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """n changes of k keys in the order of the source.

    Attributes:
        key: int64 [n], from 0 to k - 1.
        partition: int64 [n]; the partition that the change names.
        adds: bool [n]; whether the key has a row after it.
        ends: bool [n]; whether the key has no row after it.
        before: int64 [k]; the partition of each key's row before; `NOWHERE`: it has none.
    """

    key: Ints
    partition: Ints
    adds: Bools
    ends: Bools
    before: Ints


@dataclass(frozen=True, slots=True)
class PlacedChanges:
    """m changes in the order of the source.

    Attributes:
        source: int64 [m]; of which change each is made.
        partition: int64 [m]; where it takes effect.
        deletes_older: bool [m]; whether it deletes the row that the change has found.
        after: int64 [k]; the partition of each key's row afterwards, or `NOWHERE`.
    """

    source: Ints
    partition: Ints
    deletes_older: Bools
    after: Ints


def placed(changes: KeyChanges, existing: Existing) -> PlacedChanges:
    """Where changes take effect, in whole columns.

    The changes of a key stand in the order of the source. What one of them meets is what the one
    before has left. Three changes of a key whose row is in partition 7::

        change        +U in 8    -D of 8    +I in 9
        meets         7          8          nowhere
        becomes       -D in 7,   -D in 8    +I in 9
                      +U in 8

    Paimon's delete also goes to the partition that it names; here it goes to its row alone.
    """
    order = np.argsort(changes.key, kind="stable")
    ordered = KeyChanges(
        key=changes.key[order],
        partition=changes.partition[order],
        adds=changes.adds[order],
        ends=changes.ends[order],
        before=changes.before,
    )
    placing = _moved if existing is Existing.MOVES else _settled
    source, partition, deletes_older, after = placing(ordered, existing)
    source = order[source]
    back = np.lexsort((~deletes_older, source))
    return PlacedChanges(source[back], partition[back], deletes_older[back], after)


def _moved(changes: KeyChanges, _: Existing) -> tuple[Ints, Ints, Bools, Ints]:
    """The newer row counts: the older one is deleted where it is."""
    count = len(changes.key)
    first, last = _bounds(changes.key)
    left = np.where(changes.ends, NOWHERE, changes.partition)
    previous = np.empty(count, np.int64)
    previous[1:] = left[:-1]
    previous[first] = changes.before[changes.key[first]]
    at = np.arange(count)
    older = at[changes.adds & (previous != NOWHERE) & (previous != changes.partition)]
    added, deleted = at[changes.adds], at[changes.ends & (previous != NOWHERE)]
    source = np.concatenate([older, added, deleted])
    partition = np.concatenate([previous[older], changes.partition[added], previous[deleted]])
    deletes_older = np.zeros(len(source), np.bool_)
    deletes_older[: len(older)] = True
    after = changes.before.copy()
    after[changes.key[last]] = left[last]
    return source, partition, deletes_older, after


def _settled(changes: KeyChanges, existing: Existing) -> tuple[Ints, Ints, Bools, Ints]:
    """The older row keeps its partition, and takes the newer ones in or makes them void."""
    count = len(changes.key)
    first, last = _bounds(changes.key)
    begins = first.copy()
    begins[1:] |= changes.ends[:-1]  # behind an end, a key settles anew
    starts = np.flatnonzero(begins)
    known = np.where(first, changes.before[changes.key], NOWHERE)[starts]
    chosen = np.where(known == NOWHERE, changes.partition[starts], known)
    settled = np.repeat(chosen, np.diff([*starts.tolist(), count]))
    lacks = begins & changes.ends  # it ends a row that there is not
    lacks[starts] &= known == NOWHERE
    kept = ~lacks
    if existing is Existing.SKIPS:
        kept &= changes.partition == settled
    source = np.flatnonzero(kept)
    after = changes.before.copy()
    after[changes.key[last]] = np.where(changes.ends, NOWHERE, settled)[last]
    return source, settled[source], np.zeros(len(source), np.bool_), after


def _bounds(key: Ints) -> tuple[Bools, Bools]:
    """Where the changes of a key begin and end, in sorted order."""
    differs = key[1:] != key[:-1]
    first, last = np.ones(len(key), np.bool_), np.ones(len(key), np.bool_)
    first[1:], last[:-1] = differs, differs
    return first, last
