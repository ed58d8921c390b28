"""Rewrites messages with documents as texts to messages with objects: the loop over messages.

`document_layout` calls it. A document is a string of JSON that contains JSON. First its escapes are
removed, and then its fields are written one by one. Objects such as ``{"$oid": "…"}`` become their
values.

It declines a message at the first byte that is not usual, and then writes nothing for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.compiled.cell_values import ImageBuffers, put_character
from stream_app.cdc.compiled.column_names import parse_name
from stream_app.cdc.compiled.document_values import copy_bytes, put_plain_value
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    low_zero_bytes,
    number_at,
    put_byte,
    put_number,
    word_at,
    word_of,
)
from stream_app.machine_code.json_bytes import (
    ASCII_END,
    BACKSLASH,
    COMMA,
    NULL_START,
    OBJECT_END,
    OBJECT_START,
    QUOTE,
    SPACE,
)
from stream_app.machine_code.json_tokens import (
    DECLINED,
    blank_end,
    character_at,
    character_end,
    digits_end,
    name_end,
    odd_bytes,
    value_end,
    word_end,
)

PIECES = (
    b'{"before":,"after":,"source":{"connector":,"ts_ms":,"db":,"table":},"op":"_"}null' + bytes(8)
)
_DIGITS_MAX = 18
_DOLLAR = ord("$")
_CREATE, _READ, _UPDATE, _DELETE = b"crud"
_BEFORE_NAME, _AFTER_NAME = word_of(b'"before"'), word_of(b'"after":')
_SOURCE_NAME, _OP_NAME = word_of(b'"source"'), word_of(b'"op":\0\0\0')
_CONNECTOR_NAME, _COLLECTION_NAME = word_of(b'"connect'), word_of(b'"collect')
_CONNECTOR_REST, _TABLE_REST = word_of(b'or":\0\0\0\0'), word_of(b'ion":\0\0\0')
_DB_NAME, _TIME_NAME = word_of(b'"db":\0\0\0'), word_of(b'"ts_ms":')
_FOUR_BYTES, _FIVE_BYTES = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFF)


def _piece(text: bytes) -> tuple[int, int]:
    """Return where a piece of a rewritten message begins in `PIECES`, and its number of bytes."""
    return PIECES.index(text), len(text)


_BEFORE, _AFTER = _piece(b'{"before":'), _piece(b',"after":')
_CONNECTOR, _TIME = _piece(b',"source":{"connector":'), _piece(b',"ts_ms":')
_DATABASE, _TABLE = _piece(b',"db":'), _piece(b',"table":')
_OP, _END, _NULL = _piece(b'},"op":"'), _piece(b'"}'), _piece(b"null")


class RewrittenPositions(NamedTuple):
    """The positions of n messages, of which m are rewritten.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first bytes and of their ends.
        lengths: int64 [m]; bytes of each rewritten message.
        is_rewritten: bool [n]; false for a declined message.
    """

    starts: Int64s
    ends: Int64s
    lengths: Int64s
    is_rewritten: Bools


class _SourceFields(NamedTuple):
    """The values of `source` that the rewritten message has: addresses and lengths.

    Attributes:
        end: the address after the object, or `DECLINED`.
        connector_length, time_length, database_length, table_length: 0 means null.
    """

    end: int
    connector: int
    connector_length: int
    time: int
    time_length: int
    database: int
    database_length: int
    table: int
    table_length: int


class RewriteMemory(NamedTuple):
    """Addresses: where messages are written, where a text loses its escapes, and `PIECES`."""

    output: int
    scratch: int
    pieces: int


@compiled
def rewrite_messages(
    positions: RewrittenPositions, buffers: ImageBuffers, memory: RewriteMemory
) -> int:
    """Rewrite messages; a quote without a backslash must follow the last one, to end any text.

    Returns:
        The number of rewritten messages.
    """
    output, rewritten_count = memory.output, 0
    for message_index in range(len(positions.starts)):
        span = positions.starts[message_index], positions.ends[message_index]
        message_end = _rewrite_message(span, buffers, memory, (output, 2 * message_index + 1))
        positions.is_rewritten[message_index] = message_end >= 0
        if message_end >= 0:
            positions.lengths[rewritten_count] = message_end - output
            output, rewritten_count = message_end, rewritten_count + 1
    return rewritten_count


@compiled
def _rewrite_message(  # noqa: C901, PLR0912 - a branch for each field
    span: tuple[int, int],
    buffers: ImageBuffers,
    memory: RewriteMemory,
    output_and_stamp: tuple[int, int],
) -> int:
    """Rewrite one message, and return the position after the written bytes, or `DECLINED`."""
    position, end = span
    output, stamp = output_and_stamp
    has_before, image_count, op = False, 0, 0
    source = _no_source()
    if end - position < 2 or byte_at(position) != OBJECT_START:
        return DECLINED
    while True:
        position = blank_end(position + 1, end)
        colon_end, name = name_end(position), word_at(position)
        if colon_end < 0 or colon_end >= end:
            return DECLINED
        size, position = colon_end - position, blank_end(colon_end, end)
        if size == 9 and name == _BEFORE_NAME and image_count == 0:
            has_before, image_count = byte_at(position) == QUOTE, 1
            output = _put_piece(output, memory, _BEFORE)
            position, output = _rewrite_image((position, end), buffers, memory, (output, stamp))
        elif size == 8 and name == _AFTER_NAME and image_count < 2:
            if image_count == 0:
                output = _put_piece(_put_piece(output, memory, _BEFORE), memory, _NULL)
            image_count, output = 2, _put_piece(output, memory, _AFTER)
            position, output = _rewrite_image((position, end), buffers, memory, (output, stamp + 1))
        elif size == 9 and name == _SOURCE_NAME and source.end < 0:
            source = _parse_source(position, end)
            position = source.end
        elif size == 5 and name & _FIVE_BYTES == _OP_NAME and op == 0:
            op, position = _parse_op(position)
        else:
            is_repeated = size == 9 and name in (_BEFORE_NAME, _SOURCE_NAME)
            is_repeated |= (size == 8 and name == _AFTER_NAME) or (
                size == 5 and name & _FIVE_BYTES == _OP_NAME
            )
            position = DECLINED if is_repeated else value_end(position, end)
        if position < 0 or position >= end:
            return DECLINED
        position = blank_end(position, end)
        if byte_at(position) != COMMA:
            break
    is_complete = byte_at(position) == OBJECT_END and blank_end(position + 1, end) == end
    if not is_complete or image_count == 0 or source.end < 0 or op == 0:
        return DECLINED
    if op == _DELETE and not has_before:  # the key has its columns
        return DECLINED
    if image_count == 1:
        output = _put_piece(_put_piece(output, memory, _AFTER), memory, _NULL)
    return _put_source_and_op(output, source, op, memory)


@compiled
def _parse_op(position: int) -> tuple[int, int]:
    """Return the letter of an op that changes a row, and the position after it or `DECLINED`."""
    op = byte_at(position + 1)
    if byte_at(position) != QUOTE or byte_at(position + 2) != QUOTE:
        return 0, DECLINED
    return op, position + 3 if op in (_CREATE, _READ, _UPDATE, _DELETE) else DECLINED


@compiled
def _put_source_and_op(
    output: int,
    source: _SourceFields,
    op: int,
    memory: RewriteMemory,
) -> int:
    """Write the fields after the images: `source` and `op`; return the position after them."""
    output = _put_piece(output, memory, _CONNECTOR)
    output = _put_token(output, memory, source.connector, source.connector_length)
    output = _put_piece(output, memory, _TIME)
    output = _put_token(output, memory, source.time, source.time_length)
    output = _put_piece(output, memory, _DATABASE)
    output = _put_token(output, memory, source.database, source.database_length)
    output = _put_piece(output, memory, _TABLE)
    output = _put_token(output, memory, source.table, source.table_length)
    output = _put_piece(output, memory, _OP)
    put_byte(output, 0, op)
    return _put_piece(output + 1, memory, _END)


@compiled
def _put_piece(output: int, memory: RewriteMemory, piece: tuple[int, int]) -> int:
    return copy_bytes(output, memory.pieces + piece[0], piece[1])


@compiled
def _put_token(output: int, memory: RewriteMemory, position: int, length: int) -> int:
    return copy_bytes(output, position, length) if length else _put_piece(output, memory, _NULL)


@compiled
def _no_source() -> _SourceFields:
    return _SourceFields(DECLINED, 0, 0, 0, 0, 0, 0, 0, 0)


@compiled
def _parse_source(  # noqa: C901, PLR0912 - a branch for each field
    position: int, end: int
) -> _SourceFields:
    """Find the values of `source` that the rewritten message has."""
    connector = time = database = table = 0
    connector_length = time_length = database_length = table_length = 0
    if byte_at(position) != OBJECT_START:
        return _no_source()
    while True:
        position = blank_end(position + 1, end)
        name, colon_end, next_word = word_at(position), name_end(position), word_at(position + 8)
        if colon_end < 0 or colon_end >= end:
            break
        size, value_start = colon_end - position, blank_end(colon_end, end)
        position = value_end(value_start, end)
        if position < 0 or position >= end:
            break
        is_text, is_null = byte_at(value_start) == QUOTE, byte_at(value_start) == NULL_START
        length = 0 if is_null else position - value_start
        if size == 12 and name == _CONNECTOR_NAME and next_word & _FOUR_BYTES == _CONNECTOR_REST:
            if connector or not (is_text or is_null):
                break
            connector, connector_length = value_start, length
        elif size == 13 and name == _COLLECTION_NAME and next_word & _FIVE_BYTES == _TABLE_REST:
            if table or not (is_text or is_null):
                break
            table, table_length = value_start, length
        elif size == 5 and name & _FIVE_BYTES == _DB_NAME:
            if database or not (is_text or is_null):
                break
            database, database_length = value_start, length
        elif size == 8 and name == _TIME_NAME:
            if time or length > _DIGITS_MAX or not (is_null or digits_end(value_start) == position):
                break
            time, time_length = value_start, length
        position = blank_end(position, end)
        if byte_at(position) == OBJECT_END:
            return _SourceFields(
                position + 1,
                connector, connector_length,
                time, time_length,
                database, database_length,
                table, table_length,
            )  # fmt: skip
        if byte_at(position) != COMMA:
            break
    return _no_source()


@compiled
def _rewrite_image(
    span: tuple[int, int],
    buffers: ImageBuffers,
    memory: RewriteMemory,
    output_and_stamp: tuple[int, int],
) -> tuple[int, int]:
    """Rewrite an image; return the positions after it, or `DECLINED`, and after the output."""
    position, end = span
    output, stamp = output_and_stamp
    if byte_at(position) == NULL_START:
        return word_end(position), _put_piece(output, memory, _NULL)
    if byte_at(position) != QUOTE:
        return DECLINED, output
    position, text_end = _put_unescaped(position + 1, end, memory.scratch)
    if position < 0:
        return DECLINED, output
    put_number(text_end, 0, 0)  # zeros end any text
    put_number(text_end, 1, 0)
    output = _rewrite_document((memory.scratch, text_end), buffers, (output, stamp))
    return (position, output) if output > 0 else (DECLINED, output)


@compiled
def _put_unescaped(position: int, end: int, output: int) -> tuple[int, int]:
    """Write a string without its escapes.

    Returns:
        The position after its quote, or `DECLINED`; and that after the output.
    """
    while position < end:
        word = word_at(position)
        put_number(output, 0, number_at(position))
        special_bytes = odd_bytes(word)
        if special_bytes == 0:
            position, output = position + 8, output + 8
            continue
        count = low_zero_bytes(special_bytes)
        position, output = position + count, output + count
        byte = byte_at(position)
        if byte == QUOTE:
            return position + 1, output
        if byte == BACKSLASH:
            code, position = character_at(position)
            if code < 0:
                return DECLINED, output
            output += put_character(output, 0, code)
        elif byte < ASCII_END:  # a control character
            return DECLINED, output
        else:
            next_position = character_end(position)
            if next_position < 0:
                return DECLINED, output
            put_number(output, 0, number_at(position))
            position, output = next_position, output + next_position - position
    return DECLINED, output


@compiled
def _rewrite_document(
    span: tuple[int, int], buffers: ImageBuffers, output_and_stamp: tuple[int, int]
) -> int:
    """Rewrite a document, and return the position after the written bytes, or `DECLINED`."""
    position, end = span
    output, stamp = output_and_stamp
    next_entry, search_count = 0, end - position + 8 * buffers.name_count
    if byte_at(position) != OBJECT_START:
        return DECLINED
    byte = byte_at(position)
    while True:
        put_byte(output, 0, byte)
        position = blank_end(position + 1, end)
        if byte_at(position + 1) == _DOLLAR:
            return DECLINED
        value_position, column, next_entry, search_count = parse_name(
            position, (end, search_count, next_entry), buffers, stamp
        )
        if value_position < 0:
            return DECLINED
        colon_end = value_position
        while byte_at(colon_end - 1) <= SPACE:
            colon_end -= 1
        output = copy_bytes(output + 1, position, colon_end - position)
        position, output, form = put_plain_value(value_position, end, output)
        if position < 0:
            return DECLINED
        if column >= 0 and not number_at(buffers.kinds + 8 * column) >> form & 1:
            return DECLINED
        position = blank_end(position, end)
        byte = byte_at(position)
        if byte != COMMA:
            break
    put_byte(output, 0, byte)
    return output + 1 if byte == OBJECT_END and position + 1 == end else DECLINED
