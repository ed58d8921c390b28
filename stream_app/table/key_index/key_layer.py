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
from stream_app.mergetree.key_value_batch import has_equal_values

BucketCodes = npt.NDArray[np.int32]
GONE = -1
"""Stands for a bucket's code: the key has no row."""
NOT_IN_LAYER = -2
"""Stands for a bucket's code: the layer does not have the key."""


@dataclass(frozen=True, slots=True)
class Keys:
    """n distinct keys.

    Attributes:
        hashes: int32 [n].
        batch: the key columns, [n] rows.
    """

    hashes: Int32s
    batch: pa.RecordBatch

    def keys_at(self, indices: Int64s) -> Keys:
        """Select keys by index."""
        return Keys(self.hashes[indices], self.batch.take(pa.array(indices)))

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

    def indices_of(self, wanted_keys: Keys) -> Int64s:
        """Return the index of each wanted key: int64 [m], -1 for a missing key."""
        index_of_key = np.full(len(wanted_keys), -1, np.int64)
        hashes = self.keys.hashes
        # In the order of hashes, the search visits each page of the file once.
        open_indices = np.argsort(wanted_keys.hashes, kind="stable")
        indices = np.searchsorted(hashes, wanted_keys.hashes[open_indices]).astype(np.int64)
        while len(open_indices):
            is_inside = indices < len(hashes)
            open_indices, indices = open_indices[is_inside], indices[is_inside]
            has_hash = hashes[indices] == wanted_keys.hashes[open_indices]
            open_indices, indices = open_indices[has_hash], indices[has_hash]
            is_same = _same_key_mask(self.keys.batch, indices, wanted_keys.batch, open_indices)
            index_of_key[open_indices[is_same]] = indices[is_same]
            open_indices, indices = open_indices[~is_same], indices[~is_same] + 1
        return index_of_key

    def codes_of(self, wanted_keys: Keys) -> BucketCodes:
        """Return each wanted key's bucket code, or `GONE`, or `NOT_IN_LAYER`: int32 [m]."""
        indices = self.indices_of(wanted_keys)
        bucket_codes = np.full(len(wanted_keys), NOT_IN_LAYER, np.int32)
        bucket_codes[indices >= 0] = self.bucket_codes[indices[indices >= 0]]
        return bucket_codes


def _same_key_mask(
    left: pa.RecordBatch, left_indices: Int64s, right: pa.RecordBatch, right_indices: Int64s
) -> Bools:
    """Return whether the keys in each pair of rows are equal: bool [m]."""
    is_same = np.ones(len(left_indices), np.bool_)
    if len(left_indices):
        left, right = left.take(pa.array(left_indices)), right.take(pa.array(right_indices))
        for left_column, right_column in zip(left.columns, right.columns, strict=True):
            is_same &= has_equal_values(left_column, right_column)
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
        is_known = layer_codes != NOT_IN_LAYER
        bucket_codes[open_keys[is_known]] = layer_codes[is_known]
        open_keys = open_keys[~is_known]
    return bucket_codes


def merged_layer(layers: Sequence[KeyLayer], *, is_lowest: bool) -> KeyLayer:
    """Merge a stack of layers into one.

    Args:
        layers: at least one layer, lowest first.
        is_lowest: whether no layer is below, so that the result omits keys without a row.
    """
    combined_layer = layers[-1]
    for lower_layer in reversed(layers[:-1]):
        covered_indices = lower_layer.indices_of(combined_layer.keys)
        is_uncovered = np.ones(len(lower_layer.bucket_codes), np.bool_)
        is_uncovered[covered_indices[covered_indices >= 0]] = False
        lower_keys = lower_layer.keys.keys_at(np.flatnonzero(is_uncovered))
        batch = pa.concat_batches([lower_keys.batch, combined_layer.keys.batch])
        hashes = np.concatenate([lower_keys.hashes, combined_layer.keys.hashes])
        combined_layer = layer_of(
            Keys(hashes, batch),
            np.concatenate([lower_layer.bucket_codes[is_uncovered], combined_layer.bucket_codes]),
        )
    if is_lowest and (combined_layer.bucket_codes == GONE).any():
        indices = np.flatnonzero(combined_layer.bucket_codes != GONE)
        combined_layer = KeyLayer(
            combined_layer.keys.keys_at(indices), combined_layer.bucket_codes[indices]
        )
    return combined_layer
