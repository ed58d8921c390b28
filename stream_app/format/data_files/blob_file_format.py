"""Reads files of BLOBs, with one column in records that may be large.

============  ===================================================================
of a record   bytes
============  ===================================================================
magic number  4
value         as long as it is
length        8, of the whole record
CRC-32        4, of all before it
============  ===================================================================

After the records come their lengths, as differences in ZigZag varints, then the number of bytes of
these (4) and a version (1). Numbers are little-endian. A null has the length -1 and no record. The
length -2 means that an older file has the row's value.

Java does not check the CRC; stream_app does, as it checks that of pages.

Source: Paimon `format/blob/BlobFormatWriter.java`, `format/blob/BlobFileMeta.java`,
`utils/DeltaVarintCompressor.java`.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.errors import UnsupportedTableError
from stream_app.format.data_files.damaged_files import damaged_file_error
from stream_app.format.data_files.data_file_format import DataFileRead, DataFileSink, FileStream
from stream_app.format.data_files.file_batches import BATCH_SIZE
from stream_app.model.options.core_options import CoreOptions

_IN_OLDER_FILE = -2
_MAGIC = np.frombuffer(struct.pack("<I", 1_481_511_375), np.uint8)
_VERSION = 1
_END_SIZE, _HEAD_SIZE, _TAIL_SIZE, _CRC_SIZE = 5, 4, 12, 4
_FRAME_SIZE = _HEAD_SIZE + _TAIL_SIZE
_VALUE_BYTES_MAX = 2**31 - 1
_VARINT_BYTES_MAX = 10


@dataclass(frozen=True)
class BlobIndex:
    """The records of a file.

    Attributes:
        lengths: of each row's record, -1 for null, -2 for the value of an older file: int64 [n].
        starts: where the record begins in the file, or would: int64 [n].
    """

    lengths: Int64s
    starts: Int64s

    @property
    def is_older(self) -> npt.NDArray[np.bool_]:
        """The rows whose value an older file has: bool [n]."""
        is_older: npt.NDArray[np.bool_] = self.lengths == _IN_OLDER_FILE
        return is_older

    def sizes(self) -> Int64s:
        """Return the bytes that each row takes in the file: int64 [n]."""
        return np.maximum(self.lengths, 0)

    def values(self, source: FileStream, indices: Int64s) -> pa.Array:
        """Return the values of ascending rows, binary [k].

        Raises:
            CorruptFileError: a record is not what was written.
            UnsupportedTableError: a value is larger than Arrow's.
        """
        lengths = self.lengths[indices]
        stored_indices = indices[lengths >= 0]
        sizes = self.lengths[stored_indices]
        if (sizes > _VALUE_BYTES_MAX).any():
            raise UnsupportedTableError(
                f"a BLOB of {int(sizes.max()) - _FRAME_SIZE} bytes is larger than 2 GiB",
                fix="omit its column from the read, or read it with Paimon's own readers, as "
                "descriptors (blob-as-descriptor)",
            )
        data = self._bytes_of(source, stored_indices, sizes)
        starts_in_data = np.cumsum(sizes) - sizes
        _check_records(data, starts_in_data, sizes)
        # Each record has three parts: its head, its value and its tail. Only the second is taken.
        part_offsets = (starts_in_data[:, None] + np.array([0, _HEAD_SIZE, 0])).astype(np.int32)
        part_offsets[:, 2] = starts_in_data + sizes - _TAIL_SIZE
        offsets = np.append(part_offsets.ravel(), np.int32(len(data)))
        parts = pa.BinaryArray.from_buffers(
            pa.binary(), 3 * len(stored_indices), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        part_indices = np.where(lengths >= 0, 3 * (np.cumsum(lengths >= 0) - 1) + 1, 0)
        return parts.take(pa.array(part_indices, mask=lengths < 0))

    def _bytes_of(self, source: FileStream, indices: Int64s, sizes: Int64s) -> bytes:
        """Return the records of rows; adjacent records take one request."""
        starts = self.starts[indices]
        ends = starts + sizes
        first_indices = np.flatnonzero(np.append(True, starts[1:] != ends[:-1])[: len(indices)])
        parts = []
        # A loop over gaps between records, each of which is a request.
        for first_index, last_index in zip(
            first_indices, [*first_indices[1:] - 1, len(indices) - 1], strict=False
        ):
            source.seek(int(starts[first_index]))
            parts.append(source.read(int(ends[last_index] - starts[first_index])))
        return b"".join(parts)


def _check_records(data: bytes, starts: Int64s, sizes: Int64s) -> None:
    """Refuse records whose magic, length or CRC differs from the file's index."""
    if len(data) != int(sizes.sum()):
        raise damaged_file_error("a file of BLOBs ends before its records")
    data_bytes = np.frombuffer(data, np.uint8)
    ends = starts + sizes
    heads = data_bytes[starts[:, None] + np.arange(_HEAD_SIZE)]
    listed_sizes = (
        data_bytes[(ends - _TAIL_SIZE)[:, None] + np.arange(8)].copy().view("<i8").ravel()
    )
    if (heads != _MAGIC).any() or (listed_sizes != sizes).any():
        raise damaged_file_error("a record of a file of BLOBs is not where the file's index says")
    checksums = data_bytes[(ends - _CRC_SIZE)[:, None] + np.arange(4)].copy().view("<u4").ravel()
    data_view = memoryview(data)
    # A loop over records: each is a BLOB, whose bytes take longer than the step.
    computed_checksums = [
        zlib.crc32(data_view[start : end - _CRC_SIZE])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    if computed_checksums != checksums.tolist():
        raise damaged_file_error("a record of a file of BLOBs is not the one that was written")


def read_blob_index(source: FileStream, row_count: int) -> BlobIndex:
    """Read the records of a file of BLOBs.

    Raises:
        CorruptFileError: the file does not hold BLOBs, or has another number of rows.
    """
    size = source.seek(0, io.SEEK_END)
    if size < _END_SIZE:
        raise damaged_file_error(f"a file of {size} bytes is not a file of BLOBs")
    source.seek(size - _END_SIZE)
    index_bytes, version = struct.unpack("<iB", source.read(_END_SIZE))
    if version != _VERSION:
        raise UnsupportedTableError(
            f"a file of BLOBs has version {version}, and stream_app reads version {_VERSION}",
            fix="read it with the engine that wrote it",
        )
    index_start = size - _END_SIZE - index_bytes
    if index_bytes < 0 or index_start < 0:
        raise damaged_file_error(f"the index of a file of BLOBs has {index_bytes} bytes")
    source.seek(index_start)
    lengths = np.cumsum(zigzag_varints(source.read(index_bytes)))
    if len(lengths) != row_count:
        raise damaged_file_error(
            f"a data file has {len(lengths)} rows, and its manifest says {row_count}"
        )
    sizes = np.maximum(lengths, 0)
    if ((lengths < _FRAME_SIZE) & (lengths != -1) & (lengths != _IN_OLDER_FILE)).any() or (
        int(sizes.sum()) != index_start
    ):
        raise damaged_file_error("the index of a file of BLOBs does not agree with its records")
    return BlobIndex(lengths, np.cumsum(sizes) - sizes)


def zigzag_varints(data: bytes) -> Int64s:
    """Decode numbers as Paimon packs them: 7 bits a byte, the lowest first, the sign as lowest bit.

    The bytes ``02 03 80 01`` are the numbers ``[1, -2, 64]``.

    Raises:
        CorruptFileError: the last number is cut off, or a number is too long.
    """
    data_bytes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(data_bytes < 0x80)
    if not len(data_bytes):
        return np.empty(0, np.int64)
    starts = np.append(0, ends[:-1] + 1)
    if (
        not len(ends)
        or ends[-1] != len(data_bytes) - 1
        or (ends - starts >= _VARINT_BYTES_MAX).any()
    ):
        raise damaged_file_error("the index of a file of BLOBs is cut off")
    byte_indices = np.arange(len(data_bytes)) - np.repeat(starts, ends - starts + 1)
    bits = (data_bytes & 0x7F).astype(np.uint64) << (7 * byte_indices).astype(np.uint64)
    zigzag_values = np.bitwise_or.reduceat(bits, starts)
    integers = (zigzag_values >> np.uint64(1)) ^ (np.uint64(0) - (zigzag_values & np.uint64(1)))
    return integers.view(np.int64)


def blob_windows(sizes: Int64s, batch_rows_max: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each window of rows that are read together.

    A window has `batch_rows_max` rows at most, and about `BATCH_SIZE`; one row may be larger.
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        window_offset = int(ends[start]) - int(sizes[start])
        fitting_end = int(np.searchsorted(ends, window_offset + BATCH_SIZE, side="right"))
        end = max(start + 1, min(fitting_end, start + batch_rows_max))
        yield start, end
        start = end


class BlobFileFormat:
    """The format of BLOB files. Implements `DataFileFormat`.

    If an older file has a row's value, the value is null.
    """

    def open_sink(
        self,
        sink: FileStream,  # noqa: ARG002 - the port's
        schema: pa.Schema,  # noqa: ARG002 - the port's
        options: CoreOptions,  # noqa: ARG002 - the port's
    ) -> DataFileSink:
        """Raise `UnsupportedTableError`, because stream_app writes no BLOBs."""
        raise UnsupportedTableError(
            "stream_app writes no files of BLOBs",
            fix="write the table with Paimon's own engines, or change the column's type to BYTES",
        )

    def numbered_batches(
        self, source: FileStream, request: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read the file's index, then its values in windows of a limited size."""
        if len(request.fields) != 1:
            raise damaged_file_error(
                f"a file of BLOBs has one column, and its manifest says {len(request.fields)}"
            )
        index = read_blob_index(source, request.row_count)
        for start, end in blob_windows(index.sizes(), request.batch_rows_max):
            values = index.values(source, np.arange(start, end))
            yield start, pa.RecordBatch.from_arrays([values], schema=pa.schema(request.fields))
