"""Encodes bitmaps of 64-bit numbers as Java's `Roaring64Bitmap`, which has no portable format.

A value has the byte 1, a tree, and containers; an empty bitmap is the byte 0. The tree maps the
high 48 bits of numbers to the index of a container. The container has their low 16 bits in the
portable 32-bit format. All numbers are little-endian except the 48 bits.

Java stores containers in the order of their creation; this encoder stores them in the order of
their numbers. So equal bitmaps have equal bytes here, although Java may write other bytes. Java
reads both.

Source: RoaringBitmap 1.2 `longlong/HighLowContainer.java`, `art/Art.java`, `art/Node*.java`,
`art/Containers.java`; the RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

Bitmaps = Mapping[int, BitMap]
"""The high 32 bits of numbers → a bitmap of their low 32 bits, which is not empty."""
_LEAF = 4
_NODES = ((4, 4), (16, 16), (48, 256), (256, 32))
"""The type of an inner node → the maximum number of its children, and the bytes of its body."""
_NO_CHILD = 0xFF
_KEY_SIZE, _INDEX_SIZE = 6, 8
_RUN, _BITMAP, _ARRAY = 0, 1, 2
_BITMAP_SIZE = 8192
_ARRAY_MAX = 4096
_COOKIE, _RUN_COOKIE = 12346, 12347
_NO_OFFSETS_BELOW = 4
_NOT_TRIMMED = 0xFE


@dataclass(frozen=True, slots=True)
class _Container:
    """The numbers with the same high 48 bits, and the form of their low 16 bits."""

    high: int
    form: int
    cardinality: int
    body: bytes


def read_bitmaps(data: bytes) -> Bitmaps:
    """Decode the numbers of a value.

    Raises:
        ValueError, IndexError, struct.error: the bytes are not a bitmap.
    """
    if data[0] == 0:
        return {}
    index_of, byte_offset = _read_tree(data)
    container_by_index = _read_containers(data, byte_offset)
    containers: dict[int, list[_Container]] = {}
    for key, index in sorted(index_of.items()):
        form, cardinality, body = container_by_index[index]
        container = _Container(key & 0xFFFF, form, cardinality, body)
        containers.setdefault(key >> 16, []).append(container)
    return {
        high: BitMap.deserialize(_portable_bytes(container))
        for high, container in containers.items()
    }


def write_bitmaps(bitmaps: Bitmaps) -> bytes:
    """Encode numbers, with runs where these are shorter.

    Args:
        bitmaps: the bitmaps, which are compressed in place.
    """
    containers = [
        _Container(
            high << 16 | container.high, container.form, container.cardinality, container.body
        )
        for high, bitmap in sorted(bitmaps.items())
        for container in _containers_of(bitmap)
    ]
    if not containers:
        return b"\0"
    keys = [container.high.to_bytes(_KEY_SIZE, "big") for container in containers]
    parts = [b"\1", struct.pack("<q", len(keys)), *_nodes(keys, range(len(keys)), 0)]
    parts.append(struct.pack("<iBi", 1, _NOT_TRIMMED, len(keys)))
    for container in containers:
        parts += (struct.pack("<BBi", 1, container.form, container.cardinality), container.body)
    parts.append(struct.pack("<qii", len(keys), 0, len(keys) - 1))
    return b"".join(parts)


def unite_bitmaps(values: Iterable[Bitmaps]) -> Bitmaps:
    """Return the union of all bitmaps."""
    united_bitmaps: dict[int, BitMap] = {}
    for bitmaps in values:
        for high, bitmap in bitmaps.items():
            united_bitmaps[high] = (
                united_bitmaps[high] | bitmap if high in united_bitmaps else bitmap
            )
    return united_bitmaps


def _read_tree(data: bytes) -> tuple[dict[int, int], int]:
    """Return high 48 bits → index of the container, and the end of the tree.

    A node's children follow it, so the leaves can be read in one pass.
    """
    (remaining_leaf_count,) = struct.unpack_from("<q", data, 1)
    index_of: dict[int, int] = {}
    byte_offset = 9
    while remaining_leaf_count:
        form, prefix_size = data[byte_offset], data[byte_offset + 3]
        byte_offset += 4 + prefix_size
        if form != _LEAF:
            byte_offset += _NODES[form][1]
            continue
        key = int.from_bytes(data[byte_offset : byte_offset + _KEY_SIZE], "big")
        (index_of[key],) = struct.unpack_from("<q", data, byte_offset + _KEY_SIZE)
        byte_offset += _KEY_SIZE + _INDEX_SIZE
        remaining_leaf_count -= 1
    return index_of, byte_offset


def _read_containers(data: bytes, byte_offset: int) -> dict[int, tuple[int, int, bytes]]:
    """Read the form, cardinality and body of each container, by index."""
    container_by_index = {}
    (array_count,) = struct.unpack_from("<i", data, byte_offset)
    byte_offset += 4
    for array_index in range(array_count):
        _, slot_count = struct.unpack_from("<Bi", data, byte_offset)
        byte_offset += 5
        for slot in range(slot_count):
            is_present = data[byte_offset]
            byte_offset += 1
            if not is_present:
                continue
            form, cardinality = struct.unpack_from("<Bi", data, byte_offset)
            byte_offset += 5
            size = _body_size(form, cardinality, data, byte_offset)
            container_by_index[array_index << 32 | slot] = (
                form,
                cardinality,
                data[byte_offset : byte_offset + size],
            )
            byte_offset += size
    return container_by_index


def _body_size(form: int, cardinality: int, data: bytes, byte_offset: int) -> int:
    if form == _RUN:
        return 2 + 4 * int.from_bytes(data[byte_offset : byte_offset + 2], "little")
    if form == _BITMAP:
        return _BITMAP_SIZE
    if form == _ARRAY:
        return 2 * cardinality
    raise ValueError(f"a container of unknown form {form}")


def _portable_bytes(containers: Sequence[_Container]) -> bytes:
    """Encode a bitmap of 32-bit numbers in the portable format."""
    count, is_run = len(containers), [container.form == _RUN for container in containers]
    if any(is_run):
        run_bits = sum(run << index for index, run in enumerate(is_run))
        head = struct.pack("<HH", _RUN_COOKIE, count - 1)
        head += run_bits.to_bytes((count + 7) // 8, "little")
    else:
        head = struct.pack("<II", _COOKIE, count)
    # Java may omit a run container's cardinality; readers of the format count runs themselves.
    cardinalities = [max(container.cardinality, 1) - 1 & 0xFFFF for container in containers]
    for container, cardinality in zip(containers, cardinalities, strict=True):
        head += struct.pack("<HH", container.high, cardinality)
    if not any(is_run) or count >= _NO_OFFSETS_BELOW:
        offset = len(head) + 4 * count
        for container in containers:
            head += struct.pack("<I", offset)
            offset += len(container.body)
    return head + b"".join(container.body for container in containers)


def _containers_of(bitmap: BitMap) -> Iterator[_Container]:
    """Yield the containers of a bitmap of 32 bits, from its serialized form."""
    bitmap.run_optimize()
    data = bitmap.serialize()
    cookie, high = struct.unpack_from("<HH", data)
    run_bits = 0
    if cookie == _RUN_COOKIE:
        count, byte_offset = high + 1, 4 + (high + 8) // 8
        run_bits = int.from_bytes(data[4:byte_offset], "little")
    else:
        count = struct.unpack_from("<I", data, 4)[0]
        byte_offset = 8
    heads = struct.unpack_from(f"<{2 * count}H", data, byte_offset)
    byte_offset += 4 * count
    if cookie != _RUN_COOKIE or count >= _NO_OFFSETS_BELOW:
        byte_offset += 4 * count
    for index in range(count):
        cardinality = heads[2 * index + 1] + 1
        form = _BITMAP if cardinality > _ARRAY_MAX else _ARRAY
        form = _RUN if run_bits >> index & 1 else form
        size = _body_size(form, cardinality, data, byte_offset)
        yield _Container(
            heads[2 * index], form, cardinality, data[byte_offset : byte_offset + size]
        )
        byte_offset += size


def _nodes(keys: Sequence[bytes], span: range, depth: int) -> Iterator[bytes]:
    """Encode the tree of keys that share the bytes before `depth`, a node before its children.

    Args:
        keys: six bytes each, ascending; a key's index is that of its container.
    """
    first_key, last_key = keys[span[0]], keys[span[-1]]
    if len(span) == 1:
        yield struct.pack("<BHB", _LEAF, 0, 0) + first_key + struct.pack("<q", span[0])
        return
    fork = depth
    while first_key[fork] == last_key[fork]:
        fork += 1
    children: dict[int, list[int]] = {}
    for index in span:
        children.setdefault(keys[index][fork], []).append(index)
    form = next(
        node_type
        for node_type, (children_max, _) in enumerate(_NODES)
        if len(children) <= children_max
    )
    prefix = first_key[depth:fork]
    yield struct.pack("<BHB", form, len(children), len(prefix)) + prefix
    yield _node_body(form, list(children))
    for indices in children.values():
        yield from _nodes(keys, range(indices[0], indices[-1] + 1), fork + 1)


def _node_body(form: int, bytes_of_children: Sequence[int]) -> bytes:
    """Encode a node's body, which maps bytes to children, in big-endian words."""
    children_max, size = _NODES[form]
    if children_max == 256:
        return sum(1 << byte for byte in bytes_of_children).to_bytes(size, "little")
    if children_max == 48:
        body = bytearray([_NO_CHILD]) * size
        for index, byte in enumerate(bytes_of_children):
            body[byte] = index
    else:
        body = bytearray(bytes_of_children).ljust(size, b"\0")
    word = min(size, 8)
    return b"".join(bytes(body[start : start + word][::-1]) for start in range(0, size, word))
