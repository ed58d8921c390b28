"""Computes MD5 of many padded texts by machine code; each lane of a vector has its own text.

`hashed_columns` uses it. A lane whose text ends takes the next one. So texts need no order, and
lanes idle only at the end.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.format.row_hash.compiled.md5_block import BEGIN, BLOCK, LANES, add_block
from stream_app.machine_code.compiler import (
    compiled,
    length_at,
    number_at,
    put_length,
    put_number,
)

_FIRST, _SECOND, _THIRD, _FOURTH = BEGIN


class LaneTables(NamedTuple):
    """The addresses of tables of int64 [LANES], and of the state that `add_block` takes.

    Attributes:
        places, ends: where the next block of each lane's text begins, and where the text ends.
        texts: the number of each lane's text.
        state: the address.
    """

    places: int
    ends: int
    texts: int
    state: int


@compiled
def put_digests(places: int, count: int, digests: int, lanes: LaneTables) -> None:
    """Put the digests of padded texts into a table, 16 bytes each.

    Args:
        places: the address of a table of int64 [count + 1]: where each text begins, one behind the
            other.
        count: at least 1.
    """
    for lane in range(LANES):
        _take(lane, lane, places, count, lanes)
    next_text, finished = LANES, 0
    while finished < count:
        add_block(lanes.places, lanes.state)
        for lane in range(LANES):
            place = number_at(lanes.places + 8 * lane) + BLOCK
            if place < number_at(lanes.ends + 8 * lane):
                put_number(lanes.places, lane, place)
                continue
            text = number_at(lanes.texts + 8 * lane)
            if text < count:
                _put_digest(digests + 16 * text, lanes.state + 4 * lane)
                finished += 1
            _take(lane, next_text, places, count, lanes)
            next_text += 1


@compiled
def _take(lane: int, text: int, places: int, count: int, lanes: LaneTables) -> None:
    """Let a lane begin a text; a lane without one repeats the last, and its digest is left out."""
    at = places + 8 * min(text, count - 1)
    put_number(lanes.places, lane, number_at(at))
    put_number(lanes.ends, lane, number_at(at + 8))
    put_number(lanes.texts, lane, text)
    put_length(lanes.state, lane, _FIRST)
    put_length(lanes.state, LANES + lane, _SECOND)
    put_length(lanes.state, 2 * LANES + lane, _THIRD)
    put_length(lanes.state, 3 * LANES + lane, _FOURTH)


@compiled
def _put_digest(digest: int, state: int) -> None:
    for word in range(4):
        put_length(digest, word, length_at(state + 4 * LANES * word))
