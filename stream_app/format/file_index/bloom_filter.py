"""Encodes the index ``bloom-filter``, whose bits exclude values that are surely not in the file.

It has the number of hash functions in four big-endian bytes, and the bits. The settings are
``items``, the expected number of values, and ``fpp``, the rate of false positives.

Source: Paimon `fileindex/bloomfilter/BloomFilterFileIndex.java`, `FastHash.java`,
`utils/BloomFilter64.java`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from stream_app.format.binary_row_columns import text_words
from stream_app.format.file_index.index_kind import FileIndexKind, IndexComparison, IndexTest
from stream_app.format.file_index.index_values import index_numbers
from stream_app.format.file_index.xx_hash import XxHashes, xx_hashes
from stream_app.model.schema.data_type import BINARY_ROOTS, STRING_ROOTS, DataType

_DEFAULT_ITEM_COUNT, _DEFAULT_RATE = 1_000_000, 0.1
_INT_MAX = 2**31 - 1
_LN2 = math.log(2)
_BITS = (1 << np.arange(8)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class FilterSize:
    """The size of a filter.

    Attributes:
        bits: the number of bits, a multiple of eight.
        hash_count: the number of bits that a value sets.
    """

    bits: int
    hash_count: int

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> FilterSize:
        """Return the size that Java gives a filter of these settings.

        Raises:
            ValueError: a setting is not a number, or out of bounds.
        """
        item_count = int(settings.get("items", _DEFAULT_ITEM_COUNT))
        rate = float(settings.get("fpp", _DEFAULT_RATE))
        if not (item_count > 0 and 0 < rate < 1):
            raise ValueError(
                f"items = {item_count} is below 1, or fpp = {rate} not between 0 and 1"
            )
        bits_min = min(int(-item_count * math.log(rate) / (_LN2 * _LN2)), _INT_MAX - 8)
        bits = bits_min + 8 - bits_min % 8
        # Java's `Math.round` rounds a half up.
        return cls(bits, max(1, math.floor(bits / item_count * _LN2 + 0.5)))

    def positions(self, hashes: XxHashes) -> npt.NDArray[np.int32]:
        """Return the bit positions of values: int32 [hash_count, n]."""
        low = hashes.astype(np.uint32).view(np.int32)
        high = (hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)
        factors = np.arange(1, self.hash_count + 1, dtype=np.int32)[:, np.newaxis]
        with np.errstate(over="ignore"):
            combined_hashes = low + factors * high
        combined_hashes = np.where(combined_hashes < 0, ~combined_hashes, combined_hashes)
        positions: npt.NDArray[np.int32] = combined_hashes % np.int32(self.bits)
        return positions


class _BloomBuilder:
    def __init__(self, data_type: DataType, settings: Mapping[str, str]) -> None:
        self._data_type = data_type
        self._size = FilterSize.of_settings(settings)
        self._bytes = np.zeros(self._size.bits // 8, dtype=np.uint8)

    def add(self, values: pa.Array) -> None:
        """Set the bits of values; a null sets none."""
        hashes = fast_hashes(values.drop_null().unique(), self._data_type)
        positions = self._size.positions(hashes)
        np.bitwise_or.at(self._bytes, positions >> 3, _BITS[positions & 7])

    def body(self) -> bytes:
        """Return the bytes of the filter."""
        return struct.pack(">i", self._size.hash_count) + self._bytes.tobytes()


class _BloomReader:
    def __init__(self, body: bytes, data_type: DataType) -> None:
        self._data_type = data_type
        (hash_count,) = struct.unpack_from(">i", body)
        self._bytes = np.frombuffer(body, dtype=np.uint8, offset=4)
        self._size = FilterSize(8 * len(self._bytes), hash_count)

    def rows(self, test: IndexTest) -> BitMap | None:
        """Return no rows if none of the values is in the file; else None, as for other tests."""
        if test.comparison is not IndexComparison.ONE_OF:
            return None
        positions = self._size.positions(fast_hashes(test.values, self._data_type))
        is_set = (self._bytes[positions >> 3] & _BITS[positions & 7]) != 0
        return None if is_set.all(axis=0).any() else BitMap()


def fast_hashes(values: pa.Array, data_type: DataType) -> XxHashes:
    """Return the hashes of values without nulls: uint64 [n].

    Texts and bytes use xxHash64, numbers Thomas Wang's 64-bit hash.
    """
    if data_type.root in STRING_ROOTS | BINARY_ROOTS:
        return xx_hashes(text_words(values))
    key = index_numbers(values, data_type).astype(np.int64)
    key = ~key + (key << 21)
    key ^= key >> 24
    key = key + (key << 3) + (key << 8)
    key ^= key >> 14
    key = key + (key << 2) + (key << 4)
    key ^= key >> 28
    hashes: XxHashes = (key + (key << 31)).view(np.uint64)
    return hashes


BLOOM_FILTER = FileIndexKind("bloom-filter", _BloomBuilder, _BloomReader)
