"""Files of one bucket → sections of overlapping key ranges → few sorted runs in each.

Used by compaction (only what overlaps is rewritten) and by the scan (a section is the smallest
unit that can be merged alone). Sees metadata only.

Source: seed documents 000 §5.6 and 003, Paimon `mergetree/compact/IntervalPartition.java`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from stream_app.mergetree.sorted_run import KeyOrder, SortedRun
from stream_app.model.data_file_meta import DataFileMeta

Section = tuple[SortedRun, ...]
"""Sorted runs whose key ranges overlap each other and nothing outside."""


def partition_into_sections(files: Iterable[DataFileMeta], key_of: KeyOrder) -> tuple[Section, ...]:
    """Cut files into sections in key order, and each section into a minimum of sorted runs."""
    ordered = sorted(files, key=lambda file: (key_of(file.min_key), key_of(file.max_key)))
    sections: list[Section] = []
    members: list[DataFileMeta] = []
    bound: Any = None
    for file in ordered:
        if members and key_of(file.min_key) > bound:
            sections.append(_fewest_runs(members, key_of))
            members, bound = [], None
        members.append(file)
        largest = key_of(file.max_key)
        bound = largest if bound is None or largest > bound else bound
    if members:
        sections.append(_fewest_runs(members, key_of))
    return tuple(sections)


def _fewest_runs(files: list[DataFileMeta], key_of: KeyOrder) -> Section:
    # Greedy interval partitioning: a file (they come by min key) goes behind the run that ends
    # first, if it fits there; if it does not, it fits nowhere and opens a run.
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []
    for file in files:
        if ends and key_of(file.min_key) > ends[0][0]:
            index = heapq.heappop(ends)[1]
            runs[index].append(file)
        else:
            index = len(runs)
            runs.append([file])
        heapq.heappush(ends, (key_of(file.max_key), index))
    return tuple(SortedRun(tuple(run)) for run in runs)
