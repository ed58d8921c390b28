"""Step 1: lists the values of a document in order of their first bytes.

Each value is a node, a row in several buffers. A container's node precedes the nodes inside it.
Every byte is read once. The caller puts a quote and a comma after each text, so that every loop
ends there at the latest.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_byte, put_number
from stream_app.machine_code.json_bytes import (
    ARRAY_END,
    ARRAY_START,
    BACKSLASH,
    COLON,
    COMMA,
    MINUS,
    NINE,
    NULL_START,
    OBJECT_END,
    OBJECT_START,
    QUOTE,
    TRUE_START,
    ZERO,
)
from stream_app.machine_code.json_tokens import (
    DECLINED,
    blank_end,
    character_at,
    number_end,
    size_of,
    string_end,
    word_end,
)
from stream_app.variants.layout import VARIANT_NESTING_MAX

OBJECTS, ARRAYS, TEXTS, ESCAPED_TEXTS, NUMBERS, NULLS, TRUES, FALSES = range(8)
"""The kinds of nodes."""
NO_NAME = -1


class NodeBuffers(NamedTuple):
    """The addresses of int64 buffers with a row for each node, and of memory for names.

    Attributes:
        kinds: the kinds of the nodes.
        text_starts: where a scalar's text begins, after its quote.
        sizes: bytes of an unescaped text or of a number; the number of a container's members.
        nexts: the next node that is not inside this one.
        parents: the node's container, or -1.
        depths: containers around the node.
        name_starts, name_sizes: the name of a member; `NO_NAME` for an element and for the root.
        value_starts: where the node's bytes begin in the output, set by `value_bytes`.
        scratch: memory for names without their escapes.
        scratch_end: a buffer with one row: where the free part of `scratch` begins.
    """

    kinds: int
    text_starts: int
    sizes: int
    nexts: int
    parents: int
    depths: int
    name_starts: int
    name_sizes: int
    value_starts: int
    scratch: int
    scratch_end: int


@compiled
def list_nodes(position: int, end: int, nodes: NodeBuffers) -> int:
    """List the nodes of a text; return their number, or `DECLINED` if it is not a document."""
    count, container = 0, -1
    put_number(nodes.scratch_end, 0, nodes.scratch)
    while position >= 0:
        position = blank_end(position, end)
        if position >= end:
            return DECLINED
        node, count = count, count + 1
        _add_node(node, container, nodes)
        position = _put_value(position, end, node, nodes)
        if position > end or position < 0:
            return DECLINED
        kind = number_at(nodes.kinds + 8 * node)
        if kind <= ARRAYS and number_at(nodes.nexts + 8 * node) == 0:
            container = node
            if kind == OBJECTS:
                position = _put_name(position, end, count, nodes)
            continue
        position, container = _find_next_value(position, end, container, count, nodes)
        if container < 0:
            return count if position == end else DECLINED
    return DECLINED


@compiled
def _add_node(node: int, container: int, nodes: NodeBuffers) -> None:
    """Add a node to its container."""
    put_number(nodes.parents, node, container)
    if container < 0:
        put_number(nodes.depths, node, 0)
        put_number(nodes.name_sizes, node, NO_NAME)
        return
    put_number(nodes.depths, node, number_at(nodes.depths + 8 * container) + 1)
    put_number(nodes.sizes, container, number_at(nodes.sizes + 8 * container) + 1)
    if number_at(nodes.kinds + 8 * container) == ARRAYS:
        put_number(nodes.name_sizes, node, NO_NAME)


@compiled
def _put_value(position: int, end: int, node: int, nodes: NodeBuffers) -> int:
    """Return the position after a scalar, an empty container or an opening bracket."""
    byte = byte_at(position)
    put_number(nodes.nexts, node, node + 1)
    if byte in (OBJECT_START, ARRAY_START):
        put_number(nodes.kinds, node, OBJECTS if byte == OBJECT_START else ARRAYS)
        put_number(nodes.sizes, node, 0)
        if number_at(nodes.depths + 8 * node) > VARIANT_NESTING_MAX:
            return DECLINED
        position = blank_end(position + 1, end)
        if byte_at(position) == (OBJECT_END if byte == OBJECT_START else ARRAY_END):
            return position + 1
        put_number(nodes.nexts, node, 0)
        return position
    if byte == QUOTE:
        end_quote, saved_bytes = string_end(position + 1)
        put_number(nodes.kinds, node, ESCAPED_TEXTS if saved_bytes else TEXTS)
        put_number(nodes.text_starts, node, position + 1)
        put_number(nodes.sizes, node, end_quote - position - 1 - saved_bytes)
        return end_quote + 1 if end_quote > 0 else DECLINED
    return _put_word_or_number(position, byte, node, nodes)


@compiled
def _put_word_or_number(position: int, byte: int, node: int, nodes: NodeBuffers) -> int:
    """Return the position after a number, `true`, `false` or `null`."""
    if byte == MINUS or ZERO <= byte <= NINE:
        end = number_end(position)
        put_number(nodes.kinds, node, NUMBERS)
        put_number(nodes.text_starts, node, position)
        put_number(nodes.sizes, node, end - position)
        return end
    kind = NULLS if byte == NULL_START else TRUES if byte == TRUE_START else FALSES
    put_number(nodes.kinds, node, kind)
    return word_end(position)


@compiled
def _find_next_value(
    position: int, end: int, container: int, count: int, nodes: NodeBuffers
) -> tuple[int, int]:
    """Return the position and the container of the next value, or the end of the text and -1.

    The position is `DECLINED` if neither a comma nor the matching bracket follows.
    """
    while container >= 0:
        position = blank_end(position, end)
        is_object = number_at(nodes.kinds + 8 * container) == OBJECTS
        if position >= end:
            return DECLINED, container
        byte = byte_at(position)
        if byte == COMMA:
            position = position + 1
            return (_put_name(position, end, count, nodes) if is_object else position), container
        if byte != (OBJECT_END if is_object else ARRAY_END):
            return DECLINED, container
        put_number(nodes.nexts, container, count)
        container = number_at(nodes.parents + 8 * container)
        position += 1
    return blank_end(position, end), -1


@compiled
def _put_name(position: int, end: int, node: int, nodes: NodeBuffers) -> int:
    """Give the next node its name; return the position after the colon, or `DECLINED`."""
    position = blank_end(position, end)
    if position >= end or byte_at(position) != QUOTE:
        return DECLINED
    start = position + 1
    end_quote, saved_bytes = string_end(start)
    if end_quote < 0 or end_quote >= end:
        return DECLINED
    size = end_quote - start - saved_bytes
    if saved_bytes:
        output_position = number_at(nodes.scratch_end)
        copy_unescaped(start, output_position, size)
        start = output_position
        put_number(nodes.scratch_end, 0, output_position + size)
    put_number(nodes.name_starts, node, start)
    put_number(nodes.name_sizes, node, size)
    position = blank_end(end_quote + 1, end)
    return position + 1 if byte_at(position) == COLON else DECLINED


@compiled
def copy_unescaped(position: int, output_position: int, size: int) -> None:
    """Copy a string without its escapes until the copy has `size` bytes."""
    output_end = output_position + size
    while output_position < output_end:
        byte = byte_at(position)
        if byte != BACKSLASH:
            put_byte(output_position, 0, byte)
            position, output_position = position + 1, output_position + 1
            continue
        code, position = character_at(position)
        size = size_of(code)
        _put_character(code, size, output_position)
        output_position += size


@compiled
def _put_character(code: int, size: int, output_position: int) -> None:
    """Write a character as UTF-8."""
    if size == 1:
        put_byte(output_position, 0, code)
        return
    for index in range(size - 1, 0, -1):
        put_byte(output_position, index, 0x80 | code & 0x3F)
        code >>= 6
    lead = 0xC0 if size == 2 else 0xE0 if size == 3 else 0xF0
    put_byte(output_position, 0, lead | code)
