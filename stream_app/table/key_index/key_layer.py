"""A layer of the index: keys in the order of their hashes, and the bucket of each key's row.

A lookup finds a key by a binary search for its hash, and then compares the key itself. So different
keys may share a hash. A lookup handles m keys in columns, and repeats for the few hashes that
several keys share.

Source: Paimon `lookup/LocalKvStateFactory.java`; a sorted file of columns is stream_app's design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, Int64s
from stream_app.mergetree.key_value_batch import equal_values

BucketCodes = npt.NDArray[np.int32]
GONE = -1
"""Stands for a bucket's code: the key has no row."""
UNKNOWN = -2
"""Stands for a bucket's code: the layer does not have the key."""


@dataclass(frozen=True, slots=True)
class Keys:
    """n distinct keys.

    Attributes:
        hashes: int32 [n].
        columns: the key columns, [n] rows.
    """

    hashes: Int32s
    columns: pa.RecordBatch

    def keys_at(self, rows: Int64s) -> Keys:
        """Select keys by row number."""
        return Keys(self.hashes[rows], self.columns.take(pa.array(rows)))

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class KeyLayer:
    """n distinct keys in ascending order of their hashes.

    Attributes:
        bucket_codes: int32 [n]; `GONE` or a code of `key_layer_files.CodedBuckets`.
    """

    keys: Keys
    bucket_codes: BucketCodes

    def rows_of(self, wanted_keys: Keys) -> Int64s:
        """Return the row of each wanted key: int64 [m], -1 for a missing key."""
        row_of_key = np.full(len(wanted_keys), -1, np.int64)
        hashes = self.keys.hashes
        # In the order of hashes, the search visits each page of the file once.
        open_keys = np.argsort(wanted_keys.hashes, kind="stable")
        rows = np.searchsorted(hashes, wanted_keys.hashes[open_keys]).astype(np.int64)
        while len(open_keys):
            is_inside = rows < len(hashes)
            open_keys, rows = open_keys[is_inside], rows[is_inside]
            has_hash = hashes[rows] == wanted_keys.hashes[open_keys]
            open_keys, rows = open_keys[has_hash], rows[has_hash]
            is_same = _same_key_mask(self.keys.columns, rows, wanted_keys.columns, open_keys)
            row_of_key[open_keys[is_same]] = rows[is_same]
            open_keys, rows = open_keys[~is_same], rows[~is_same] + 1
        return row_of_key

    def codes_of(self, wanted_keys: Keys) -> BucketCodes:
        """Return the code of the bucket of each wanted key, or `GONE`, or `UNKNOWN`: int32 [m]."""
        rows = self.rows_of(wanted_keys)
        bucket_codes = np.full(len(wanted_keys), UNKNOWN, np.int32)
        bucket_codes[rows >= 0] = self.bucket_codes[rows[rows >= 0]]
        return bucket_codes


def _same_key_mask(
    left: pa.RecordBatch, left_rows: Int64s, right: pa.RecordBatch, right_rows: Int64s
) -> Bools:
    """Return whether the keys in each pair of rows are equal: bool [m]."""
    is_same = np.ones(len(left_rows), np.bool_)
    if len(left_rows):
        left, right = left.take(pa.array(left_rows)), right.take(pa.array(right_rows))
        for left_column, right_column in zip(left.columns, right.columns, strict=True):
            is_same &= equal_values(left_column, right_column)
    return is_same


def layer_of(keys: Keys, bucket_codes: BucketCodes) -> KeyLayer:
    """Build a layer from distinct keys in any order."""
    order = np.argsort(keys.hashes, kind="stable")
    return KeyLayer(keys.keys_at(order), bucket_codes[order])


def codes_of_keys(layers: Sequence[KeyLayer], wanted_keys: Keys) -> BucketCodes:
    """Return the code of each key's bucket in layers, lowest first; `GONE` without a row."""
    bucket_codes = np.full(len(wanted_keys), GONE, np.int32)
    open_keys = np.arange(len(wanted_keys))
    for layer in reversed(layers):
        if not len(open_keys):
            break
        layer_codes = layer.codes_of(
            wanted_keys.keys_at(open_keys) if len(open_keys) < len(wanted_keys) else wanted_keys
        )
        is_known = layer_codes != UNKNOWN
        bucket_codes[open_keys[is_known]] = layer_codes[is_known]
        open_keys = open_keys[~is_known]
    return bucket_codes


def merged_layer(layers: Sequence[KeyLayer], *, is_lowest: bool) -> KeyLayer:
    """Merge a stack of layers into one.

    Args:
        layers: at least one layer, lowest first.
        is_lowest: whether no layer is below, so that the result omits keys without a row.
    """
    merged = layers[-1]
    for lower in reversed(layers[:-1]):
        covered_rows = lower.rows_of(merged.keys)
        is_uncovered = np.ones(len(lower.bucket_codes), np.bool_)
        is_uncovered[covered_rows[covered_rows >= 0]] = False
        lower_keys = lower.keys.keys_at(np.flatnonzero(is_uncovered))
        columns = pa.concat_batches([lower_keys.columns, merged.keys.columns])
        hashes = np.concatenate([lower_keys.hashes, merged.keys.hashes])
        merged = layer_of(
            Keys(hashes, columns),
            np.concatenate([lower.bucket_codes[is_uncovered], merged.bucket_codes]),
        )
    if is_lowest and (merged.bucket_codes == GONE).any():
        rows = np.flatnonzero(merged.bucket_codes != GONE)
        merged = KeyLayer(merged.keys.keys_at(rows), merged.bucket_codes[rows])
    return merged
