"""Step 3: writes a document's value and its dictionary, each from back to front.

A container's header needs the sizes of its content. So the last node is written first, and each
header when its content is complete; no byte is moved.
"""

from __future__ import annotations

from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_byte, put_number
from stream_app.variants.compiled.document_nodes import (
    ARRAYS,
    ESCAPED_TEXTS,
    FALSES,
    NULLS,
    NUMBERS,
    OBJECTS,
    TEXTS,
    NodeBuffers,
    copy_unescaped,
)
from stream_app.variants.compiled.member_numbers import NAME_BYTES, NAMES, MemberBuffers
from stream_app.variants.compiled.number_bytes import DoubleBuffers, put_number_text
from stream_app.variants.layout import (
    ARRAY,
    ENCODING_VERSION,
    FALSE,
    LONG_TEXT,
    NULL,
    OBJECT,
    SHORT_TEXT,
    SHORT_TEXT_MAX,
    SMALL_COUNT_MAX,
    TRUE,
)


@compiled
def put_value(
    count: int,
    cursor: int,
    row_index: int,
    nodes: NodeBuffers,
    buffers: MemberBuffers,
    doubles: DoubleBuffers,
) -> int:
    """Write the nodes in front of the cursor; return where the value begins."""
    end = cursor
    for node in range(count - 1, -1, -1):
        kind = number_at(nodes.kinds + 8 * node)
        if kind <= ARRAYS:
            next_node = number_at(nodes.nexts + 8 * node)
            container_end = (
                number_at(nodes.value_starts + 8 * next_node) if next_node < count else end
            )
            cursor = _put_container(node, cursor, container_end, nodes, buffers)
        elif kind in (TEXTS, ESCAPED_TEXTS):
            cursor = _put_text(node, kind, cursor, nodes)
        elif kind == NUMBERS:
            position = number_at(nodes.text_starts + 8 * node)
            size = number_at(nodes.sizes + 8 * node)
            cursor = put_number_text(position, size, cursor, row_index, doubles)
        else:
            cursor -= 1
            word = NULL if kind == NULLS else FALSE if kind == FALSES else TRUE
            put_byte(cursor, 0, word << 2)
        put_number(nodes.value_starts, node, cursor)
    return cursor


@compiled
def put_metadata(member_count: int, cursor: int, nodes: NodeBuffers, buffers: MemberBuffers) -> int:
    """Write the dictionary in front of the cursor; return where it begins."""
    name_count = number_at(buffers.last_counts + 8 * NAMES)
    names_size = number_at(buffers.last_counts + 8 * NAME_BYTES)
    width = _width(max(name_count, names_size))
    text = cursor - names_size
    offsets = text - (name_count + 1) * width
    start = offsets - width - 1
    put_byte(start, 0, ENCODING_VERSION | (width - 1) << 6)
    _put_little_endian(start + 1, name_count, width)
    name_start = 0
    for member in range(member_count):
        node = number_at(buffers.members + 8 * member)
        if number_at(buffers.leaders + 8 * node) != node:
            continue
        _put_little_endian(offsets, name_start, width)
        offsets += width
        name_size = number_at(nodes.name_sizes + 8 * node)
        _copy_bytes(number_at(nodes.name_starts + 8 * node), text + name_start, name_size)
        name_start += name_size
    _put_little_endian(offsets, name_start, width)
    return start


@compiled
def _put_container(
    node: int, data: int, container_end: int, nodes: NodeBuffers, buffers: MemberBuffers
) -> int:
    """Write the header of a container whose content extends from `data` to `container_end`."""
    is_object = number_at(nodes.kinds + 8 * node) == OBJECTS
    member_count = number_at(nodes.sizes + 8 * node)
    width = _width(container_end - data)
    first_slot = number_at(buffers.firsts + 8 * node) if is_object and member_count else 0
    id_width = 0
    if is_object:
        id_width = _width(_largest_number(first_slot, member_count, buffers))
    count_width = 4 if member_count > SMALL_COUNT_MAX else 1
    start = data - (1 + count_width + member_count * id_width + (member_count + 1) * width)
    ids = start + 1 + count_width
    offsets = ids + member_count * id_width
    _put_little_endian(start + 1, member_count, count_width)
    large_flag = 1 if count_width > 1 else 0
    if is_object:
        put_byte(start, 0, (large_flag << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | OBJECT)
        for slot in range(first_slot, first_slot + member_count):
            member = number_at(buffers.slots + 8 * slot)
            _put_little_endian(ids, number_at(buffers.name_numbers + 8 * member), id_width)
            _put_little_endian(offsets, number_at(nodes.value_starts + 8 * member) - data, width)
            ids, offsets = ids + id_width, offsets + width
    else:
        put_byte(start, 0, (large_flag << 2 | (width - 1)) << 2 | ARRAY)
        element = node + 1
        for _ in range(member_count):
            _put_little_endian(offsets, number_at(nodes.value_starts + 8 * element) - data, width)
            element, offsets = number_at(nodes.nexts + 8 * element), offsets + width
    _put_little_endian(offsets, container_end - data, width)
    return start


@compiled
def _largest_number(first_slot: int, member_count: int, buffers: MemberBuffers) -> int:
    largest_number = 0
    for slot in range(first_slot, first_slot + member_count):
        member = number_at(buffers.slots + 8 * slot)
        largest_number = max(largest_number, number_at(buffers.name_numbers + 8 * member))
    return largest_number


@compiled
def _put_text(node: int, kind: int, cursor: int, nodes: NodeBuffers) -> int:
    position, size = number_at(nodes.text_starts + 8 * node), number_at(nodes.sizes + 8 * node)
    cursor -= size
    if kind == ESCAPED_TEXTS:
        copy_unescaped(position, cursor, size)
    else:
        _copy_bytes(position, cursor, size)
    if size <= SHORT_TEXT_MAX:
        put_byte(cursor - 1, 0, size << 2 | SHORT_TEXT)
        return cursor - 1
    _put_little_endian(cursor - 4, size, 4)
    put_byte(cursor - 5, 0, LONG_TEXT << 2)
    return cursor - 5


@compiled
def _copy_bytes(position: int, output_position: int, size: int) -> None:
    word_count = size >> 3
    for index in range(word_count):
        put_number(output_position, index, number_at(position + 8 * index))
    for index in range(8 * word_count, size):
        put_byte(output_position, index, byte_at(position + index))


@compiled
def _put_little_endian(position: int, value: int, width: int) -> None:
    for index in range(width):
        put_byte(position, index, value >> 8 * index)


@compiled
def _width(value: int) -> int:
    """Return the bytes that an unsigned number takes."""
    if value <= 0xFF:
        return 1
    if value <= 0xFFFF:
        return 2
    return 3 if value <= 0xFFFFFF else 4
