"""Computes MD5 of many short byte strings at once, in columns.

`row_sums` uses it. A step of MD5 is one NumPy operation on all strings, so a string costs about as
many nanoseconds as it has bytes. Few strings are hashed one by one, because a step costs
microseconds whatever their number. MD5 was chosen because each database has it, not for protection
against forgery.

Source: RFC 1321.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Bytes, Int64s

UInt64s = npt.NDArray[np.uint64]
UInt32s = npt.NDArray[np.uint32]

_FEW = 500
"""So many strings take hashlib half as long as the steps of one block take NumPy."""
_STRINGS_AT_ONCE = 8192
"""Arrays of so many words of 32 bits stay in a core's cache."""
_SINES: Final = [np.uint32(int(abs(math.sin(i + 1)) * 2**32) & 0xFFFFFFFF) for i in range(64)]
_SHIFTS: Final = [
    shift for row in ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
    for shift in row * 4
]  # fmt: skip
_BEGIN: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_BLOCK = 64
_LENGTH_BYTES = 8


def md5_lanes(data: Bytes, offsets: Int64s) -> tuple[UInt64s, UInt64s]:
    """Return the MD5 of each string as two big-endian numbers: the first and the last 8 bytes.

    Args:
        data: the strings, one after another.
        offsets: int64 [n + 1]; the begin of each string in `data`, and the end of the last.

    Returns:
        uint64 [n] and uint64 [n].
    """
    count = len(offsets) - 1
    if count < _FEW:
        return _one_by_one(data, offsets)
    high, low = np.empty(count, np.uint64), np.empty(count, np.uint64)
    padded = np.concatenate([data, np.zeros(_LENGTH_BYTES, np.uint8)])
    # This view reads 8 bytes at any offset.
    words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))
    lengths = offsets[1:] - offsets[:-1]
    blocks = (lengths + _LENGTH_BYTES) // _BLOCK + 1
    order = np.argsort(blocks, kind="stable")
    for begin in range(0, count, _STRINGS_AT_ONCE):
        # Neighbours in this order have similar numbers of blocks.
        places = order[begin : begin + _STRINGS_AT_ONCE]
        high[places], low[places] = _digests(
            words, offsets[places], lengths[places], blocks[places]
        )
    return high, low


def _one_by_one(data: Bytes, offsets: Int64s) -> tuple[UInt64s, UInt64s]:
    """Return the two lanes of a few strings, by hashlib."""
    text, ends = data.tobytes(), offsets.tolist()
    digests = b"".join(
        hashlib.md5(text[begin:end], usedforsecurity=False).digest()
        for begin, end in itertools.pairwise(ends)
    )
    lanes = np.frombuffer(digests, ">u8").astype(np.uint64)
    return lanes[0::2], lanes[1::2]


def _digests(
    words: UInt64s, starts: Int64s, lengths: Int64s, blocks: Int64s
) -> tuple[UInt64s, UInt64s]:
    """Return the two lanes of strings in the order of their `blocks`."""
    state = [np.full(len(starts), word, np.uint32) for word in _BEGIN]
    for block in range(int(blocks[-1])):
        first = int(np.searchsorted(blocks, block, side="right"))
        message = _message(words, starts[first:], lengths[first:], block, blocks[first:])
        _add_block([part[first:] for part in state], message)
    high, low = (
        (first.byteswap().astype(np.uint64) << np.uint64(32)) | second.byteswap()
        for first, second in (state[:2], state[2:])
    )
    return high, low


def _message(
    words: UInt64s, starts: Int64s, lengths: Int64s, block: int, blocks: Int64s
) -> list[UInt32s]:
    """Return the 16 words of each string's block, padded: uint32 [n] each."""
    pairs = np.empty((_BLOCK // 8, len(starts)), np.uint64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for number, pair in enumerate(pairs):
        at = block * _BLOCK + number * 8
        if at > longest:
            pair[:] = 0
            continue
        pair[:] = words[np.minimum(starts + at, len(words) - 1)]
        if at + 8 > shortest:
            rest = lengths - at
            bits = (np.clip(rest, 0, 7) * 8).astype(np.uint64)
            end = np.uint64(0x80) << bits
            cut = (pair & ((np.uint64(1) << bits) - np.uint64(1))) | end
            pair[:] = np.where(rest >= 8, pair, np.where(rest >= 0, cut, np.uint64(0)))
    last = blocks == block + 1
    pairs[-1][last] = (lengths[last] * 8).astype(np.uint64)
    halves = ((pair.astype(np.uint32), (pair >> np.uint64(32)).astype(np.uint32)) for pair in pairs)
    return [half for pair in halves for half in pair]


def _add_block(state: list[UInt32s], message: list[UInt32s]) -> None:
    """Run the 64 steps on a block of each string, in place."""
    a, b, c, d = (part.copy() for part in state)
    mixed, turned = np.empty_like(a), np.empty_like(a)
    for step in range(64):
        place = _mix(step, b, c, d, mixed)
        mixed += a
        mixed += _SINES[step]
        mixed += message[place]
        shift = _SHIFTS[step]
        np.right_shift(mixed, np.uint32(32 - shift), out=turned)
        np.left_shift(mixed, np.uint32(shift), out=mixed)
        mixed |= turned
        mixed += b
        a, b, c, d, mixed = d, mixed, b, c, a
    for part, new in zip(state, (a, b, c, d), strict=True):
        np.add(part, new, out=part)


def _mix(step: int, b: UInt32s, c: UInt32s, d: UInt32s, out: UInt32s) -> int:
    """Mix three words into `out` as in the step's round, and return the message word's index."""
    if step < 16:  # d ^ (b & (c ^ d))
        np.bitwise_xor(c, d, out=out)
        out &= b
        out ^= d
        return step
    if step < 32:  # c ^ (d & (b ^ c))
        np.bitwise_xor(b, c, out=out)
        out &= d
        out ^= c
        return (5 * step + 1) % 16
    if step < 48:
        np.bitwise_xor(b, c, out=out)
        out ^= d
        return (3 * step + 5) % 16
    np.invert(d, out=out)
    out |= b
    out ^= c
    return 7 * step % 16
