"""Merges sections of overlapping files into new files at a level.

Called by compact_task, on an executor. It streams: memory is a batch for each run of a section.

Source: Paimon `mergetree/compact/MergeTreeCompactRewriter.java`, `DropDeleteReader.java`,
`io/RecordLevelExpire.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.file_access import KeyValueFileAccess, KeyValueFileReader, WrittenFiles
from stream_app.mergetree.interval_partition import Section, runs_by_age
from stream_app.mergetree.key_value_batch import KeyValueLayout, is_retract, rows_at
from stream_app.mergetree.merge_engines.merge_function import LookupMerge, MergeFunction
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import level_windows, merge_windows
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.mergetree.spilled_runs import SpilledRuns
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource

FAN_IN = 32
"""Default number of a section's runs that are read at a time."""
PIECE_BYTES = 4 << 20
"""Arrow memory of one piece when a spilled run is read back."""
MILLISECONDS_FROM = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds: as seconds it would be the year 33658."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RecordLevelExpire:
    """The rule for rows that are too old; a rewrite of the oldest rows drops them.

    It applies only where no older row lies above the output: elsewhere a dropped row would bring
    back an older version of its key. Paimon filters before the merge and at every level; if a key's
    times only grow, the result is the same.

    Attributes:
        column: the time field's name: INT (seconds), BIGINT (seconds, or milliseconds from 10^12
            on) or TIMESTAMP. A row where it is null never expires.
        bound: seconds since 1970; rows from before expire.
    """

    column: str
    bound: int

    def is_expired(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """The mask of rows that are too old: bool [n]."""
        times = batch.column(self.column)
        seconds = _seconds(times)
        expired: npt.NDArray[np.bool_] = seconds < self.bound
        if times.null_count:
            expired &= pc.is_valid(times).to_numpy(zero_copy_only=False)
        return expired


def _seconds(times: pa.Array) -> npt.NDArray[np.int64]:
    integers = times.view(pa.int64()) if pa.types.is_timestamp(times.type) else times
    counted: npt.NDArray[np.int64] = pc.fill_null(integers, 0).to_numpy().astype(np.int64)
    if pa.types.is_timestamp(times.type):
        return counted // _PER_SECOND[times.type.unit]
    if times.type == pa.int64():
        return np.where(counted >= MILLISECONDS_FROM, counted // 1000, counted)
    return counted


@dataclass(frozen=True)
class CompactRewriter:
    """Rewrites sections of one bucket.

    Attributes:
        expire: the rule for rows that are too old; None: rows do not expire.
        fan_in: see `merged_section`.
        keeps_deletes: see `EngineTraits`.
    """

    layout: KeyValueLayout
    merge_function: MergeFunction
    files: KeyValueFileAccess
    expire: RecordLevelExpire | None = None
    fan_in: int = FAN_IN
    keeps_deletes: bool = True

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool
    ) -> WrittenFiles:
        """Merge sections (in key order) into one row of files of `output_level`.

        Raises:
            CorruptFileError: an input file cannot be read; nothing that was written stays.
        """
        writer = self.files.data_writer(level=output_level, source=FileSource.COMPACT)
        try:
            for section in sections:
                for batch in merged_section(
                    section, self.layout, self.merge_function, self.files, fan_in=self.fan_in
                ):
                    kept = self.without_stale(batch) if drop_deletes else batch
                    if kept.num_rows:
                        writer.write(kept)
            return WrittenFiles(writer.close())
        except BaseException:
            writer.abort()
            raise

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file by metadata alone."""
        return WrittenFiles((file.upgraded(output_level),))

    def without_stale(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop deletes and rows that are too old, which is safe if they hide no older row."""
        stale = is_retract(batch) if self.keeps_deletes else np.zeros(batch.num_rows, np.bool_)
        if self.expire is not None:
            stale = stale | self.expire.is_expired(batch)
        return rows_at(batch, np.flatnonzero(~stale)) if stale.any() else batch


def merged_section(
    section: Section,
    layout: KeyValueLayout,
    merge_function: MergeFunction,
    files: KeyValueFileReader,
    *,
    fan_in: int = FAN_IN,
) -> Iterator[pa.RecordBatch]:
    """Merge the files of a section into one row for each key, in key order; keeps deletes.

    Args:
        fan_in: the most runs that are read at a time. Of more runs, groups of this size are first
            merged on local disk.
    """
    # With the oldest run first, rows of one key mostly meet in the order of their age already.
    by_age = runs_by_age(section)
    if isinstance(merge_function, LookupMerge):
        for window in level_windows(by_age, files, layout):
            yield merge_function.merge_levels(window, layout)
        return
    runs = [_read_run(run, files) for run in by_age]

    def merge(window: MergeWindow) -> pa.RecordBatch:
        return merge_function.merge(window, layout)

    if len(runs) <= fan_in:
        yield from map(merge, merge_windows(runs, layout))
        return

    def joined(window: MergeWindow) -> pa.RecordBatch:
        return layout.rows_at(window.batch, window.order)

    spilled = SpilledRuns(
        layout=layout,
        piece_bytes=PIECE_BYTES,
        merge=merge if merge_function.merges_in_parts else joined,
        limit=None,
        parent=None,
    )
    try:
        for start in range(0, len(runs), fan_in):
            spilled.add(runs[start : start + fan_in])
        yield from map(merge, merge_windows(spilled.read(), layout))
    finally:
        spilled.close()


def lies_by_age(section: Section) -> bool:
    """Whether each run is older than the next, so that `merged_section` needs no sequence numbers.

    That is false for sections with more runs than `FAN_IN`: runs that are spilled to local disk
    lose this order.
    """
    runs = runs_by_age(section)
    return len(runs) <= FAN_IN and all(
        max(file.max_sequence_number for file in older.files)
        < min(file.min_sequence_number for file in newer.files)
        for older, newer in pairwise(runs)
    )


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of kind +I and +U."""
    retract = is_retract(batch)
    return rows_at(batch, np.flatnonzero(~retract)) if retract.any() else batch


def _read_run(run: SortedRun, files: KeyValueFileReader) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        yield from files.read(file)
