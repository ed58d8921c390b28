"""Computes MD5 of many padded texts by machine code; each lane of a vector has its own text.

`hashed_columns` uses it. A lane whose text ends takes the next one. So texts need no order, and
lanes idle only at the end.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.format.row_hash.compiled.md5_block import (
    BLOCK_SIZE,
    INITIAL_STATE,
    LANE_COUNT,
    add_block,
)
from stream_app.machine_code.compiler import (
    compiled,
    length_at,
    number_at,
    put_int32,
    put_number,
)

_FIRST, _SECOND, _THIRD, _FOURTH = INITIAL_STATE
_INT64_SIZE = 8
_WORD_SIZE, _WORD_COUNT = 4, len(INITIAL_STATE)
"""The size of a word of a digest, and the number of words."""


class LaneBuffers(NamedTuple):
    """The addresses of buffers of int64 [LANE_COUNT], and of the state that `add_block` takes.

    Attributes:
        cursors, ends: where the next block of each lane's text begins, and where the text ends.
        texts: the number of each lane's text.
        state: the address.
    """

    cursors: int
    ends: int
    texts: int
    state: int


@compiled
def put_digests(starts: int, count: int, digests: int, lanes: LaneBuffers) -> None:
    """Put the digests of padded texts into a table, 16 bytes each.

    Args:
        starts: the address of a table of int64 [count + 1]: where each text begins, one after
            the other.
        count: at least 1.
    """
    for lane in range(LANE_COUNT):
        _begin_text(lane, lane, starts, count, lanes)
    next_text, finished_count = LANE_COUNT, 0
    while finished_count < count:
        add_block(lanes.cursors, lanes.state)
        for lane in range(LANE_COUNT):
            cursor = number_at(lanes.cursors + _INT64_SIZE * lane) + BLOCK_SIZE
            if cursor < number_at(lanes.ends + _INT64_SIZE * lane):
                put_number(lanes.cursors, lane, cursor)
                continue
            text = number_at(lanes.texts + _INT64_SIZE * lane)
            if text < count:
                _put_digest(
                    digests + _WORD_COUNT * _WORD_SIZE * text, lanes.state + _WORD_SIZE * lane
                )
                finished_count += 1
            _begin_text(lane, next_text, starts, count, lanes)
            next_text += 1


@compiled
def _begin_text(lane: int, text: int, starts: int, count: int, lanes: LaneBuffers) -> None:
    """Let a lane begin a text; a lane without one repeats the last, and its digest is left out."""
    start = starts + _INT64_SIZE * min(text, count - 1)
    put_number(lanes.cursors, lane, number_at(start))
    put_number(lanes.ends, lane, number_at(start + _INT64_SIZE))
    put_number(lanes.texts, lane, text)
    put_int32(lanes.state, lane, _FIRST)
    put_int32(lanes.state, LANE_COUNT + lane, _SECOND)
    put_int32(lanes.state, 2 * LANE_COUNT + lane, _THIRD)
    put_int32(lanes.state, 3 * LANE_COUNT + lane, _FOURTH)


@compiled
def _put_digest(digest: int, state: int) -> None:
    for word in range(_WORD_COUNT):
        put_int32(digest, word, length_at(state + _WORD_SIZE * LANE_COUNT * word))
