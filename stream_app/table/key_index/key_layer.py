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

from stream_app.arrow_buffers import Int32s, Int64s
from stream_app.mergetree.key_value_batch import equal_values

BucketCodes = npt.NDArray[np.int32]
GONE = -1
"""Stands in for a bucket's code: the key has no row."""
UNKNOWN = -2
"""Stands in for a bucket's code: the layer does not have the key."""


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
        bucket_codes: int32 [n]; `GONE` or a code of `share_files.CodedBuckets`.
    """

    keys: Keys
    bucket_codes: BucketCodes

    def rows_of(self, wanted_keys: Keys) -> Int64s:
        """Return the row of each wanted key: int64 [m], -1 for a missing key."""
        row_of_key = np.full(len(wanted_keys), -1, np.int64)
        hashes = self.keys.hashes
        # In the order of hashes, the search visits each page of the file once.
        open_ = np.argsort(wanted_keys.hashes, kind="stable")
        rows = np.searchsorted(hashes, wanted_keys.hashes[open_]).astype(np.int64)
        while len(open_):
            inside = rows < len(hashes)
            inside[inside] = hashes[rows[inside]] == wanted_keys.hashes[open_[inside]]
            open_, rows = open_[inside], rows[inside]
            same = _same_keys(self.keys.columns, rows, wanted_keys.columns, open_)
            row_of_key[open_[same]] = rows[same]
            open_, rows = open_[~same], rows[~same] + 1
        return row_of_key

    def codes_of(self, wanted_keys: Keys) -> BucketCodes:
        """Return the code of the bucket of each wanted key, or `GONE`, or `UNKNOWN`: int32 [m]."""
        rows = self.rows_of(wanted_keys)
        bucket_codes = np.full(len(wanted_keys), UNKNOWN, np.int32)
        bucket_codes[rows >= 0] = self.bucket_codes[rows[rows >= 0]]
        return bucket_codes


def _same_keys(
    left: pa.RecordBatch, left_rows: Int64s, right: pa.RecordBatch, right_rows: Int64s
) -> np.ndarray:
    same = np.ones(len(left_rows), np.bool_)
    for column, other in zip(left.columns, right.columns, strict=True):
        if len(left_rows):
            same &= equal_values(column.take(pa.array(left_rows)), other.take(pa.array(right_rows)))
    return same


def layer_of(keys: Keys, bucket_codes: BucketCodes) -> KeyLayer:
    """Build a layer from distinct keys in any order."""
    order = np.argsort(keys.hashes, kind="stable")
    return KeyLayer(keys.keys_at(order), bucket_codes[order])


def codes_of_keys(layers: Sequence[KeyLayer], wanted_keys: Keys) -> BucketCodes:
    """Return the code of each key's bucket in layers, lowest first; `GONE` without a row."""
    bucket_codes = np.full(len(wanted_keys), GONE, np.int32)
    open_ = np.arange(len(wanted_keys))
    for layer in reversed(layers):
        if not len(open_):
            break
        layer_codes = layer.codes_of(
            wanted_keys.keys_at(open_) if len(open_) < len(wanted_keys) else wanted_keys
        )
        is_known = layer_codes != UNKNOWN
        bucket_codes[open_[is_known]] = layer_codes[is_known]
        open_ = open_[~is_known]
    return bucket_codes


def merged_layer(layers: Sequence[KeyLayer], *, is_lowest: bool) -> KeyLayer:
    """Merge a stack of layers into one.

    Args:
        layers: at least one layer, lowest first.
        is_lowest: whether no layer is below, so that the result omits keys without a row.
    """
    result = layers[-1]
    for lower in reversed(layers[:-1]):
        covered = lower.rows_of(result.keys)
        is_uncovered = np.ones(len(lower.bucket_codes), np.bool_)
        is_uncovered[covered[covered >= 0]] = False
        below = lower.keys.keys_at(np.flatnonzero(is_uncovered))
        columns = pa.concat_batches([below.columns, result.keys.columns])
        hashes = np.concatenate([below.hashes, result.keys.hashes])
        result = layer_of(
            Keys(hashes, columns),
            np.concatenate([lower.bucket_codes[is_uncovered], result.bucket_codes]),
        )
    if is_lowest and (result.bucket_codes == GONE).any():
        rows = np.flatnonzero(result.bucket_codes != GONE)
        result = KeyLayer(result.keys.keys_at(rows), result.bucket_codes[rows])
    return result


def key_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """Number the rows' keys from 0 on, equal keys equally: int64 [rows]."""
    codes = np.zeros(rows, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy().astype(np.int64)
        if len(columns) > 1:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes
