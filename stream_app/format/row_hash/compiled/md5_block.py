"""Adds a block of 64 bytes of each of 16 strings to their MD5.

`digests` uses it. The code has vectors of 16 words, one for each string. LLVM compiles each to the
vectors of the processor: one of AVX-512, two of AVX2, or four of SSE2.

Source: RFC 1321.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLOCK_SIZE = 64
LENGTH_SIZE = 8
"""The bytes of the number of a text's bits, which ends its last block."""
INITIAL_STATE = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
"""A text's state before its first block."""
LANE_COUNT = 16
"""The number of strings at once. A block has as many words, so the words are a square matrix."""
_WORD, _ADDRESS = ir.IntType(32), ir.IntType(64)
_WORDS = ir.VectorType(_WORD, LANE_COUNT)
_SINES = [int(abs(math.sin(step + 1)) * 2**32) for step in range(64)]
_SHIFTS = [
    shift for row in ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
    for shift in row * 4
]  # fmt: skip
_MESSAGE_WORDS = [
    (factor * step + first) % 16
    for factor, first, start in ((1, 0, 0), (5, 1, 16), (3, 5, 32), (7, 0, 48))
    for step in range(start, start + 16)
]


def _add_block() -> Callable[..., Any]:
    """Return an intrinsic of Numba that adds the next 64 bytes of each lane to its MD5 state."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        cursors, state = arguments
        blocks = [
            builder.load(
                _pointer(builder, builder.load(_element(builder, cursors, lane, _ADDRESS)), _WORDS),
                align=1,
            )
            for lane in range(LANE_COUNT)
        ]
        message = _transpose(builder, blocks)
        parts = [_element(builder, state, part, _WORDS) for part in range(4)]
        before = [builder.load(part, align=4) for part in parts]
        after = _run_steps(builder, before, message)
        for part, old, new in zip(parts, before, after, strict=True):
            builder.store(builder.add(old, new), part, align=4)
        return context.get_dummy_value()

    def add_block(_typing_context: Any, cursors: Any, state: Any) -> Any:
        del cursors, state
        return types.none(types.int64, types.int64), generate

    return cast(Callable[..., Any], intrinsic(add_block))


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _element(builder: Any, table: Any, element_index: int, kind: Any) -> Any:
    """Return a pointer to an element of a table."""
    size = LANE_COUNT * 4 if kind is _WORDS else 8
    return _pointer(builder, builder.add(table, ir.Constant(_ADDRESS, element_index * size)), kind)


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose 16 vectors of a string's words into 16 vectors of a word of each string.

    Each of four rounds interleaves the vectors of both halves, as a perfect shuffle of cards does.
    """
    half = LANE_COUNT // 2
    for _ in range(4):
        rows = [
            builder.shuffle_vector(
                rows[position // 2], rows[position // 2 + half], _interleaving(position % 2)
            )
            for position in range(LANE_COUNT)
        ]
    return rows


def _interleaving(half: int) -> Any:
    """Return the alternating words of the lower or upper halves of two vectors."""
    first_lane = half * (LANE_COUNT // 2)
    words = [
        first_lane + position // 2 + (position % 2) * LANE_COUNT for position in range(LANE_COUNT)
    ]
    return ir.Constant(_WORDS, [ir.Constant(_WORD, word) for word in words])


def _run_steps(builder: Any, state: list[Any], message: list[Any]) -> list[Any]:
    """Run the 64 steps."""
    a, b, c, d = state
    for step in range(64):
        mixed_word = _mix(builder, step, b, c, d)
        for term in (a, _constant(_SINES[step]), message[_MESSAGE_WORDS[step]]):
            mixed_word = builder.add(mixed_word, term)
        left = builder.shl(mixed_word, _constant(_SHIFTS[step]))
        right = builder.lshr(mixed_word, _constant(32 - _SHIFTS[step]))
        a, b, c, d = d, builder.add(builder.or_(left, right), b), b, c
    return [a, b, c, d]


def _mix(builder: Any, step: int, b: Any, c: Any, d: Any) -> Any:
    """Mix three words as the step's round does."""
    if step < 16:
        return builder.xor(builder.and_(builder.xor(c, d), b), d)
    if step < 32:
        return builder.xor(builder.and_(builder.xor(b, c), d), c)
    if step < 48:
        return builder.xor(builder.xor(b, c), d)
    return builder.xor(builder.or_(builder.not_(d), b), c)


def _constant(value: int) -> Any:
    return ir.Constant(_WORDS, [ir.Constant(_WORD, value)] * LANE_COUNT)


add_block: Callable[[int, int], None] = _add_block()
"""Add the next block of each of `LANE_COUNT` strings to its state.

Takes the address of a table of int64, the addresses of the blocks, and that of the state:
uint32 [4] of `LANE_COUNT` each.
"""
