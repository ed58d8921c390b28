"""Finds the images of many messages between their beginning and their known tail.

A part of `known_frames`: it compares bytes, and leaves it to the parser whether an image is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of, slices_of
from stream_app.cdc.columns.byte_patterns import ByteWords, positions_of_word

_START, _MIDDLE, _NULL = b'{"before":', b',"after":', b"null"
_FIELD_BEFORE = b'{"before'
_NULL_BEFORE, _NULL_AFTER = b'":null,"after":', b',"after":null'
_WORD = 8
HEAD_MIN = len(_START + _NULL + _MIDDLE + _NULL)
"""Bytes before a tail at least."""


@dataclass(frozen=True, slots=True)
class ImageHeads:
    """The images of n values.

    Attributes:
        bounds: int64 [n, 4]; start and end of each image.
        is_image: bool [n, 2]; else it is null.
    """

    bounds: Int64s
    is_image: Bools


def find_heads(data: Bytes, starts: Int64s, lasts: Int64s) -> tuple[ImageHeads, Bools]:
    """Search n values for their images. Return also the mask of the values with such a head.

    The same four values, whose tails begin at `lasts`, counted from the start of each::

        {"before":null,"after":{"k":1}T      bounds [10, 14, 23, 30]   is_image [F, T]
        {"before":{"k":1},"after":{"k":2}T   bounds [10, 17, 26, 33]   is_image [T, T]
        {"before":{"k":2},"after":nullT      bounds [10, 17, 26, 30]   is_image [T, F]
        {"after":{"k":3}}                    no such head: its bounds mean nothing

    Args:
        starts, lasts: int64 [n]; where each value begins in the data, and where its tail does.
    """
    word = ByteWords(data)
    firsts = starts + len(_START)
    begins = _is_text_at(word, starts, _START)
    null_before = _candidates_with(
        data[firsts] == ord("n"), word, starts + len(_FIELD_BEFORE), _NULL_BEFORE
    )
    null_after = _candidates_with(
        data[lasts - 1] == ord("l"), word, lasts - len(_NULL_AFTER), _NULL_AFTER
    )
    middles = np.where(null_before, firsts + len(_NULL), lasts - len(_NULL_AFTER))
    have_both = np.flatnonzero(begins & ~null_before & ~null_after)
    middles[have_both] = _middles(word, firsts[have_both], lasts[have_both])
    has_head: Bools = begins & (middles >= firsts)
    middles = np.where(has_head, middles, firsts)
    behind = np.minimum(middles + len(_MIDDLE), lasts)
    null_after &= lasts - behind == len(_NULL)
    has_head &= null_before | _is_braced(data, firsts, middles)
    has_head &= null_after | _is_braced(data, behind, lasts)
    bounds = np.stack([firsts, middles, behind, lasts], axis=1)
    return ImageHeads(bounds, np.stack([~null_before, ~null_after], axis=1)), has_head


def _is_text_at(word: ByteWords, positions: Int64s, text: bytes) -> Bools:
    """Compare the bytes at each position with a text of 8 to 16 bytes, in two words."""
    last = positions + (len(text) - _WORD)
    return word.occurs_at(positions, text[:_WORD]) & word.occurs_at(last, text[-_WORD:])


def _candidates_with(is_candidate: Bools, word: ByteWords, positions: Int64s, text: bytes) -> Bools:
    """Return the mask of candidates at whose position the text occurs."""
    rows = np.flatnonzero(is_candidate)
    occurs: Bools = np.zeros(len(is_candidate), np.bool_)
    occurs[rows] = _is_text_at(word, positions[rows], text)
    return occurs


def _is_braced(data: Bytes, starts: Int64s, ends: Int64s) -> Bools:
    braced: Bools = ends >= starts + 2
    braced &= (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    return braced


def _middles(word: ByteWords, firsts: Int64s, lasts: Int64s) -> Int64s:
    """Find where `_MIDDLE` separates two objects; -1 for no position or several."""
    # Images of one row are often of one length.
    middles = (firsts + lasts - len(_MIDDLE)) // 2
    unmatched = np.flatnonzero(~_is_middle(word, middles))
    if len(unmatched):
        middles[unmatched] = _middles_by_search(word.data, firsts[unmatched], lasts[unmatched])
    return middles


def _middles_by_search(data: Bytes, firsts: Int64s, lasts: Int64s) -> Int64s:
    """Find the middles between images of any lengths: every ``},`` is a candidate.

    Four values, from the first image's brace to the tail, and the middle counted from there::

        {"k":1},"after":{"k":20}                      7
        {"k":10},"after":{"k":2}                      8
        {"k":1};"after":{"k":2}                      -1   none
        {"k":{},"after":{}},"after":{"k":2}          -1   several
    """
    heads = slices_of(data, firsts, lasts)
    offsets, copied = offsets_of(heads), bytes_of(heads)
    positions = positions_of_word(copied, b"},") + 1
    positions = positions[positions < len(copied) - len(_MIDDLE)]
    positions = positions[_is_middle(ByteWords(copied), positions)]
    owners = np.searchsorted(offsets, positions, side="right") - 1
    single = np.bincount(owners, minlength=len(firsts))[owners] == 1
    owners, positions = owners[single], positions[single]
    middles: Int64s = np.full(len(firsts), -1, np.int64)
    middles[owners] = positions - offsets[owners] + firsts[owners]
    return middles


def _is_middle(word: ByteWords, positions: Int64s) -> Bools:
    data = word.data
    is_there = _is_text_at(word, positions, _MIDDLE)
    is_there &= (data[positions - 1] == ord("}")) & (data[positions + len(_MIDDLE)] == ord("{"))
    return is_there
