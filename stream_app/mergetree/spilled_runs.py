"""Keeps sorted runs of a write buffer on local disk, as Arrow IPC.

`write_buffer` uses it. A run is read back in small pieces, so that merging many runs takes little
memory. Too many runs are first merged into one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout, last_of_key
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.process.local_disk import scratch_folder

RUNS_MAX = 8
PIECE_ROWS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class _Run:
    path: Path
    size: int
    is_merged: bool


@dataclass(slots=True)
class SpilledRuns:
    """Sorted runs in files that live as long as the buffer.

    Attributes:
        piece_bytes: the Arrow memory in which a run is read at a time.
        merge: converts a window to ordered rows.
        limit: the maximum bytes on disk; None: no limit.
        parent: the folder for the files' folder; None: the system's.
    """

    layout: KeyValueLayout
    piece_bytes: int
    merge: Callable[[MergeWindow], pa.RecordBatch]
    limit: int | None
    parent: str | None
    _runs: list[_Run] = field(init=False, default_factory=list)
    _written: int = field(init=False, default=0)
    _folder: tempfile.TemporaryDirectory[str] | None = field(init=False, default=None)

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self._runs)

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(run.size for run in self._runs)

    def has_room(self, more_bytes: int) -> bool:
        """Return whether rows with this many bytes may be added."""
        if self.limit is None:
            return True
        needed = self.size + more_bytes
        if self.count == RUNS_MAX - 1:
            needed += sum(run.size for run in self._runs_to_merge()) + more_bytes
        return needed <= self.limit

    def add(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Merge sorted runs into one on disk."""
        self._runs.append(self._write(runs, is_merged=False))
        if self.count == RUNS_MAX:
            due = self._runs_to_merge()
            merged = self._write([self._read(run) for run in due], is_merged=True)
            self._runs = [run for run in self._runs if run not in due] + [merged]
            for run in due:
                run.path.unlink()

    def read(self) -> list[Iterator[pa.RecordBatch]]:
        """Return the runs for a merge."""
        return [self._read(run) for run in self._runs]

    def close(self) -> None:
        """Delete everything."""
        self._runs = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _runs_to_merge(self) -> list[_Run]:
        """Return the runs to merge if there are too many, so that each row is rewritten rarely."""
        fresh = [run for run in self._runs if not run.is_merged]
        return fresh if len(fresh) > 1 else self._runs

    def _write(self, runs: Sequence[Iterator[pa.RecordBatch]], *, is_merged: bool) -> _Run:
        """Merge sorted runs into one file on local disk."""
        if self._folder is None:
            self._folder = scratch_folder("spill", self.parent)
        path = Path(self._folder.name) / f"run-{self._written}.arrow"
        self._written += 1
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink:
            with pa.ipc.new_stream(sink, self.layout.schema, options=options) as writer:
                for window in merge_windows(runs, self.layout):
                    # A key must not be in two pieces, and a window may be large.
                    for piece in cut_between_keys(
                        self.merge(window), self.layout, self.piece_bytes
                    ):
                        writer.write_batch(piece)
            size = sink.tell()
        return _Run(path, size, is_merged)

    def _read(self, run: _Run) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(run.path), "rb") as source, pa.ipc.open_stream(source) as reader:
            yield from reader


def cut_between_keys(
    batch: pa.RecordBatch, layout: KeyValueLayout, piece_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Split a sorted batch into pieces of about `piece_bytes`, never between two rows of a key.

    Rows with the keys ``[5, 5, 5, 7]``, cut after two rows, become ``[5, 5, 5] [7]``.
    """
    count = batch.num_rows
    pieces = max(-(-batch.nbytes // piece_bytes), -(-count // PIECE_ROWS_MAX))
    if pieces <= 1:
        yield batch
        return
    rows = -(-count // pieces)
    ends = np.flatnonzero(last_of_key(batch, None, layout)) + 1
    start = 0
    while start < count:
        end = int(ends[np.searchsorted(ends, min(start + rows, count))])
        yield batch.slice(start, end - start)
        start = end
