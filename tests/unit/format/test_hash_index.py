"""Files of the hashes of keys have the bytes that Paimon's Java writes."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.hash_index import decode_hashes, encode_hashes


def test_hashes_have_the_bytes_of_java() -> None:
    """`IntFileUtils`: the largest byte first, in any order."""
    data = bytes.fromhex("00000102 ffffffff 7fffffff 80000000")
    assert decode_hashes(data, 4).tolist() == [-(2**31), -1, 258, 2**31 - 1]
    assert encode_hashes(np.array([258, -1], np.int32)) == data[:8]
    with pytest.raises(
        CorruptFileError, match="has 16 bytes, and its index manifest says 5 hashes"
    ):
        decode_hashes(data, 5)
