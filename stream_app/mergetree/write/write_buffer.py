"""Buffers rows of one bucket in memory up to a limit, and drains them in key order.

`merge_tree_writer` uses the buffer, which collects batches in a chunk. A chunk is full at a tenth
of the limit, and is then sorted. When the sorted chunks reach seven tenths of the limit, the buffer
merges them into a sorted run on local disk. A buffer that may not spill is full at this point, and
the writer must flush it. Draining merges the chunks and the runs piece by piece.

The buffer takes at most 5/4 of the limit, if a record, and all versions of a key, are small beside
the limit. The peak is seven chunks, and in addition the larger one of these two:

* two copies of the next chunk, with its order
* a chunk, and for each run a piece (1/128 of the limit) with its merged copy

Source: Paimon `mergetree/SortBufferWriteBuffer.java` (`write-buffer-size`,
`write-buffer-spillable`, `write-buffer-spill.max-disk-size`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.errors import RecordTooLargeError
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.spilled_runs import SpilledRuns, cut_between_keys
from stream_app.mergetree.write.fill_unchanged import omits_values, with_further_columns

CHUNKS_PER_BUFFER = 10
BUFFERED_CHUNKS_MAX = 7
PIECES_PER_BUFFER = 128


@dataclass(slots=True)
class SortBufferWriteBuffer:
    """One bucket's write buffer.

    Attributes:
        bytes_max: the maximum bytes of Arrow memory of the buffered rows
            (``write-buffer-size``).
        chunk_merge: merges each chunk when it is sorted; None if a changelog needs all rows.
        may_spill: whether to spill (``write-buffer-spillable``).
        spilled_bytes_max: the maximum bytes on local disk; None: no limit.
        spill_parent: the folder for spill files; None: the system's.
    """

    layout: KeyValueLayout
    bytes_max: int
    chunk_merge: MergeFunction | None
    may_spill: bool = True
    spilled_bytes_max: int | None = None
    spill_parent: str | None = None
    _gathered_batches: list[pa.RecordBatch] = field(init=False, default_factory=list)
    _gathered_size: int = field(init=False, default=0)
    _chunks: list[pa.RecordBatch] = field(init=False, default_factory=list)
    _chunks_size: int = field(init=False, default=0)
    _spilled_runs: SpilledRuns = field(init=False)

    def __post_init__(self) -> None:
        self._spilled_runs = self._new_runs()

    def _new_runs(self) -> SpilledRuns:
        return SpilledRuns(
            layout=self.layout,
            piece_size=self._piece_size,
            merge=self._merge,
            bytes_max=self.spilled_bytes_max,
            parent=self.spill_parent,
        )

    def widen(self, layout: KeyValueLayout) -> None:
        """Accept rows with the further columns at the end of `layout`.

        The buffer must not have spilled.
        """
        assert not self._spilled_runs.count, "rows on local disk cannot be widened"
        self.layout = layout
        schema = layout.schema
        self._gathered_batches = [
            with_further_columns(batch, schema) for batch in self._gathered_batches
        ]
        self._chunks = [with_further_columns(batch, schema) for batch in self._chunks]
        self._gathered_size = sum(batch.nbytes for batch in self._gathered_batches)
        self._chunks_size = sum(batch.nbytes for batch in self._chunks)
        self._spilled_runs = self._new_runs()

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield pieces of a batch that are small enough for `put`, in order."""
        if batch.nbytes <= self._chunk_bytes_max or batch.num_rows == 1:
            yield batch
            return
        half = batch.num_rows // 2
        for part in (batch.slice(0, half), batch.slice(half)):
            for piece in self.cut(part):
                # A slice would keep the whole batch in memory.
                yield pa.concat_batches([piece]) if piece is part else piece

    def put(self, piece: pa.RecordBatch) -> None:
        """Add a piece of a key-value batch from `cut`.

        Raises:
            RecordTooLargeError: a single row is larger than the buffer.
        """
        size = piece.nbytes
        assert size <= self._chunk_bytes_max or piece.num_rows == 1, size
        if size > self.bytes_max:
            raise RecordTooLargeError(
                f"one record takes {size} bytes, the write buffer has {self.bytes_max}",
                fix="raise the table option 'write-buffer-size'",
            )
        if self._gathered_batches and self._gathered_size + size > self._chunk_bytes_max:
            self._end_chunk()
        self._gathered_batches.append(piece)
        self._gathered_size += size

    @property
    def is_empty(self) -> bool:
        """Whether the buffer has no rows."""
        return not (self._gathered_batches or self._chunks or self._spilled_runs.count)

    @property
    def is_full(self) -> bool:
        """Whether the buffer must be flushed before the next `put`."""
        buffered_size = self._gathered_size + self._chunks_size
        return (
            buffered_size >= BUFFERED_CHUNKS_MAX * self._chunk_bytes_max and not self._may_spill()
        )

    @property
    def spilled_size(self) -> int:
        """Bytes on local disk."""
        return self._spilled_runs.size

    def drain(self) -> Iterator[MergeWindow]:
        """Yield all rows in windows in key order, and leave the buffer empty."""
        if not self._chunks and not self._spilled_runs.count:
            if self._gathered_batches:
                yield sorted_window(self._take_gathered_rows(), self.layout)
            return
        if self._gathered_batches:
            self._keep_chunk(self._sort(self._take_gathered_rows()))
        runs = [*self._spilled_runs.read(), *self._chunk_runs()]
        try:
            yield from merge_windows(runs, self.layout)
        finally:
            self.close()

    def close(self) -> None:
        """Drop all rows and spill files."""
        self._gathered_batches, self._gathered_size = [], 0
        self._chunks, self._chunks_size = [], 0
        self._spilled_runs.close()

    @property
    def _chunk_bytes_max(self) -> int:
        return max(1, self.bytes_max // CHUNKS_PER_BUFFER)

    @property
    def _piece_size(self) -> int:
        return max(1, self.bytes_max // PIECES_PER_BUFFER)

    def _may_spill(self) -> bool:
        return self.may_spill and self._spilled_runs.has_room(self._chunks_size)

    def _end_chunk(self) -> None:
        chunk = self._sort(self._take_gathered_rows())
        if chunk.nbytes < self._chunk_bytes_max // 2 and self.chunk_merge is not None:
            # If few keys change often, the merged chunks would be many and small.
            self._gathered_batches, self._gathered_size = [chunk], chunk.nbytes
            return
        self._keep_chunk(chunk)
        if self._chunks_size >= BUFFERED_CHUNKS_MAX * self._chunk_bytes_max and self._may_spill():
            self._spilled_runs.add(self._chunk_runs())

    def _take_gathered_rows(self) -> pa.RecordBatch:
        batches = self._gathered_batches
        self._gathered_batches, self._gathered_size = [], 0
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _sort(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows == 1:
            return batch
        return self._merge(sorted_window(batch, self.layout))

    def _merge(self, window: MergeWindow) -> pa.RecordBatch:
        # An older value must stay until the next rows of its key have used it.
        if self.chunk_merge is None or omits_values(window.batch):
            return self.layout.rows_at(window.batch, window.order)
        return self.chunk_merge.merge(window, self.layout)

    def _keep_chunk(self, chunk: pa.RecordBatch) -> None:
        if chunk.num_rows:
            self._chunks.append(chunk)
            self._chunks_size += chunk.nbytes

    def _chunk_runs(self) -> list[Iterator[pa.RecordBatch]]:
        """Return the chunks as sorted runs, and drop the buffer's references to them."""
        chunks, self._chunks, self._chunks_size = self._chunks, [], 0
        return [cut_between_keys(chunk, self.layout, self._piece_size) for chunk in chunks]
