"""The order in which Java's `HashMap` lists its keys, because some files of Paimon's have it.

A map of n keys has a power of two of bins, and lists them one after the other. The order of the
keys of one bin depends on the method that puts them in. Java turns a bin of nine or more keys into
a tree, whose order is not followed here; every order is valid to readers.

Source: `java.util.HashMap`, `java.lang.String#hashCode`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LEAST_BINS = 16


def string_hash(text: str) -> int:
    """`String.hashCode` of a text, as a signed 32-bit number."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    state = 0
    for unit in units.tolist():  # a name has few letters
        state = (31 * state + unit) & 0xFFFFFFFF
    return state - (1 << 32) if state >> 31 else state


def hash_order(hashes: npt.ArrayLike, *, computed: bool) -> npt.NDArray[np.int64]:
    """The places of keys in the order of a map.

    Four keys with the hashes 17, 2, 1 and 0 have the order ``[3, 0, 2, 1]``: 17 and 1 share a bin.
    When they are computed, the later one stands first: ``[3, 2, 0, 1]``.

    Args:
        hashes: int32 [n], of different keys in the order in which they are added.
        computed: `computeIfAbsent` adds them, not `put`.

    Returns:
        int64 [n].
    """
    signed = np.asarray(hashes, dtype=np.int64).astype(np.int32)
    unsigned = signed.view(np.uint32)
    count, bins = len(unsigned), _LEAST_BINS
    # `computeIfAbsent` enlarges the map before it adds a key, `put` afterwards.
    while (count - 1 if computed else count) > bins * 3 // 4:
        bins *= 2
    bin_of = (unsigned ^ unsigned >> np.uint32(16)) & np.uint32(bins - 1)
    place = np.arange(count)
    return np.lexsort((-place if computed else place, bin_of))


def name_order(names: Sequence[str], *, computed: bool) -> list[str]:
    """The names in the order of a map whose keys they are."""
    hashes = [string_hash(name) for name in names]
    return [names[place] for place in hash_order(hashes, computed=computed)]
