"""Looks up the newest rows of keys of a bucket, without reading the whole bucket.

Callers, such as the writer of unchanged values, have new rows and need the older ones. A lookup
uses all levels or some. It reads the newest files first, and searches each file only for keys that
this file may have and no newer file has.

1. Sort the keys.
2. Tier by tier (`lookup_plan`), read the row groups of each file that may have a key. Keep the rows
   of the remaining keys (`key_matches`).
3. Of several rows of a key, keep the newest. A delete means that the key has no row.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    integer_view,
    merge_order,
    retract_mask,
    rows_at,
)
from stream_app.mergetree.lookup.lookup_plan import Tier, keys_between, keys_in, lookup_tiers
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder

KeyAt = Callable[[pa.RecordBatch, int], bytes]
"""Serializes the key in a row of a batch."""


class WantedKeys(Sequence[Any]):
    """Keys in key order, decoded on demand to values comparable with those of `KeyOrder`."""

    def __init__(self, batch: pa.RecordBatch, key_at: KeyAt, key_of: KeyOrder) -> None:
        self.batch = batch
        self._key_at = key_at
        self._key_of = key_of

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> WantedKeys: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, end, _ = index.indices(len(self))
            part = self.batch.slice(start, max(end - start, 0))
            return WantedKeys(part, self._key_at, self._key_of)
        return self.comparable_key_at(self.batch, index)

    def comparable_key_at(self, batch: pa.RecordBatch, row_index: int) -> Any:
        """Return the decoded key in a row of a batch."""
        return self._key_of(self._key_at(batch, row_index))


class LookupFileReader(Protocol):
    """A reader of the rows of a file that may have one of the given keys."""

    def __call__(self, file: DataFileMeta, keys: WantedKeys, /) -> Iterator[pa.RecordBatch]:
        """Yield rows in key order, in the layout's schema; other keys may be missing.

        Raises:
            CorruptFileError: the file is missing, or cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """The rows of keys.

    Attributes:
        key_indices: int64 [k], ascending; the indices of the keys that have a row.
        rows: their rows [k], in the same order.
    """

    key_indices: Int64s
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLookup:
    """A lookup of rows in the files of one bucket.

    The newest row of a key wins, as in `merge_engines.deduplicate`.

    Attributes:
        layout: the layout of the rows, with the key, both system columns and the sequence fields.
        key_of: decodes a serialized key.
        key_at: serializes a row's key.
        read: reads files.
        ignores_deletes: whether to ignore -U and -D rows (``ignore-delete``).
    """

    layout: KeyValueLayout
    key_of: KeyOrder
    key_at: KeyAt
    read: LookupFileReader
    ignores_deletes: bool = False

    def rows(self, keys: pa.RecordBatch, files: Iterable[DataFileMeta]) -> RowsOfKeys:
        """Return the newest row of each key; deleted keys have none.

        Args:
            keys: the key columns of distinct keys, in any order.
            files: the files that may have the keys: all of a bucket, or those of some levels.

        Raises:
            CorruptFileError: a file is missing, or cannot be read.
        """
        names = list(self.layout.key_names)
        keys = keys.select(names)
        order, _ = merge_order(keys, KeyValueLayout(keys.schema, self.layout.key_names))  # step 1
        wanted_keys = WantedKeys(rows_at(keys, order), self.key_at, self.key_of)
        indices: list[Int64s] = []
        row_batches: list[pa.RecordBatch] = []
        wanted_indices = np.asarray(order)
        for tier in lookup_tiers(files, is_ordered_by_age=not self.layout.sequence_fields):
            if not len(wanted_indices):
                break
            key_indices, rows = self._newest_in_tier(tier, wanted_keys)  # step 2
            is_live = ~retract_mask(rows)  # step 3
            indices.append(wanted_indices[key_indices[is_live]])
            row_batches.append(rows if is_live.all() else rows_at(rows, np.flatnonzero(is_live)))
            is_missing = np.ones(len(wanted_indices), np.bool_)
            is_missing[key_indices] = False
            wanted_indices = wanted_indices[is_missing]
            wanted_keys = WantedKeys(
                rows_at(wanted_keys.batch, np.flatnonzero(is_missing)), self.key_at, self.key_of
            )
        return self._join(indices, row_batches)

    def _newest_in_tier(self, tier: Tier, wanted_keys: WantedKeys) -> tuple[Int64s, pa.RecordBatch]:
        """Return each key's newest row in a tier, including deletes, and the keys' indices."""
        indices: list[Int64s] = []
        matched_batches: list[pa.RecordBatch] = []
        for file in reversed(tier):  # the newest is last, and wins ties
            file_range = keys_in(file, wanted_keys, self.key_of)
            if not file_range:
                continue
            keys = wanted_keys[file_range.start : file_range.stop]
            for batch in filter(len, self.read(file, keys)):
                key_range = keys_between(
                    keys,
                    keys.comparable_key_at(batch, 0),
                    keys.comparable_key_at(batch, batch.num_rows - 1),
                )
                batch_keys = keys.batch.slice(key_range.start, len(key_range))
                key_indices, rows = key_matches(batch_keys, batch, self.layout.key_names)
                key_indices = key_indices + key_range.start
                matched_rows = rows_at(batch, rows)
                if self.ignores_deletes and (is_retract := retract_mask(matched_rows)).any():
                    matched_rows = rows_at(matched_rows, np.flatnonzero(~is_retract))
                    key_indices = key_indices[~is_retract]
                if len(key_indices):
                    indices.append(key_indices + file_range.start)
                    matched_batches.append(matched_rows)
        if not matched_batches:
            return np.empty(0, np.int64), self.layout.no_rows
        candidates = pa.concat_batches(matched_batches)
        key_indices = np.concatenate(indices)
        order, is_last = merge_order(candidates, self.layout)
        newest_indices = order[is_last]
        return key_indices[newest_indices], rows_at(candidates, newest_indices)

    def _join(self, indices: list[Int64s], row_batches: list[pa.RecordBatch]) -> RowsOfKeys:
        if not row_batches:
            return RowsOfKeys(np.empty(0, np.int64), self.layout.no_rows)
        key_indices = np.concatenate(indices)
        rows = pa.concat_batches(row_batches)
        order = np.argsort(key_indices, kind="stable")
        return RowsOfKeys(key_indices[order], rows_at(rows, order))


def key_matches(
    keys: pa.RecordBatch, rows: pa.RecordBatch, names: Sequence[str]
) -> tuple[Int64s, Int64s]:
    """Match keys with rows.

    Three keys and four rows::

        keys          [3, 5, 9]
        rows          [1, 3, 4, 9]
        key_indices   [0, 2]
        row_indices   [1, 3]

    Args:
        keys: distinct keys in ascending order; columns `names` [n].
        rows: rows with distinct keys in ascending order; columns `names` and others [m].
        names: the key columns.

    Returns:
        `key_indices`, int64 [k]: the index of each key with a row, ascending.
        `row_indices`, int64 [k]: the index of its row.
    """
    if len(names) > 1:
        return rows_with_keys(keys, rows, names)
    key_column, row_column = (integer_view(batch.column(names[0])) for batch in (keys, rows))
    if pa.types.is_integer(key_column.type) and not key_column.null_count + row_column.null_count:
        return _integer_matches(key_column, row_column)
    key_indices = pc.index_in(row_column, key_column)
    return key_indices.drop_null().to_numpy().astype(np.int64), np.flatnonzero(
        _valid_mask(key_indices)
    )


def _valid_mask(column: pa.Array) -> Bools:
    """Return the mask of rows where a column has a value: bool [n]."""
    is_valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return is_valid


def _integer_matches(key_column: pa.Array, row_column: pa.Array) -> tuple[Int64s, Int64s]:
    keys, rows = (column.to_numpy(zero_copy_only=False) for column in (key_column, row_column))
    indices = np.searchsorted(rows, keys)
    candidate_indices = np.flatnonzero(indices < len(rows))
    key_indices = candidate_indices[rows[indices[candidate_indices]] == keys[candidate_indices]]
    return key_indices, indices[key_indices]


def rows_with_keys(
    keys: pa.RecordBatch, rows: pa.RecordBatch, names: Sequence[str]
) -> tuple[Int64s, Int64s]:
    """Match keys with rows, of which several may have the same key.

    It narrows the matches column by column: it numbers the key prefixes, and keeps the rows that
    may match. Three keys and four rows of two columns::

        keys         a1  a2  b2
        rows         a2  b1  c2  a2
                     after the first column    after both
        key_numbers  [0, 0, 1]                 [0, 1, 2]     of the keys
        candidates   [0, 1, 3]                 [0, 3]        the rows that are left
        prefixes     [0, 1, 0]                 [1, 1]        their numbers

    Args:
        keys: distinct; columns `names` [n].
        rows: columns `names`, and others [m].

    Returns:
        The indices of the matching rows' keys, and of the rows, int64 [k] both.
    """
    key_numbers = np.zeros(keys.num_rows, np.int64)
    candidates = np.arange(rows.num_rows)
    prefixes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        values = pc.unique(keys.column(name))
        codes = pc.index_in(keys.column(name), values).to_numpy()
        row_codes = pc.index_in(rows.column(name).take(pa.array(candidates)), values)
        may_match = _valid_mask(row_codes)
        pairs = prefixes[may_match] * len(values) + row_codes.drop_null().to_numpy()
        distinct_numbers, key_numbers = np.unique(
            key_numbers * len(values) + codes, return_inverse=True
        )
        nearest_indices = np.minimum(
            np.searchsorted(distinct_numbers, pairs), max(len(distinct_numbers) - 1, 0)
        )
        is_match = distinct_numbers[nearest_indices] == pairs
        candidates, prefixes = candidates[may_match][is_match], nearest_indices[is_match]
    key_of_number = np.empty(keys.num_rows, np.int64)
    key_of_number[key_numbers] = np.arange(keys.num_rows)
    return key_of_number[prefixes], candidates
