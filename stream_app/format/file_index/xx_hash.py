"""Computes xxHash64 of many texts at once, with the seed 0.

All texts take each step together, sorted by length; a text drops out at its end.

Source: Yann Collet, "xxHash fast digest algorithm", XXH64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Int64s
from stream_app.format.binary_row_columns import TextWords, Words

XxHashes = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE, _WORD, _HALF = 32, 8, 4
_ALL = 0xFFFFFFFFFFFFFFFF


def xx_hashes(texts: TextWords) -> XxHashes:
    """Return the hash of each text: uint64 [n]."""
    order = np.argsort(-texts.lengths, kind="stable")
    starts, lengths = texts.starts[order], texts.lengths[order]
    long_count = int(np.count_nonzero(lengths >= _STRIPE))
    state = np.full(len(order), _P5, dtype=np.uint64)
    state[:long_count] = _mix_stripes(texts.words_at, starts[:long_count], lengths[:long_count])
    state += lengths.view(np.uint64)
    _mix_rest(state, texts.words_at, starts, lengths)
    state ^= state >> np.uint64(33)
    state *= _P2
    state ^= state >> np.uint64(29)
    state *= _P3
    state ^= state >> np.uint64(32)
    hashes = np.empty_like(state)
    hashes[order] = state
    return hashes


def _mix_stripes(words_at: Words, starts: Int64s, lengths: Int64s) -> XxHashes:
    """Return the state after all 32-byte blocks of texts that have one, longest texts first."""
    seeds = (int(_P1) + int(_P2), int(_P2), 0, -int(_P1))
    lanes = [np.full(len(starts), seed & _ALL, dtype=np.uint64) for seed in seeds]
    counts = lengths // _STRIPE
    for stripe in range(int(counts[0]) if len(counts) else 0):
        active_count = int(np.searchsorted(-counts, -stripe, side="left"))
        for index, lane in enumerate(lanes):
            words = words_at[starts[:active_count] + (stripe * _STRIPE + index * _WORD)]
            lane[:active_count] = _round(lane[:active_count], words)
    state = sum(
        (_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)),
        start=np.zeros(len(starts), dtype=np.uint64),
    )
    for lane in lanes:
        state ^= _round(np.zeros_like(lane), lane)
        state = state * _P1 + _P4
    return state


def _mix_rest(state: XxHashes, words_at: Words, starts: Int64s, lengths: Int64s) -> None:
    """Mix in the last 0 to 31 bytes of each text: words, a half word, single bytes.

    Four texts, and where the reads of their last bytes begin::

        lengths       [45, 13, 6, 2]
        words         [32, 0, -, -]
        half words    [40, 8, 0, -]
        single bytes  [44, 12, 4, 0], then [-, -, 5, 1]
    """
    positions = lengths // _STRIPE * _STRIPE
    for _ in range(_STRIPE // _WORD - 1):
        indices = np.flatnonzero(lengths - positions >= _WORD)
        mixed_hashes = state[indices] ^ _round(
            np.uint64(0), words_at[starts[indices] + positions[indices]]
        )
        state[indices] = _rotate(mixed_hashes, 27) * _P1 + _P4
        positions[indices] += _WORD
    indices = np.flatnonzero(lengths - positions >= _HALF)
    halves = words_at[starts[indices] + positions[indices]] & np.uint64(0xFFFFFFFF)
    state[indices] = _rotate(state[indices] ^ halves * _P1, 23) * _P2 + _P3
    positions[indices] += _HALF
    for _ in range(_HALF - 1):
        indices = np.flatnonzero(lengths - positions >= 1)
        last_bytes = words_at[starts[indices] + positions[indices]] & np.uint64(0xFF)
        state[indices] = _rotate(state[indices] ^ last_bytes * _P5, 11) * _P1
        positions[indices] += 1


def _round(lane: XxHashes | np.uint64, words: XxHashes) -> XxHashes:
    mixed_lanes: XxHashes = _rotate(lane + words * _P2, 31) * _P1
    return mixed_lanes


def _rotate(values: XxHashes, bits: int) -> XxHashes:
    return values << np.uint64(bits) | values >> np.uint64(64 - bits)
