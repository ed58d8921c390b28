"""Keeps sorted runs on local disk, as Arrow IPC.

`write_buffer` spills its rows, and `merged_section` the runs of a section that has too many to
read at once. They read a run back in small pieces, so that merging many runs takes little memory.
If there are too many runs, some are first merged into one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout, is_last_of_key
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.process.local_disk import scratch_folder

RUNS_MAX = 8
"""The number of runs at which some are merged into one."""
PIECE_ROWS_MAX = 65_536
"""The maximum rows of a piece, for rows that take few bytes."""


@dataclass(frozen=True, slots=True)
class _Run:
    path: Path
    size: int
    is_merged: bool


@dataclass(slots=True)
class SpilledRuns:
    """Sorted runs in files that live until `close`.

    Attributes:
        piece_size: the Arrow memory in which a run is read at a time.
        merge: converts a window to ordered rows.
        bytes_max: the maximum bytes on disk; None: no limit.
        parent: the folder for the files' folder; None: the system's.
    """

    layout: KeyValueLayout
    piece_size: int
    merge: Callable[[MergeWindow], pa.RecordBatch]
    bytes_max: int | None
    parent: str | None
    _runs: list[_Run] = field(init=False, default_factory=list)
    _next_number: int = field(init=False, default=0)
    _folder: tempfile.TemporaryDirectory[str] | None = field(init=False, default=None)

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self._runs)

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(run.size for run in self._runs)

    def has_room(self, new_size: int) -> bool:
        """Return whether rows with this many bytes may be added."""
        if self.bytes_max is None:
            return True
        needed_size = self.size + new_size
        if self.count == RUNS_MAX - 1:
            needed_size += sum(run.size for run in self._runs_to_merge()) + new_size
        return needed_size <= self.bytes_max

    def add(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> None:
        """Merge sorted runs into one on disk."""
        self._runs.append(self._write(runs, is_merged=False))
        if self.count == RUNS_MAX:
            runs_to_merge = self._runs_to_merge()
            merged_run = self._write([self._read(run) for run in runs_to_merge], is_merged=True)
            self._runs = [run for run in self._runs if run not in runs_to_merge] + [merged_run]
            for run in runs_to_merge:
                run.path.unlink()

    def read(self) -> list[Iterator[pa.RecordBatch]]:
        """Return the runs for a merge."""
        return [self._read(run) for run in self._runs]

    def close(self) -> None:
        """Delete all runs."""
        self._runs = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _runs_to_merge(self) -> list[_Run]:
        """Return the runs to merge if there are too many; the choice rewrites each row rarely."""
        unmerged_runs = [run for run in self._runs if not run.is_merged]
        return unmerged_runs if len(unmerged_runs) > 1 else self._runs

    def _write(self, runs: Sequence[Iterator[pa.RecordBatch]], *, is_merged: bool) -> _Run:
        """Merge sorted runs into one file on local disk."""
        if self._folder is None:
            self._folder = scratch_folder("spill", self.parent)
        path = Path(self._folder.name) / f"run-{self._next_number}.arrow"
        self._next_number += 1
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as sink:
            with pa.ipc.new_stream(sink, self.layout.schema, options=options) as writer:
                for window in merge_windows(runs, self.layout):
                    # A key must not be in two pieces, and a window may be large.
                    for piece in cut_between_keys(self.merge(window), self.layout, self.piece_size):
                        writer.write_batch(piece)
            size = sink.tell()
        return _Run(path, size, is_merged)

    def _read(self, run: _Run) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(run.path), "rb") as source, pa.ipc.open_stream(source) as reader:
            yield from reader


def cut_between_keys(
    batch: pa.RecordBatch, layout: KeyValueLayout, piece_size: int
) -> Iterator[pa.RecordBatch]:
    """Split a sorted batch into pieces of about `piece_size`, never between two rows of a key.

    Rows with the keys ``[5, 5, 5, 7]``, cut after two rows, become ``[5, 5, 5] [7]``.
    """
    count = batch.num_rows
    pieces = max(-(-batch.nbytes // piece_size), -(-count // PIECE_ROWS_MAX))
    if pieces <= 1:
        yield batch
        return
    piece_rows = -(-count // pieces)
    ends = np.flatnonzero(is_last_of_key(batch, None, layout)) + 1
    start = 0
    while start < count:
        end = int(ends[np.searchsorted(ends, min(start + piece_rows, count))])
        yield batch.slice(start, end - start)
        start = end
