"""Finds the images of many messages between their beginning and their known tail.

A part of `record_frames`: it compares bytes, and leaves it to the parser whether an image is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_app.cdc.columns.arrow_buffers import (
    Bools,
    Bytes,
    Int64s,
    bytes_of,
    offsets_of,
    slices_of,
)
from stream_app.cdc.columns.byte_patterns import Words, places_of_word

_START, _MIDDLE = b'{"before":', b',"after":'
_NULL = b"null"
HEAD_MIN = len(_START + _NULL + _MIDDLE + _NULL)
"""Bytes before a tail at least."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The positions of the images of n values.

    Attributes:
        bounds: int64 [n, 4]; start and end of each image; the value's start when not known.
        is_image: bool [n, 2]; else it is null.
    """

    bounds: Int64s
    is_image: Bools

    def find(self, data: Bytes, rows: Int64s, last: Int64s) -> Bools:
        """Search and note the images of some values; return a mask of the successes.

        The same four values, whose tails begin at `last`, counted from the start of each::

            {"before":null,"after":{"k":1}T      bounds [10, 14, 23, 30]   is_image [F, T]
            {"before":{"k":1},"after":{"k":2}T   bounds [10, 17, 26, 33]   is_image [T, T]
            {"before":{"k":2},"after":nullT      bounds [10, 17, 26, 30]   is_image [T, F]
            {"after":{"k":3}}                    bounds [0, 0, 0, 0]       not found

        Args:
            last: where the tail of each of the values begins.
        """
        word = Words(data)
        start = self.bounds[rows, 0]
        first = start + len(_START)
        begins = word.at(start, b'{"before') & word.at(start + 2, b'before":')
        no_before = _where(data[first] == ord("n"), word, start, {8: b'":null,"', 15: b'"after":'})
        ends_null = _where(
            data[last - 1] == ord("l"), word, last, {-8: b'er":null', -13: b',"after"'}
        )
        middle = np.where(no_before, first + len(_NULL), last - len(_MIDDLE + _NULL))
        both = np.flatnonzero(begins & ~no_before & ~ends_null)
        middle[both] = _middles(word, first[both], last[both])
        is_whole: Bools = begins & (middle >= first)
        middle = np.where(is_whole, middle, first)
        behind = np.minimum(middle + len(_MIDDLE), last)
        no_after = ends_null & (last - behind == len(_NULL))
        is_whole &= no_before | _is_braced(data, first, middle)
        is_whole &= no_after | _is_braced(data, behind, last)
        self.bounds[rows[is_whole]] = np.stack([first, middle, behind, last], axis=1)[is_whole]
        self.is_image[rows[is_whole]] = np.stack([~no_before, ~no_after], axis=1)[is_whole]
        return is_whole


def _where(may: Bools, word: Words, places: Int64s, texts: Mapping[int, bytes]) -> Bools:
    """The mask of candidates at which every text stands at its distance."""
    rows = np.flatnonzero(may)
    for distance, text in texts.items():
        rows = rows[word.at(places[rows] + distance, text)]
    has_all: Bools = np.zeros(len(may), np.bool_)
    has_all[rows] = True
    return has_all


def _is_braced(data: Bytes, starts: Int64s, ends: Int64s) -> Bools:
    braced: Bools = ends >= starts + 2
    braced &= (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    return braced


def _middles(word: Words, firsts: Int64s, lasts: Int64s) -> Int64s:
    """Where `_MIDDLE` stands between two objects; -1: nowhere, or at several places."""
    # Images of one row are often of one length.
    middles = (firsts + lasts - len(_MIDDLE)) // 2
    left = np.flatnonzero(~_is_middle(word, middles))
    if len(left):
        middles[left] = _middles_by_search(word.data, firsts[left], lasts[left])
    return middles


def _middles_by_search(data: Bytes, firsts: Int64s, lasts: Int64s) -> Int64s:
    heads = slices_of(data, firsts, lasts)
    offsets, copied = offsets_of(heads), bytes_of(heads)
    places = places_of_word(copied, b"},") + 1
    places = places[places < len(copied) - len(_MIDDLE)]
    places = places[_is_middle(Words(copied), places)]
    owners = np.searchsorted(offsets, places, side="right") - 1
    single = np.bincount(owners, minlength=len(firsts))[owners] == 1
    owners, places = owners[single], places[single]
    middles: Int64s = np.full(len(firsts), -1, np.int64)
    middles[owners] = places - offsets[owners] + firsts[owners]
    return middles


def _is_middle(word: Words, places: Int64s) -> Bools:
    data = word.data
    is_there: Bools = word.at(places, b',"after"') & word.at(places + 1, b'"after":')
    is_there &= (data[places - 1] == ord("}")) & (data[places + len(_MIDDLE)] == ord("{"))
    return is_there
