"""Computes MD5 of byte strings by Python's library, where machine code is not available.

`row_hashes` uses it. A string takes half a microsecond, because Python makes objects of it. MD5 was
chosen because each database has it, not for protection against forgery.
"""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Bytes, Int64s

UInt64s = npt.NDArray[np.uint64]


def md5_lanes(data: Bytes, offsets: Int64s) -> tuple[UInt64s, UInt64s]:
    """Return the MD5 of each string as two big-endian numbers: the first and the last 8 bytes.

    Args:
        data: the strings, one after another.
        offsets: int64 [n + 1]; the start of each string in `data`, and the end of the last.

    Returns:
        uint64 [n] and uint64 [n].
    """
    text = data.tobytes()
    ends = offsets.tolist()
    digests = b"".join(
        hashlib.md5(text[start:end], usedforsecurity=False).digest()
        for start, end in itertools.pairwise(ends)
    )
    return lanes_of(np.frombuffer(digests, ">u8"))


def lanes_of(digests: npt.NDArray[np.uint64]) -> tuple[UInt64s, UInt64s]:
    """Return the numbers of n digests: uint64 [n] each.

    Args:
        digests: big-endian uint64 [2 n].
    """
    lanes = digests.astype(np.uint64)
    return lanes[0::2], lanes[1::2]
