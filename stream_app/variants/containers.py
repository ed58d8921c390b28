"""Writes objects and arrays of VARIANTs, and the dictionary of names.

Source: Paimon `data/variant/GenericVariantBuilder.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from stream_app.variants import layout
from stream_app.variants.layout import number_size


class DuplicateNameError(ValueError):
    """Two members of an object have the same name."""


class NameNumbers:
    """The dictionary of one VARIANT: names in the order of their first use."""

    def __init__(self) -> None:
        self._numbers_by_name: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name; a new name is added."""
        return self._numbers_by_name.setdefault(name, len(self._numbers_by_name))

    def metadata(self) -> bytes:
        """Return the dictionary as bytes."""
        names = [name.encode() for name in self._numbers_by_name]
        ends = list(accumulate(map(len, names), initial=0))
        size = number_size(max(ends[-1], len(names)))
        head = bytes((layout.ENCODING_VERSION | size - 1 << 6,)) + _pack([len(names)], size)
        return head + _pack(ends, size) + b"".join(names)


def object_of(members: Sequence[tuple[str, bytes]], names: NameNumbers) -> bytes:
    """Write an object: its values in the given order, and its list of members sorted by name.

    Args:
        members: each member's name, which is in `names`, and its value.

    Raises:
        DuplicateNameError: two members have the same name.
    """
    starts = list(accumulate((len(value) for _, value in members), initial=0))
    order = sorted(range(len(members)), key=lambda member: _java_order(members[member][0]))
    in_order = [members[index][0] for index in order]
    if any(previous_name == next_name for previous_name, next_name in pairwise(in_order)):
        raise DuplicateNameError("an object has a name twice")
    name_numbers = [names.number(name) for name in in_order]
    id_size, offset_size = number_size(max(name_numbers, default=0)), number_size(starts[-1])
    return b"".join(
        (
            _container_head(layout.OBJECT, len(members), id_size - 1 << 2 | offset_size - 1, 4),
            _pack(name_numbers, id_size),
            _pack((starts[index] for index in order), offset_size),
            _pack(starts[-1:], offset_size),
            *(value for _, value in members),
        )
    )


def array_of(elements: Sequence[bytes]) -> bytes:
    """Write an array."""
    starts = list(accumulate(map(len, elements), initial=0))
    size = number_size(starts[-1])
    head = _container_head(layout.ARRAY, len(elements), size - 1, 2)
    return head + _pack(starts, size) + b"".join(elements)


def _java_order(name: str) -> bytes:
    """Return the sort key of a name in Java's UTF-16 order, in which readers search."""
    return name.encode("utf-16-be")


def _container_head(kind: int, count: int, size_bits: int, large_bit: int) -> bytes:
    """Return the first byte of a container, and its count.

    Args:
        large_bit: the position, above the basic kind, of the bit that marks a large count.
    """
    is_large = count > layout.SMALL_COUNT_MAX
    first_byte = (is_large << large_bit | size_bits) << 2 | kind
    return bytes((first_byte,)) + _pack([count], 4 if is_large else 1)


def _pack(values: Iterable[int], size: int) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)
