"""Divides a bucket's files into sections of overlapping key ranges, and these into sorted runs.

Compactions use it to rewrite only overlapping files. Scans use it because a section is the smallest
unit that can be merged alone. It reads only metadata.

Source: Paimon `mergetree/compact/IntervalPartition.java`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from stream_app.mergetree.levels import files_of_runs, newest_first
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder

Section = tuple[SortedRun, ...]
"""Sorted runs whose key ranges overlap each other and nothing outside."""


_KeyedFile = tuple[Any, Any, DataFileMeta]
"""A file with its decoded least and greatest key."""


def partition_into_sections(files: Iterable[DataFileMeta], key_of: KeyOrder) -> tuple[Section, ...]:
    """Divide files into sections in key order, and each section into a minimum of sorted runs.

    Four files with their minimum and maximum keys::

        files       a [1, 4]   b [2, 3]   c [5, 9]   d [4, 5]
        sorted      a [1, 4]   b [2, 3]   d [4, 5]   c [5, 9]
        sections    one: d begins at a's end, and c at d's
        runs        a, c  and  b, d
    """
    keyed_files = [(key_of(file.min_key), key_of(file.max_key), file) for file in files]
    keyed_files.sort(key=lambda item: item[:2])
    sections: list[Section] = []
    section_files: list[_KeyedFile] = []
    section_end: Any = None
    for keyed_file in keyed_files:
        min_key, max_key, _ = keyed_file
        if section_files and min_key > section_end:
            sections.append(_fewest_runs(section_files))
            section_files = []
        section_end = max(section_end, max_key) if section_files else max_key
        section_files.append(keyed_file)
    if section_files:
        sections.append(_fewest_runs(section_files))
    return tuple(sections)


def _fewest_runs(files: list[_KeyedFile]) -> Section:
    # Greedy interval partitioning: in order of min key, each file follows the run that ends first,
    # if it fits there. Otherwise it fits nowhere, and opens a run.
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []
    for min_key, max_key, file in files:
        if ends and min_key > ends[0][0]:
            index = heapq.heappop(ends)[1]
            runs[index].append(file)
        else:
            index = len(runs)
            runs.append([file])
        heapq.heappush(ends, (max_key, index))
    return tuple(SortedRun(tuple(run)) for run in runs)


def runs_by_age(section: Section) -> Section:
    """Return a section's runs, the oldest first: of rows with equal sequence numbers the last wins.

    Only concurrent writers assign a number twice. Then the row of the lower level is newer, and on
    level 0 that of the newer file. A compaction keeps this order. So runs with files of several
    levels are split::

        one writer     a | b                     by their greatest sequence numbers
        two writers    c L0, d L5 | e L4         d | e | c
    """
    files = [file for run in section for file in run.files]
    sequence_ranges = sorted(
        (
            min(file.min_sequence_number for file in run_files),
            max(file.max_sequence_number for file in run_files),
        )
        for run_files in files_of_runs(files)
    )
    if all(older_max < newer_min for (_, older_max), (newer_min, _) in pairwise(sequence_ranges)):
        return tuple(
            sorted(section, key=lambda run: max(file.max_sequence_number for file in run.files))
        )
    level0_runs = [SortedRun((file,)) for file in files if file.level == 0]
    level0_runs.sort(key=lambda run: newest_first(run.files[0]), reverse=True)
    upper_runs = [
        SortedRun(tuple(file for file in run.files if file.level == level))
        for level in sorted({file.level for file in files} - {0}, reverse=True)
        for run in section
    ]
    return (*(run for run in upper_runs if run.files), *level0_runs)
