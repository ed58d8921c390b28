"""Encodes index files of type HASH: the hashes of a bucket's keys, four big-endian bytes each.

Source: Paimon `index/HashIndexFile.java`, `utils/IntFileUtils.java`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stream_app.errors import RESTORE_FIX, CorruptFileError

Hashes = npt.NDArray[np.int32]
HASH_SIZE = 4


def encode_hashes(hashes: Hashes) -> bytes:
    """Encode hashes as an index file.

    Args:
        hashes: int32 [n], distinct, in any order.
    """
    return hashes.astype(">i4").tobytes()


def decode_hashes(data: bytes, count: int) -> Hashes:
    """Decode an index file to hashes in ascending order: int32 [n].

    Args:
        count: n according to the index manifest.

    Raises:
        CorruptFileError: the file has another length.
    """
    if len(data) != count * HASH_SIZE:
        raise CorruptFileError(
            f"an index file of hashes has {len(data)} bytes, and its index manifest says {count} "
            f"hashes of {HASH_SIZE} bytes",
            fix=RESTORE_FIX,
        )
    hashes = np.frombuffer(data, ">i4").astype(np.int32)
    if (hashes[1:] < hashes[:-1]).any():  # Java writes them unordered
        hashes.sort()
    return hashes
