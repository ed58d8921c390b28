"""Merges sections of overlapping files into new files at a level.

Called by compact_task, on an executor. Streams: memory is a batch for each run of a section.

Source: Paimon `mergetree/compact/MergeTreeCompactRewriter.java`, `DropDeleteReader.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.mergetree.compact.compact_unit import CompactResult
from stream_app.mergetree.file_access import KeyValueFileAccess
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import KeyValueLayout, is_retract, take
from stream_app.mergetree.merge_function import MergeFunction
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.model.data_file_meta import FileSource


@dataclass(frozen=True)
class CompactRewriter:
    """Rewrites sections of one bucket."""

    layout: KeyValueLayout
    merge_function: MergeFunction
    files: KeyValueFileAccess

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drop_deletes: bool
    ) -> CompactResult:
        """Merge sections (in key order) into one row of files of `output_level`.

        Raises:
            CorruptFileError: an input file cannot be read; nothing that was written stays.
        """
        writer = self.files.data_writer(level=output_level, source=FileSource.COMPACT)
        try:
            for section in sections:
                for batch in merged_section(section, self.layout, self.merge_function, self.files):
                    kept = without_deletes(batch) if drop_deletes else batch
                    if kept.num_rows:
                        writer.write(kept)
            after = writer.close()
        except BaseException:
            writer.abort()
            raise
        before = tuple(file for section in sections for run in section for file in run.files)
        return CompactResult(before, after)


def merged_section(
    section: Section,
    layout: KeyValueLayout,
    merge_function: MergeFunction,
    files: KeyValueFileAccess,
) -> Iterator[pa.RecordBatch]:
    """The rows of a section, one a key, deletes included, in key order."""
    # With the oldest run first, rows of one key mostly meet in the order of their age already.
    by_age = sorted(section, key=lambda run: max(file.max_sequence_number for file in run.files))
    runs = [_read_run(run, files) for run in by_age]
    for window in merge_windows(runs, layout):
        yield merge_function.merge(window.batch, window.order, layout)


def without_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of kind +I and +U."""
    retract = is_retract(batch)
    return take(batch, np.flatnonzero(~retract)) if retract.any() else batch


def _read_run(run: SortedRun, files: KeyValueFileAccess) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        yield from files.read(file)
