"""Step 2: numbers the names of a document, and orders the members of each object.

One sort orders all members of the document by name, and distributing them in that order orders each
object. Documents of a column often have the same names in the same order; then the previous
document's result is reused.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_number
from stream_app.machine_code.json_tokens import DECLINED
from stream_app.variants.compiled.document_nodes import NO_NAME, OBJECTS, NodeBuffers

COUNT, NAMES, NAME_BYTES = range(3)
"""Elements of `MemberBuffers.last_counts`: the last document's members, names and name bytes."""
_SURROGATES_END, _ASTRAL = 0xEE, 0xF0


class MemberBuffers(NamedTuple):
    """The addresses of int64 buffers with a row for each member, or for each node where noted.

    Attributes:
        members: the members' nodes, in the order of nodes.
        order, sort_memory: the members' nodes, in the order of names; memory for sorting.
        slots: the members' nodes, object by object, in the order of names.
        firsts: the first slot of an object, by its node.
        slot_counts: the number of slots that an object has filled, by its node.
        leaders: the first member of the same name, by the member's node.
        name_numbers: the number of a member's name, by its node.
        last_parents, last_starts, last_sizes: parents and names of the last document's members.
        last_counts: a buffer of three numbers of the last document.
    """

    members: int
    order: int
    sort_memory: int
    slots: int
    firsts: int
    slot_counts: int
    leaders: int
    name_numbers: int
    last_parents: int
    last_starts: int
    last_sizes: int
    last_counts: int


@compiled
def number_members(count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> int:
    """Number the members; return their count, or `DECLINED` if an object repeats a name."""
    member_count, is_unchanged = 0, True
    last_count = number_at(buffers.last_counts)
    for node in range(count):
        if number_at(nodes.name_sizes + 8 * node) == NO_NAME:
            continue
        is_unchanged = (
            is_unchanged
            and member_count < last_count
            and _equals_last_member(member_count, node, nodes, buffers)
        )
        if not is_unchanged:
            put_number(buffers.members, member_count, node)
        member_count += 1
    if is_unchanged and member_count == last_count:
        return member_count
    put_number(buffers.last_counts, COUNT, -1)
    _sort_members(member_count, nodes, buffers)
    _find_leaders(member_count, nodes, buffers)
    _number_names(member_count, nodes, buffers)
    if not _fill_slots(member_count, count, nodes, buffers):
        return DECLINED
    if number_at(nodes.scratch_end) == nodes.scratch:  # otherwise later names would overwrite these
        _keep_members(member_count, nodes, buffers)
    return member_count


@compiled
def _equals_last_member(member: int, node: int, nodes: NodeBuffers, buffers: MemberBuffers) -> bool:
    """Return whether the previous document had this member with this number."""
    entry = 8 * member
    size = number_at(nodes.name_sizes + 8 * node)
    if (
        number_at(buffers.members + entry) != node
        or number_at(buffers.last_parents + entry) != number_at(nodes.parents + 8 * node)
        or number_at(buffers.last_sizes + entry) != size
    ):
        return False
    position = number_at(buffers.last_starts + entry)
    other_position = number_at(nodes.name_starts + 8 * node)
    index = 0
    while index < size and byte_at(position + index) == byte_at(other_position + index):
        index += 1
    return index == size


@compiled
def _keep_members(member_count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> None:
    for member in range(member_count):
        node = number_at(buffers.members + 8 * member)
        put_number(buffers.last_parents, member, number_at(nodes.parents + 8 * node))
        put_number(buffers.last_starts, member, number_at(nodes.name_starts + 8 * node))
        put_number(buffers.last_sizes, member, number_at(nodes.name_sizes + 8 * node))
    put_number(buffers.last_counts, COUNT, member_count)


@compiled
def _compare_names(member: int, other_member: int, nodes: NodeBuffers) -> int:
    """Compare two members' names by UTF-16, as Java does: less than 0, 0, or more."""
    size = number_at(nodes.name_sizes + 8 * member)
    other_size = number_at(nodes.name_sizes + 8 * other_member)
    position = number_at(nodes.name_starts + 8 * member)
    other_position = number_at(nodes.name_starts + 8 * other_member)
    for index in range(min(size, other_size)):
        byte, other_byte = byte_at(position + index), byte_at(other_position + index)
        if byte != other_byte:
            return _utf16_rank(byte) - _utf16_rank(other_byte)
    return size - other_size


@compiled
def _utf16_rank(byte: int) -> int:
    """Return a rank for a character's first byte, because UTF-16 sorts some characters differently.

    UTF-8 characters of four bytes precede those from U+E000 on, of three bytes. All others keep the
    order of their bytes.
    """
    return byte + 16 if _SURROGATES_END <= byte < _ASTRAL else byte


@compiled
def _sort_members(member_count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> None:
    """Merge runs of 1, 2, 4 … members; equal names keep their order."""
    input_order, output_order = buffers.order, buffers.sort_memory
    for member in range(member_count):
        put_number(input_order, member, number_at(buffers.members + 8 * member))
    run_length = 1
    while run_length < member_count:
        for start in range(0, member_count, 2 * run_length):
            middle, end = start + run_length, start + 2 * run_length
            _merge_runs(start, min(middle, member_count), min(end, member_count),
                   input_order, output_order, nodes)  # fmt: skip
        input_order, output_order = output_order, input_order
        run_length *= 2
    if input_order != buffers.order:
        for member in range(member_count):
            put_number(buffers.order, member, number_at(input_order + 8 * member))


@compiled
def _merge_runs(
    start: int, middle: int, end: int, input_order: int, output_order: int, nodes: NodeBuffers
) -> None:
    left_index, right_index = start, middle
    for index in range(start, end):
        takes_left = right_index >= end or (
            left_index < middle
            and _compare_names(
                number_at(input_order + 8 * left_index),
                number_at(input_order + 8 * right_index),
                nodes,
            )
            <= 0
        )
        if takes_left:
            put_number(output_order, index, number_at(input_order + 8 * left_index))
            left_index += 1
        else:
            put_number(output_order, index, number_at(input_order + 8 * right_index))
            right_index += 1


@compiled
def _find_leaders(member_count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> None:
    """Find the first member of each name."""
    for index in range(member_count):
        node, leader = number_at(buffers.order + 8 * index), -1
        if index:
            previous_node = number_at(buffers.order + 8 * (index - 1))
            if _compare_names(previous_node, node, nodes) == 0:
                leader = number_at(buffers.leaders + 8 * previous_node)
        put_number(buffers.leaders, node, node if leader < 0 else leader)


@compiled
def _number_names(member_count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> None:
    """Number the names in the order of their first use."""
    name_count, names_size = 0, 0
    for member in range(member_count):
        node = number_at(buffers.members + 8 * member)
        leader = number_at(buffers.leaders + 8 * node)
        if leader == node:
            put_number(buffers.name_numbers, node, name_count)
            name_count += 1
            names_size += number_at(nodes.name_sizes + 8 * node)
        else:
            put_number(buffers.name_numbers, node, number_at(buffers.name_numbers + 8 * leader))
    put_number(buffers.last_counts, NAMES, name_count)
    put_number(buffers.last_counts, NAME_BYTES, names_size)


@compiled
def _fill_slots(member_count: int, count: int, nodes: NodeBuffers, buffers: MemberBuffers) -> bool:
    """Put members into their objects' slots; False if an object repeats a name."""
    slot = 0
    for node in range(count):
        if number_at(nodes.kinds + 8 * node) == OBJECTS:
            put_number(buffers.firsts, node, slot)
            put_number(buffers.slot_counts, node, 0)
            slot += number_at(nodes.sizes + 8 * node)
    for index in range(member_count):
        node = number_at(buffers.order + 8 * index)
        parent = number_at(nodes.parents + 8 * node)
        slot_count = number_at(buffers.slot_counts + 8 * parent)
        slot = number_at(buffers.firsts + 8 * parent) + slot_count
        if slot_count:
            previous_node = number_at(buffers.slots + 8 * (slot - 1))
            if number_at(buffers.leaders + 8 * previous_node) == number_at(
                buffers.leaders + 8 * node
            ):
                return False
        put_number(buffers.slots, slot, node)
        put_number(buffers.slot_counts, parent, slot_count + 1)
    return True
