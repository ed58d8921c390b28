"""Finds the images of many messages between their start and their known tail.

A part of `known_frames`. It only compares bytes; the parser decides whether an image is an object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Bytes, Int64s, bytes_of, offsets_of, slices_of
from stream_app.cdc.columns.byte_patterns import WORD, ByteWords, positions_of_word

_START, _MIDDLE, _NULL = b'{"before":', b',"after":', b"null"
_FIELD_BEFORE = b'{"before'
_NULL_BEFORE, _NULL_AFTER = b'":null,"after":', b',"after":null'
HEAD_MIN = len(_START + _NULL + _MIDDLE + _NULL)
"""The fewest bytes before a tail."""


@dataclass(frozen=True, slots=True)
class ImageHeads:
    """The images of n values.

    Attributes:
        bounds: int64 [n, 4]; start and end of each image.
        is_image: bool [n, 2]; false where the image is null.
    """

    bounds: Int64s
    is_image: Bools


def find_heads(data: Bytes, starts: Int64s, tail_starts: Int64s) -> tuple[ImageHeads, Bools]:
    """Search n values for their images. Return also the mask of the values with such a head.

    The four values of `KnownFrames.find_framed`, with bounds that count from each value's start::

        {"before":null,"after":{"k":1}T      bounds [10, 14, 23, 30]   is_image [F, T]
        {"before":{"k":1},"after":{"k":2}T   bounds [10, 17, 26, 33]   is_image [T, T]
        {"before":{"k":2},"after":nullT      bounds [10, 17, 26, 30]   is_image [T, F]
        {"after":{"k":3}}                    no such head: its bounds are meaningless

    Args:
        starts, tail_starts: int64 [n]; the positions of each value and of its tail in the data.
    """
    words = ByteWords(data)
    before_starts = starts + len(_START)
    has_start = _is_text_at(words, starts, _START)
    is_null_before = _candidates_with(
        data[before_starts] == ord("n"), words, starts + len(_FIELD_BEFORE), _NULL_BEFORE
    )
    is_null_after = _candidates_with(
        data[tail_starts - 1] == ord("l"), words, tail_starts - len(_NULL_AFTER), _NULL_AFTER
    )
    middles = np.where(is_null_before, before_starts + len(_NULL), tail_starts - len(_NULL_AFTER))
    update_indices = np.flatnonzero(has_start & ~is_null_before & ~is_null_after)
    middles[update_indices] = _middles(
        words, before_starts[update_indices], tail_starts[update_indices]
    )
    has_head: Bools = has_start & (middles >= before_starts)
    middles = np.where(has_head, middles, before_starts)
    after_starts = np.minimum(middles + len(_MIDDLE), tail_starts)
    is_null_after &= tail_starts - after_starts == len(_NULL)
    has_head &= is_null_before | _is_braced(data, before_starts, middles)
    has_head &= is_null_after | _is_braced(data, after_starts, tail_starts)
    bounds = np.stack([before_starts, middles, after_starts, tail_starts], axis=1)
    return ImageHeads(bounds, np.stack([~is_null_before, ~is_null_after], axis=1)), has_head


def _is_text_at(words: ByteWords, positions: Int64s, text: bytes) -> Bools:
    """Compare the bytes at each position with a text of 8 to 16 bytes, in two words."""
    last_words = positions + (len(text) - WORD)
    return words.occurs_at(positions, text[:WORD]) & words.occurs_at(last_words, text[-WORD:])


def _candidates_with(
    is_candidate: Bools, words: ByteWords, positions: Int64s, text: bytes
) -> Bools:
    """Return the mask of candidates at whose position the text occurs."""
    indices = np.flatnonzero(is_candidate)
    occurs: Bools = np.zeros(len(is_candidate), np.bool_)
    occurs[indices] = _is_text_at(words, positions[indices], text)
    return occurs


def _is_braced(data: Bytes, starts: Int64s, ends: Int64s) -> Bools:
    is_braced: Bools = ends >= starts + 2
    is_braced &= (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    return is_braced


def _middles(words: ByteWords, before_starts: Int64s, tail_starts: Int64s) -> Int64s:
    """Return where `_MIDDLE` separates two objects; -1 for no position or several: int64 [n]."""
    # Images of one row are often of one length.
    middles = (before_starts + tail_starts - len(_MIDDLE)) // 2
    unmatched_indices = np.flatnonzero(~_is_middle(words, middles))
    if len(unmatched_indices):
        middles[unmatched_indices] = _middles_by_search(
            words.data, before_starts[unmatched_indices], tail_starts[unmatched_indices]
        )
    return middles


def _middles_by_search(data: Bytes, before_starts: Int64s, tail_starts: Int64s) -> Int64s:
    """Return the middles between images of any lengths; every ``},`` is a candidate.

    Four values, from the first image's brace to the tail, and the middle counted from there::

        {"k":1},"after":{"k":20}                      7
        {"k":10},"after":{"k":2}                      8
        {"k":1};"after":{"k":2}                      -1   none
        {"k":{},"after":{}},"after":{"k":2}          -1   several
    """
    heads = slices_of(data, before_starts, tail_starts)
    offsets, head_bytes = offsets_of(heads), bytes_of(heads)
    positions = positions_of_word(head_bytes, b"},") + 1
    positions = positions[positions < len(head_bytes) - len(_MIDDLE)]
    positions = positions[_is_middle(ByteWords(head_bytes), positions)]
    owners = np.searchsorted(offsets, positions, side="right") - 1
    is_single = np.bincount(owners, minlength=len(before_starts))[owners] == 1
    owners, positions = owners[is_single], positions[is_single]
    middles: Int64s = np.full(len(before_starts), -1, np.int64)
    middles[owners] = positions - offsets[owners] + before_starts[owners]
    return middles


def _is_middle(words: ByteWords, positions: Int64s) -> Bools:
    data = words.data
    is_middle = _is_text_at(words, positions, _MIDDLE)
    is_middle &= (data[positions - 1] == ord("}")) & (data[positions + len(_MIDDLE)] == ord("{"))
    return is_middle
