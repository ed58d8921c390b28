"""Rows of one bucket in memory up to a limit, drained in key order.

Used by merge_tree_writer. Arriving batches gather into a chunk; a full chunk (an eighth of the
limit) is sorted at once and kept; beyond the limit sorted chunks go to local disk as Arrow IPC,
or, when spilling is off, the buffer is full and must be flushed. Draining merges the chunks.

Source: Paimon `mergetree/SortBufferWriteBuffer.java` (`write-buffer-size`,
`write-buffer-spillable`, `write-buffer-spill.max-disk-size`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.errors import RecordTooLargeError
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    last_of_key,
    order_by_key,
    take,
)
from stream_app.mergetree.merge_function import MergeFunction
from stream_app.mergetree.sort_merge_reader import MergeWindow, merge_windows

CHUNKS_PER_BUFFER = 8
BATCH_ROWS = 65_536


@dataclass(slots=True)
class _Spilled:
    path: Path
    size: int


@dataclass(slots=True)
class SortBufferWriteBuffer:
    """One bucket's write buffer.

    Attributes:
        memory_limit: bytes of Arrow memory that the held rows may take (``write-buffer-size``).
        merge_early: merge each chunk when it is sorted; None while a changelog needs all rows.
        spillable: whether to spill (``write-buffer-spillable``).
        spill_limit: bytes on local disk, None for no limit.
        spill_parent: folder for spill files; None for the system's.
    """

    layout: KeyValueLayout
    memory_limit: int
    merge_early: MergeFunction | None
    spillable: bool = True
    spill_limit: int | None = None
    spill_parent: str | None = None
    _gathering: list[pa.RecordBatch] = field(default_factory=list)
    _gathered_bytes: int = 0
    _chunks: list[pa.RecordBatch] = field(default_factory=list)
    _chunk_bytes: int = 0
    _spilled: list[_Spilled] = field(default_factory=list)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def put(self, batch: pa.RecordBatch) -> None:
        """Take in a key-value batch.

        Raises:
            RecordTooLargeError: one row alone is larger than the buffer.
        """
        chunk_limit = max(1, self.memory_limit // CHUNKS_PER_BUFFER)
        if batch.nbytes > chunk_limit and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.put(batch.slice(0, half))
            self.put(batch.slice(half))
            return
        if batch.nbytes > self.memory_limit:
            raise RecordTooLargeError(
                f"one record takes {batch.nbytes} bytes, the write buffer has {self.memory_limit}",
                fix="raise the table option 'write-buffer-size'",
            )
        self._gathering.append(batch)
        self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= chunk_limit:
            self._sort_chunk()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to drain."""
        return not (self._gathering or self._chunks or self._spilled)

    @property
    def is_full(self) -> bool:
        """Whether it must be flushed before more is put in."""
        return self._memory_bytes() >= self.memory_limit and not self._may_spill()

    @property
    def spilled_bytes(self) -> int:
        """Bytes on local disk."""
        return sum(spilled.size for spilled in self._spilled)

    def drain(self) -> Iterator[MergeWindow]:
        """Everything in windows of key order; the buffer is empty afterwards."""
        if not self._chunks and not self._spilled:
            if self._gathering:
                batch = pa.concat_batches(self._gathering)
                self._forget()
                yield MergeWindow(batch, order_by_key(batch, self.layout))
            return
        self._sort_chunk()
        runs = [self._read_spilled(spilled.path) for spilled in self._spilled]
        runs += [_whole_keys(chunk, self.layout) for chunk in self._chunks]
        self._chunks = []
        try:
            yield from merge_windows(runs, self.layout)
        finally:
            self._forget()

    def close(self) -> None:
        """Drop everything, spill files included."""
        self._forget()

    def _memory_bytes(self) -> int:
        return self._gathered_bytes + self._chunk_bytes

    def _may_spill(self) -> bool:
        return self.spillable and (
            self.spill_limit is None or self.spilled_bytes + self._chunk_bytes <= self.spill_limit
        )

    def _sort_chunk(self) -> None:
        if not self._gathering:
            return
        batch = pa.concat_batches(self._gathering)
        self._gathering, self._gathered_bytes = [], 0
        order = order_by_key(batch, self.layout)
        chunk = (
            take(batch, order)
            if self.merge_early is None
            else self.merge_early.merge(batch, order, self.layout)
        )
        self._chunks.append(chunk)
        self._chunk_bytes += chunk.nbytes
        # Sorting the next chunk needs room for itself twice, and draining for a window.
        if self._chunk_bytes >= self.memory_limit * 5 // CHUNKS_PER_BUFFER and self._may_spill():
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="stream_app-spill-", dir=self.spill_parent
            )
        path = Path(self._folder.name) / f"run-{len(self._spilled)}.arrow"
        runs = [_whole_keys(chunk, self.layout) for chunk in self._chunks]
        self._chunks, self._chunk_bytes = [], 0
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink:
            with pa.ipc.new_stream(sink, self.layout.schema, options=options) as writer:
                for window in merge_windows(runs, self.layout):
                    merged = (
                        take(window.batch, window.order)
                        if self.merge_early is None
                        else self.merge_early.merge(window.batch, window.order, self.layout)
                    )
                    # A window of few runs is small enough, but it may repeat keys: cut at keys.
                    for part in _whole_keys(merged, self.layout):
                        writer.write_batch(part)
            size = sink.tell()
        self._spilled.append(_Spilled(path, size))

    def _read_spilled(self, path: Path) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as reader:
            yield from reader

    def _forget(self) -> None:
        self._gathering, self._gathered_bytes = [], 0
        self._chunks, self._chunk_bytes = [], 0
        self._spilled = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _whole_keys(batch: pa.RecordBatch, layout: KeyValueLayout) -> Iterator[pa.RecordBatch]:
    """Cut a sorted batch into pieces of about BATCH_ROWS, never between two rows of one key."""
    if batch.num_rows <= BATCH_ROWS:
        yield batch
        return
    ends = np.flatnonzero(last_of_key(batch, None, layout)) + 1
    start = 0
    while start < batch.num_rows:
        at = np.searchsorted(ends, min(start + BATCH_ROWS, batch.num_rows))
        end = int(ends[at])
        yield batch.slice(start, end - start)
        start = end
