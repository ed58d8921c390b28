"""A copy of a data file: its rows as Arrow, mapped into memory, and an index of its keys.

The index is a sorted column with a 64-bit number for each row, which joins the key's hash and the
row's position. A lookup searches all hashes at once by binary search, so it reads only pages with
matches. The result includes rows of other keys with the same hash; the caller compares keys.

Source: Paimon `lookup/sort/SortLookupStoreFactory.java`; stream_app's own are columns and
the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.bucket_hash import MurmurHashes

HashesOf = Callable[[pa.RecordBatch], MurmurHashes]
"""The hash of each row's key, uint32 [n]."""
BROKEN = (OSError, ValueError, IndexError, EOFError)
"""Errors from reading a damaged copy; `pa.ArrowInvalid` is a ValueError."""
_ROWS, _INDEX, _STARTS = "rows.arrow", "index.npy", "starts.npy"
_POSITION_BITS = np.uint64(32)
_POSITION_MASK = np.uint64((1 << 32) - 1)


class TooLargeError(Exception):
    """The copy would exceed its maximum size."""


@dataclass(frozen=True, slots=True)
class LookupCopy:
    """A copy of n rows in m batches.

    Attributes:
        starts: int64 [m + 1]; the position of each batch's first row, then n.
        index: uint64 [n], ascending.
    """

    batches: pa.ipc.RecordBatchFileReader
    starts: Int64s
    index: npt.NDArray[np.uint64]

    @classmethod
    def open(cls, folder: Path, schema: pa.Schema, row_count: int) -> LookupCopy:
        """Open a copy that `write_copy` has written.

        Raises:
            FileNotFoundError: the copy does not exist.
            BROKEN: the copy is damaged, or has other rows.
        """
        batches = pa.ipc.open_file(pa.memory_map(str(folder / _ROWS)))
        starts = np.load(folder / _STARTS)
        index = np.load(folder / _INDEX, mmap_mode="r")
        expected_lengths = batches.num_record_batches + 1, row_count, row_count
        if (
            len(starts),
            int(starts[-1]),
            len(index),
        ) != expected_lengths or batches.schema != schema:
            raise ValueError(f"{folder} is not a copy of {row_count} rows")
        return cls(batches, starts, index)

    def rows_of(
        self, hashes: MurmurHashes, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Yield the rows with a key of these hashes in the file's order, and their positions.

        Three rows, of which the second has the only wanted hash::

            index    [1 << 32 | 2, 5 << 32 | 1, 9 << 32 | 0]
            hashes   [5]
            positions [1]

        Args:
            names: the columns of the rows.

        Raises:
            BROKEN: the copy is damaged.
        """
        positions = self._positions(hashes)
        bounds = np.searchsorted(positions, self.starts)
        for batch_index in np.flatnonzero(np.diff(bounds)).tolist():
            batch_positions = positions[bounds[batch_index] : bounds[batch_index + 1]]
            batch = self.batches.get_batch(batch_index).select(names)
            yield batch.take(pa.array(batch_positions - self.starts[batch_index])), batch_positions

    def _positions(self, hashes: MurmurHashes) -> Int64s:
        first_entries = np.unique(hashes).astype(np.uint64) << _POSITION_BITS
        starts = np.searchsorted(self.index, first_entries)
        is_in_index = starts < len(self.index)
        first_entries, starts = first_entries[is_in_index], starts[is_in_index]
        is_wanted = self.index[starts] <= first_entries | _POSITION_MASK
        first_entries, starts = first_entries[is_wanted], starts[is_wanted]
        counts = np.searchsorted(self.index, first_entries | _POSITION_MASK, side="right") - starts
        skipped_counts = np.cumsum(counts) - counts
        entries = np.arange(counts.sum()) + np.repeat(starts - skipped_counts, counts)
        positions = np.sort(self.index[entries] & _POSITION_MASK)
        return positions.astype(np.int64)


def write_copy(
    folder: Path,
    rows: Iterable[pa.RecordBatch],
    row_count: int,
    *,
    hashes_of: HashesOf,
    bytes_max: int,
) -> None:
    """Write a durable copy of at least one row into an empty folder.

    Args:
        rows: all rows of a data file, in order.
        bytes_max: the approximate maximum size of the copy.

    Raises:
        TooLargeError: the copy would be larger; only the first rows were read.
        OSError: the disk is full, or cannot be written.
    """
    # Do not map the file while writing: a write into a hole on a full disk would kill the process.
    index = np.empty(row_count, np.uint64)
    starts = [0]
    writer: pa.ipc.RecordBatchFileWriter | None = None
    with (folder / _ROWS).open("wb") as file:
        for batch in rows:
            if writer is None:
                _check_size(batch, row_count, bytes_max)
                writer = pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
            start, end = starts[-1], starts[-1] + batch.num_rows
            hashes = hashes_of(batch).astype(np.uint64)
            index[start:end] = hashes << _POSITION_BITS | np.arange(start, end, dtype=np.uint64)
            starts.append(end)
        assert writer is not None, "a data file has rows"
        writer.close()
    index.sort()
    np.save(folder / _INDEX, index)
    np.save(folder / _STARTS, np.array(starts, np.int64))
    for name in (_ROWS, _INDEX, _STARTS):
        LocalFileIO().sync(str(folder / name))


def _check_size(first_batch: pa.RecordBatch, row_count: int, bytes_max: int) -> None:
    if row_count * (first_batch.nbytes / len(first_batch) + 8) > bytes_max:
        raise TooLargeError
