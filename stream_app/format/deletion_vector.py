"""Encodes deletion vectors: bitmaps of the positions of a data file's deleted rows.

A file of deletion vectors is a version byte and a sequence of entries. The index manifest has the
offset and length of each:

============  ==================================  ==============================================
of an entry   32-bit, Paimon's default            64-bit, ``deletion-vectors.bitmap64``
============  ==================================  ==============================================
size          4 bytes, of magic number + bitmap   the same
magic number  1581511376, big-endian              1681511377, little-endian
bitmap        Roaring's portable format           Roaring's portable format for 64 bits
CRC-32        of magic number + bitmap            the same
"length"      the size                            size + 8: the whole entry
============  ==================================  ==============================================

Sizes and CRCs are big-endian. This module checks the CRC, unlike Java, because a flipped bit would
delete another row.

Source: Paimon `deletionvectors/BitmapDeletionVector.java`,
`deletionvectors/Bitmap64DeletionVector.java`, `deletionvectors/DeletionFileWriter.java`,
`deletionvectors/DeletionVectorIndexFileWriter.java`,
`deletionvectors/ApplyDeletionVectorReader.java`.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64, FrozenBitMap, FrozenBitMap64

from stream_app.format.data_files.damaged_files import damaged_file_error
from stream_app.model.files.index_file_meta import DeletionVectorMeta

BITMAP32_POSITION_MAX = 2**31 - 1
"""The last row that a 32-bit vector can delete: Java counts with signed numbers."""

FILE_HEADER = b"\x01"
"""The version, with which a file of deletion vectors begins."""

_BITMAP32_END = 2**32
_MAGIC_32 = struct.pack(">I", 1_581_511_376)
MAGIC_64 = struct.pack("<I", 1_681_511_377)
"""The number with which a 64-bit vector begins, after its size."""
_WORD = 4
_FRAME_SIZE = 2 * _WORD
"""The bytes of the size and the CRC, which enclose the magic number and the bitmap."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The positions of one data file's deleted rows, from 0 in the order of the file.

    Attributes:
        bitmap: the bitmap of 32 or 64 bits, which is also the stored form.
    """

    bitmap: FrozenBitMap | FrozenBitMap64

    @classmethod
    def of_positions(cls, positions: npt.ArrayLike, *, has_64_bits: bool = False) -> DeletionVector:
        """Return the vector that deletes these rows, in any order and with repetitions."""
        row_positions = np.asarray(positions, dtype=np.int64)
        if has_64_bits:
            return cls(FrozenBitMap64(array.array("Q", row_positions.astype(np.uint64).tobytes())))
        assert not row_positions.size or row_positions.max() <= BITMAP32_POSITION_MAX, (
            row_positions.max()
        )
        return cls(FrozenBitMap(array.array("I", row_positions.astype(np.uint32).tobytes())))

    @property
    def is_64(self) -> bool:
        """Whether the vector is stored with 64 bits."""
        return isinstance(self.bitmap, FrozenBitMap64)

    @property
    def cardinality(self) -> int:
        """The number of deleted rows."""
        return len(self.bitmap)

    def positions(self) -> npt.NDArray[np.unsignedinteger]:
        """Return the deleted rows, ascending: uint32 or uint64 [deleted]."""
        return np.asarray(self.bitmap.to_array())

    def keep_mask(self, start: int, count: int) -> npt.NDArray[np.bool_]:
        """Return the mask of live rows among `count` rows from `start` on: bool [count].

        A vector of the rows 6 and 9 keeps ``[T, F, T, T]`` of the four rows 5 to 8.
        """
        is_live = np.ones(count, dtype=np.bool_)
        end = start + count
        if isinstance(self.bitmap, FrozenBitMap64):
            deleted_rows = np.asarray((self.bitmap & FrozenBitMap64(range(start, end))).to_array())
        else:
            # pyroaring crashes on a range beyond 32 bits.
            rows = range(min(start, _BITMAP32_END), min(end, _BITMAP32_END))
            deleted_rows = np.asarray((self.bitmap & FrozenBitMap(rows)).to_array())
        is_live[deleted_rows.astype(np.int64) - start] = False
        return is_live

    def union(self, other: DeletionVector) -> DeletionVector:
        """Return the union of both, with 64 bits if either has 64."""
        left, right = self.bitmap, other.bitmap
        if isinstance(left, FrozenBitMap) and isinstance(right, FrozenBitMap):
            return DeletionVector(left | right)
        if isinstance(left, FrozenBitMap64) and isinstance(right, FrozenBitMap64):
            return DeletionVector(left | right)
        positions = np.concatenate([self.positions(), other.positions()], dtype=np.int64)
        return DeletionVector.of_positions(positions, has_64_bits=True)


def live_rows(
    batches: Iterable[tuple[int, pa.RecordBatch]], vector: DeletionVector, row_count: int
) -> Iterator[pa.RecordBatch]:
    """Yield a file's live rows, without empty batches.

    Args:
        batches: batches of the file, with the position of each batch's first row.
        row_count: the rows of the whole file.

    Raises:
        CorruptFileError: the vector deletes rows after the last one.
    """
    if vector.cardinality and vector.bitmap.max() >= row_count:
        raise damaged_file_error(
            f"a deletion vector deletes row {vector.bitmap.max()} of a file of {row_count} rows"
        )
    for start, batch in batches:
        is_live = vector.keep_mask(start, batch.num_rows)
        live_batch = batch if is_live.all() else batch.filter(pa.array(is_live))
        if live_batch.num_rows:
            yield live_batch


def encode_deletion_vector(vector: DeletionVector) -> tuple[bytes, int]:
    """Encode the entry of a vector, and return it with its length in the index manifest."""
    bitmap = BitMap64(vector.bitmap) if vector.is_64 else BitMap(vector.bitmap)
    bitmap.run_optimize()
    body = (MAGIC_64 if vector.is_64 else _MAGIC_32) + bitmap.serialize()
    entry = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return entry, len(entry) if vector.is_64 else len(body)


def encode_deletion_vector_files(
    vectors: Mapping[str, DeletionVector], *, target_size: int | None = None
) -> Iterator[tuple[bytes, tuple[DeletionVectorMeta, ...]]]:
    """Encode vectors into files, and yield each file with the offsets of its vectors.

    Args:
        target_size: the bytes beyond which a file is full; None: one file gets all.
    """
    content = bytearray(FILE_HEADER)
    metas: list[DeletionVectorMeta] = []
    for name, vector in vectors.items():
        entry, length = encode_deletion_vector(vector)
        metas.append(
            DeletionVectorMeta(
                data_file_name=name,
                offset=len(content),
                length=length,
                cardinality=vector.cardinality,
            )
        )
        content += entry
        if target_size is not None and len(content) > target_size:
            yield bytes(content), tuple(metas)
            content = bytearray(FILE_HEADER)
            metas = []
    if metas:
        yield bytes(content), tuple(metas)


def decode_deletion_vectors(
    data: bytes, metas: Sequence[DeletionVectorMeta]
) -> dict[str, DeletionVector]:
    """Decode some or all vectors of a file, by data file.

    Raises:
        CorruptFileError: the version is unknown, or an entry differs from its description.
    """
    if data[:1] != FILE_HEADER:
        raise damaged_file_error(
            f"a file of deletion vectors begins with {data[:1]!r}, not {FILE_HEADER!r}"
        )
    vectors = {}
    for meta in metas:
        try:
            vectors[meta.data_file_name] = _decode_entry(data, meta)
        except (ValueError, IndexError) as error:
            raise damaged_file_error(
                f"the deletion vector of {meta.data_file_name} at offset {meta.offset}: {error}"
            ) from error
    return vectors


def _decode_entry(data: bytes, meta: DeletionVectorMeta) -> DeletionVector:
    """Decode an entry; ValueError or pyroaring's IndexError if it is invalid."""
    body_start = meta.offset + _WORD
    magic = data[body_start : body_start + _WORD]
    if magic not in (_MAGIC_32, MAGIC_64):
        raise ValueError(f"no deletion vector begins with the magic number {magic.hex()}")
    is_64 = magic == MAGIC_64
    size = int.from_bytes(data[meta.offset : body_start], "big")
    listed_size = meta.length - _FRAME_SIZE if is_64 else meta.length
    if size != listed_size:
        raise ValueError(f"it has {size} bytes, and the index manifest says {listed_size}")
    if meta.offset < len(FILE_HEADER) or len(data) < meta.offset + size + _FRAME_SIZE:
        raise ValueError(f"it is not within the {len(data)} bytes of its file")
    body_end = body_start + size
    body = data[body_start:body_end]
    checksum = int.from_bytes(data[body_end : body_end + _WORD], "big")
    if zlib.crc32(body) != checksum:
        raise ValueError(f"its CRC is {zlib.crc32(body):#010x} instead of {checksum:#010x}")
    bitmap = body[_WORD:]
    vector = DeletionVector(
        FrozenBitMap64.deserialize(bitmap) if is_64 else FrozenBitMap.deserialize(bitmap)
    )
    if meta.cardinality not in (None, vector.cardinality):
        raise ValueError(
            f"it deletes {vector.cardinality} rows, and the index manifest says {meta.cardinality}"
        )
    return vector
