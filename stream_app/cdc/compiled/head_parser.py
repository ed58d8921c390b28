"""Parses the head of an envelope up to its known tail: the images before and after a change.

`image_columns` lays out the names and the cells of a table's columns, and calls it. `image_parser`
parses each image.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.compiled.cell_values import ImageBuffers, ImageRow, Span
from stream_app.cdc.compiled.column_names import drift_hash_of
from stream_app.cdc.compiled.image_parser import SEARCHES_PER_COLUMN, parse_image
from stream_app.machine_code.compiler import byte_at, compiled, word_at, word_of
from stream_app.machine_code.json_bytes import COLON, OBJECT_START

_BEFORE, _BEFORE_END = word_of(b'{"before'), word_of(b'":\0\0\0\0\0\0')
_AFTER, _NULL = word_of(b',"after"'), word_of(b"null\0\0\0\0")
_TWO_BYTES, _FOUR_BYTES = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_HEAD_MIN = len('{"before":{},"after":{}')
_BEFORE_SIZE, _AFTER_SIZE, _NULL_SIZE = len('{"before":'), len(',"after":'), len("null")
_BRACES_SIZE, _WORD = len("{}"), 8


class HeadPositions(NamedTuple):
    """The positions of the images in n messages, whose tails the caller has found.

    Attributes:
        starts, tail_starts: int64 [n]; where each message and its tail begin in the data.
        before_indices, after_indices: int64 [n]; the index of each image, or -1.
        drift_hashes: int64 [n]; 0 where the images have the table's columns and no other. Messages
            with the same unknown and missing columns have the same number.
        is_parsed: bool [n]; false for a declined message.
    """

    starts: Int64s
    tail_starts: Int64s
    before_indices: Int64s
    after_indices: Int64s
    drift_hashes: Int64s
    is_parsed: Bools


@compiled
def parse_heads(  # noqa: C901, PLR0912 - each branch is a way to decline
    heads: HeadPositions, buffers: ImageBuffers
) -> int:
    """Parse ``{"before":…,"after":…`` of each message up to its tail, and fill the heads.

    Each tail begins with a comma and a quote, and has 16 bytes at least.

    Returns:
        The number of images.
    """
    image_index, stamp = 0, 0
    for message_index in range(len(heads.starts)):
        start, tail_start = heads.starts[message_index], heads.tail_starts[message_index]
        heads.before_indices[message_index] = heads.after_indices[message_index] = -1
        heads.is_parsed[message_index] = False
        stamp += 2
        if tail_start - start < _HEAD_MIN or word_at(start) != _BEFORE:
            continue
        if word_at(start + _WORD) & _TWO_BYTES != _BEFORE_END:
            continue
        search_count = tail_start - start + SEARCHES_PER_COLUMN * buffers.column_count
        position, next_image, hash_sum = start + _BEFORE_SIZE, image_index, 0
        if byte_at(position) == OBJECT_START:
            before = parse_image(
                Span(position, tail_start, search_count), buffers, ImageRow(next_image, stamp)
            )
            position, search_count = before.position, before.search_count
            if position < 0:
                continue
            heads.before_indices[message_index] = next_image
            next_image, before_sum = next_image + 1, before.unknown_sum + before.missing_sum
            hash_sum = drift_hash_of(before_sum) if before_sum else 0
        elif word_at(position) & _FOUR_BYTES == _NULL:
            position += _NULL_SIZE
        else:
            continue
        if position + _AFTER_SIZE + _BRACES_SIZE > tail_start or word_at(position) != _AFTER:
            continue
        if byte_at(position + _WORD) != COLON:
            continue
        position += _AFTER_SIZE
        if byte_at(position) == OBJECT_START:
            after = parse_image(
                Span(position, tail_start, search_count), buffers, ImageRow(next_image, stamp + 1)
            )
            if after.position != tail_start:
                continue
            heads.after_indices[message_index] = next_image
            next_image, hash_sum = next_image + 1, hash_sum + after.unknown_sum + after.missing_sum
        elif position + _NULL_SIZE != tail_start or word_at(position) & _FOUR_BYTES != _NULL:
            continue
        image_index = next_image
        heads.drift_hashes[message_index] = hash_sum
        heads.is_parsed[message_index] = True
    return image_index
