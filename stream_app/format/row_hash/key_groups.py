"""Sums rows by groups of their keys, so that few numbers locate the rows in which two sides differ.

A key's group is the first three hexadecimal digits of the MD5 of its text. So a database computes
it too (`app.ops.source_comparison.database_side`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.format.row_hash.row_hashes import row_hashes
from stream_app.format.row_hash.row_texts import PlacedColumn, row_texts
from stream_app.model.checksum.row_sum import RowSum

GROUP_COUNT = 4096
_SHIFT = np.uint64(64 - 12)

HashedRows = Counter[tuple[bytes, int, int]]
"""How often there is a row, by the text of its key and its two numbers."""


@dataclass(slots=True)
class GroupSums:
    """The sums of rows by groups of their keys."""

    keys: Sequence[PlacedColumn]
    columns: Sequence[PlacedColumn]
    _row_counts: np.ndarray = field(init=False)
    _sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self._row_counts = np.zeros(GROUP_COUNT, np.int64)
        self._sums = np.zeros((2, GROUP_COUNT), np.uint64)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        groups = groups_of(rows, self.keys)
        self._row_counts += np.bincount(groups, minlength=GROUP_COUNT)
        for sums, hashes in zip(self._sums, row_hashes(rows, self.columns), strict=True):
            np.add.at(sums, groups, hashes)

    def sums(self) -> Mapping[int, RowSum]:
        """Return the sums of the groups that have rows."""
        high, low = self._sums
        return {
            int(group): RowSum(int(self._row_counts[group]), int(high[group]), int(low[group]))
            for group in np.flatnonzero(self._row_counts)
        }


def groups_of(rows: pa.RecordBatch, keys: Sequence[PlacedColumn]) -> np.ndarray:
    """Return the group of each row: int64 [n]."""
    high, _ = row_hashes(rows, keys)
    return (high >> _SHIFT).astype(np.int64)


def hashed_rows(
    batches: Iterable[pa.RecordBatch],
    keys: Sequence[PlacedColumn],
    columns: Sequence[PlacedColumn],
    groups: Collection[int],
) -> HashedRows:
    """Return the rows of groups. Callers request only differing groups, which are few."""
    counts: HashedRows = Counter()
    group_numbers = list(groups)
    for rows in batches:
        group_rows = rows.take(
            pa.array(np.flatnonzero(np.isin(groups_of(rows, keys), group_numbers)))
        )
        data, offsets = row_texts(group_rows, keys)
        text = data.tobytes()
        ends = offsets.tolist()
        high, low = (lane.tolist() for lane in row_hashes(group_rows, columns))
        texts = (text[start:end] for start, end in itertools.pairwise(ends))
        counts.update(zip(texts, high, low, strict=True))
    return counts


def group_by_key(hashed_rows: HashedRows) -> dict[bytes, HashedRows]:
    """Return the rows of each key."""
    rows_by_key: dict[bytes, HashedRows] = {}
    for row, count in hashed_rows.items():
        rows_by_key.setdefault(row[0], Counter())[row] = count
    return rows_by_key


def key_texts(rows: pa.RecordBatch, keys: Sequence[PlacedColumn]) -> pa.Array:
    """Return the text of each row's key: large_binary [n]."""
    data, offsets = row_texts(rows, keys)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), rows.num_rows, buffers)
