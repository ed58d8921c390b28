"""Computes a row's bucket as the Murmur3 hash of the bucket key's BinaryRow.

Source: Paimon `bucket/DefaultBucketFunction.java`, `utils/MurmurHashUtils.java`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bytes, Int64s
from stream_app.format.binary_row_columns import (
    TextWords,
    encode_columns,
    has_fixed_width,
    row_words,
)
from stream_app.model.schema.data_type import DataType

MurmurHashes = npt.NDArray[np.uint32]
"""Murmur3's state of each row, or one 32-bit word of each row: uint32 [n]."""

_SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MIX_ADD = 0xE6546B64
_FINAL_1, _FINAL_2 = 0x85EBCA6B, 0xC2B2AE35
_MASK = 0xFFFFFFFF
_BLOCK_ROW_COUNT = 16_384  # so that a block's arrays stay in the processor's cache


def murmur_hash(data: bytes) -> int:
    """Return the signed 32-bit hash of BinaryRow bytes (a multiple of four, without arity)."""
    state = _SEED
    for position in range(0, len(data), 4):
        state = _mix_int(state, int.from_bytes(data[position : position + 4], "little"))
    state ^= len(data)
    state ^= state >> 16
    state = state * _FINAL_1 & _MASK
    state ^= state >> 13
    state = state * _FINAL_2 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _mix_int(state: int, word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    state ^= word * _C2 & _MASK
    state = (state << 13 | state >> 19) & _MASK
    return (state * 5 + _MIX_ADD) & _MASK


def _mix(state: MurmurHashes, words: MurmurHashes, scratch: MurmurHashes) -> None:
    """Mix one word of each row into `state`, and overwrite `words`."""
    words *= np.uint32(_C1)
    np.right_shift(words, np.uint32(17), out=scratch)
    words <<= np.uint32(15)
    words |= scratch
    words *= np.uint32(_C2)
    state ^= words
    np.right_shift(state, np.uint32(19), out=scratch)
    state <<= np.uint32(13)
    state |= scratch
    state *= np.uint32(5)
    state += np.uint32(_MIX_ADD)


def _finish(
    state: MurmurHashes, scratch: MurmurHashes, byte_lengths: np.uint32 | MurmurHashes
) -> None:
    state ^= byte_lengths
    for shift, factor in ((16, _FINAL_1), (13, _FINAL_2)):
        np.right_shift(state, np.uint32(shift), out=scratch)
        state ^= scratch
        state *= np.uint32(factor)
    np.right_shift(state, np.uint32(16), out=scratch)
    state ^= scratch


def hash_rows(flat: Bytes, offsets: Int64s) -> npt.NDArray[np.int32]:
    """Return the hashes of rows in the layout of `encode_columns`.

    A step hashes one word of each row. Four rows of 6, 10, 6 and 6 words::

        counts                  [6, 10, 6, 6]
        order, longest first    [1, 0, 2, 3]
        words 0 to 5            all four rows have one
        words 6 to 9            only the first row in that order, row 1, has one

    Args:
        flat: uint8 [bytes of all rows].
        offsets: int64 [n + 1], in bytes.

    Returns:
        int32 [n].
    """
    words = flat.view(np.uint32)
    starts = offsets[:-1] // 4
    counts = np.diff(offsets) // 4
    # Sort the longest rows first, so that the rows with a further word always come first.
    order = np.argsort(-counts, kind="stable")
    hashes = np.empty(len(order), dtype=np.uint32)
    for start in range(0, len(order), _BLOCK_ROW_COUNT):
        row_indices = order[start : start + _BLOCK_ROW_COUNT]
        hashes[row_indices] = _hash_block(words, starts[row_indices], counts[row_indices])
    return hashes.view(np.int32)


def _hash_block(words: MurmurHashes, starts: Int64s, counts: Int64s) -> MurmurHashes:
    """Hash rows in descending order of length.

    Args:
        words: uint32 [words of all rows].
        starts, counts: int64 [n], in 32-bit words; `counts` never rises.
    """
    state = np.full(len(starts), _SEED, dtype=np.uint32)
    scratch = np.empty_like(state)
    for index in range(int(counts[0])):
        active_count = len(starts)
        if counts[-1] <= index:
            active_count = int(np.searchsorted(-counts, -index, side="left"))
        _mix(state[:active_count], words[starts[:active_count] + index], scratch[:active_count])
    _finish(state, scratch, (counts * 4).astype(np.uint32))
    return state


def murmur_hashes(texts: TextWords) -> npt.NDArray[np.int32]:
    """Return the hashes of texts of any length, which mix whole words first, then single bytes.

    Four texts, the longest first::

        texts      ["Spark", "", "kafka io", "abc"]
        order      [2, 0, 3, 1]
        lengths    [8, 5, 3, 0]
        counts     [2, 1, 0, 0]    whole words; only the first text in that order has word 1
        rest       [0, 1, 3, 0]    single bytes
        hashes     [228093765, 142593372, 1548311382, 1322437556]    in the texts' order

    Source: Paimon `utils/MurmurHashUtils.java#hashBytes`.

    Returns:
        int32 [n].
    """
    order = np.argsort(-texts.lengths, kind="stable")
    starts, lengths = texts.starts[order], texts.lengths[order]
    state = np.full(len(order), _SEED, dtype=np.uint32)
    counts = lengths // 4
    for index in range(int(counts[0]) if len(counts) else 0):
        active_count = int(np.searchsorted(-counts, -index, side="left"))
        words = texts.words_at[starts[:active_count] + 4 * index].astype(np.uint32)
        _mix(state[:active_count], words, np.empty_like(words))
    for index in range(3):
        indices = np.flatnonzero(lengths % 4 > index)
        positions = starts[indices] + 4 * counts[indices] + index
        # Java's bytes have signs.
        words = (
            texts.words_at[positions]
            .astype(np.uint8)
            .view(np.int8)
            .astype(np.int32)
            .view(np.uint32)
        )
        mixed_hashes = state[indices]
        _mix(mixed_hashes, words, np.empty_like(words))
        state[indices] = mixed_hashes
    _finish(state, np.empty_like(state), lengths.astype(np.uint32))
    hashes = np.empty_like(state)
    hashes[order] = state
    return hashes.view(np.int32)


def _hash_fixed_width(columns: Sequence[pa.Array], types: Sequence[DataType]) -> MurmurHashes:
    """Hash rows whose columns all have a fixed width: uint32 [n]."""
    halves: list[MurmurHashes | int] = []
    for word in row_words(columns, types):
        if isinstance(word, np.ndarray):
            pair = np.ascontiguousarray(word).view(np.uint32).reshape(-1, 2)
            halves += [pair[:, 0], pair[:, 1]]
        else:
            halves += [int(word) & _MASK, int(word) >> 32]
    # Words that are equal in all rows come first, so they are mixed only once.
    seed = _SEED
    constant_count = 0
    while constant_count < len(halves) and isinstance(halves[constant_count], int):
        seed = _mix_int(seed, int(halves[constant_count]))
        constant_count += 1
    hashes = np.full(len(columns[0]), seed, dtype=np.uint32)
    for start in range(0, len(hashes), _BLOCK_ROW_COUNT):
        state = hashes[start : start + _BLOCK_ROW_COUNT]
        scratch = np.empty_like(state)
        for half in halves[constant_count:]:
            if isinstance(half, int):
                words = np.full_like(state, half)
            else:
                words = half[start : start + _BLOCK_ROW_COUNT].copy()
            _mix(state, words, scratch)
        _finish(state, scratch, np.uint32(4 * len(halves)))
    return hashes


def hash_columns(columns: Sequence[pa.Array], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """Return the hash of each row: int32 [n]; for the arguments see `bucket_of`."""
    if has_fixed_width(types):
        return _hash_fixed_width(columns, types).view(np.int32)
    return hash_rows(*encode_columns(columns, types))


def bucket_of(
    columns: Sequence[pa.Array], types: Sequence[DataType], bucket_count: int
) -> npt.NDArray[np.int32]:
    """Return each row's bucket, from 0 to `bucket_count` - 1.

    Four rows of ``a INT`` in two buckets::

        a         [1, 2, 3, 4]
        hashes    [1465514398, 1340390384, -771300025, 1447522506]
        buckets   [0, 0, 1, 0]    the magnitude of hash % 2

    Args:
        columns: arrays [n] of the bucket key's columns, in the order of the bucket key.
        types: the exact types of the table's schema, because an INT hashes differently from a
            BIGINT.

    Returns:
        int32 [n].
    """
    assert bucket_count >= 1, bucket_count
    return share_of(hash_columns(columns, types), bucket_count)


def share_of(hashes: npt.NDArray[np.int32], share_count: int) -> npt.NDArray[np.int32]:
    """Return the key share of each hash, from 0 to `share_count` - 1: int32 [n]."""
    # This is abs(hash % n) with Java's truncating %. The smallest int's magnitude only fits
    # unsigned.
    magnitudes = np.abs(hashes).view(np.uint32)
    remainders: npt.NDArray[np.int32] = (magnitudes % np.uint32(share_count)).view(np.int32)
    return remainders
