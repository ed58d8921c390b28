"""Merges the overlapping files of a section into one row for each key.

`compact_rewriter` and readers call it, so they merge by the same code. A merge streams, with one
batch in memory for each run of the section.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import Section, runs_by_age
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_mask, rows_at
from stream_app.mergetree.merge_engines.merge_function import LookupMerge, MergeFunction
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import level_windows, merge_windows
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.mergetree.spilled_runs import SpilledRuns

FAN_IN = 32
"""Default number of a section's runs that are read at a time."""
PIECE_SIZE = 4 << 20
"""Arrow memory of one piece when a spilled run is read back."""


def merged_section(
    section: Section,
    layout: KeyValueLayout,
    merge_function: MergeFunction,
    file_reader: KeyValueFileReader,
    *,
    fan_in: int = FAN_IN,
) -> Iterator[pa.RecordBatch]:
    """Merge a section's files into one row for each key, in key order, and keep deletes.

    Args:
        fan_in: the maximum number of runs to read at a time. More runs are first merged in groups
            of this size on local disk.
    """
    # With the oldest run first, rows of one key mostly arrive in the order of their age.
    aged_runs = runs_by_age(section)
    if isinstance(merge_function, LookupMerge):
        for window in level_windows(aged_runs, file_reader, layout):
            yield merge_function.merge_levels(window, layout)
        return
    runs = [_read_run(run, file_reader) for run in aged_runs]

    def merge(window: MergeWindow) -> pa.RecordBatch:
        return merge_function.merge(window, layout)

    if len(runs) <= fan_in:
        yield from map(merge, merge_windows(runs, layout))
        return

    def sorted_rows(window: MergeWindow) -> pa.RecordBatch:
        return layout.rows_at(window.batch, window.order)

    spilled_runs = SpilledRuns(
        layout=layout,
        piece_size=PIECE_SIZE,
        merge=merge if merge_function.merges_in_parts else sorted_rows,
        bytes_max=None,
        parent=None,
    )
    try:
        for start in range(0, len(runs), fan_in):
            spilled_runs.add(runs[start : start + fan_in])
        yield from map(merge, merge_windows(spilled_runs.read(), layout))
    finally:
        spilled_runs.close()


def is_ordered_by_age(section: Section) -> bool:
    """Return whether each run is older than the next, so sequence numbers do not matter.

    For more runs than `FAN_IN` the result is False, because runs that are spilled to local disk
    lose this order.
    """
    runs = runs_by_age(section)
    return len(runs) <= FAN_IN and all(
        max(file.max_sequence_number for file in older_run.files)
        < min(file.min_sequence_number for file in newer_run.files)
        for older_run, newer_run in pairwise(runs)
    )


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of kind +I and +U."""
    is_retract = retract_mask(batch)
    return rows_at(batch, np.flatnonzero(~is_retract)) if is_retract.any() else batch


def _read_run(run: SortedRun, file_reader: KeyValueFileReader) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        yield from file_reader.read(file)
