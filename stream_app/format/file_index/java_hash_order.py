"""Reproduces the order in which Java's `HashMap` lists its keys, which some of Paimon's files have.

A map of n keys has a power of two of bins, and lists bin after bin. The order of keys in a bin
depends on the method that adds them. Java turns a bin of nine or more keys into a tree, whose order
this module does not reproduce. Readers accept any order.

Source: `java.util.HashMap`, `java.lang.String#hashCode`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_BINS_MIN = 16


def string_hash(text: str) -> int:
    """Return `String.hashCode` of a text as a signed 32-bit number."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    state = 0
    for unit in units.tolist():  # a name is short
        state = (31 * state + unit) & 0xFFFFFFFF
    return state - (1 << 32) if state >> 31 else state


def hash_order(hashes: npt.ArrayLike, *, is_computed: bool) -> npt.NDArray[np.int64]:
    """Return the indices of keys in the order of a map.

    Four keys with the hashes 17, 2, 1 and 0 have the order ``[3, 0, 2, 1]``: 17 and 1 share a bin.
    With `is_computed` the later one comes first: ``[3, 2, 0, 1]``.

    Args:
        hashes: int32 [n], of distinct keys in the order in which they are added.
        is_computed: whether `computeIfAbsent` adds them, rather than `put`.

    Returns:
        int64 [n].
    """
    signed_hashes = np.asarray(hashes, dtype=np.int64).astype(np.int32)
    unsigned_hashes = signed_hashes.view(np.uint32)
    count = len(unsigned_hashes)
    bin_count = _BINS_MIN
    # `computeIfAbsent` enlarges the map before it adds a key, `put` afterwards.
    while (count - 1 if is_computed else count) > bin_count * 3 // 4:
        bin_count *= 2
    bin_of = (unsigned_hashes ^ unsigned_hashes >> np.uint32(16)) & np.uint32(bin_count - 1)
    insertion_order = np.arange(count)
    return np.lexsort((-insertion_order if is_computed else insertion_order, bin_of))


def name_order(names: Sequence[str], *, is_computed: bool) -> list[str]:
    """Return names in the order of a map with these keys."""
    hashes = [string_hash(name) for name in names]
    return [names[index] for index in hash_order(hashes, is_computed=is_computed)]
