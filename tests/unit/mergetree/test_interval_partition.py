"""Sections and their runs never overlap, and the number of runs is minimal."""

from __future__ import annotations

import itertools
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stream_app.mergetree.interval_partition import partition_into_sections
from tests.support.tables.lsm_files import a_file, int_key_of

KEY = st.integers(0, 40)
INTERVALS = st.lists(st.tuples(KEY, KEY).map(sorted), max_size=30)


@given(INTERVALS)
def test_sections_are_apart_and_have_the_fewest_runs(intervals: list[list[int]]) -> None:
    files = [a_file(f"f{number}", keys=ends) for number, ends in enumerate(intervals)]
    ends_of = {file.file_name: ends for file, ends in zip(files, intervals, strict=True)}
    sections = partition_into_sections(files, int_key_of)
    runs_of_sections = [
        [[ends_of[file.file_name] for file in run.files] for run in section] for section in sections
    ]
    ends_of_sections = [[ends for run in section for ends in run] for section in runs_of_sections]
    assert sorted(itertools.chain(*ends_of_sections)) == sorted(intervals)
    for left, right in pairwise(ends_of_sections):
        assert max(end for _, end in left) < min(start for start, _ in right)
    for runs, section in zip(runs_of_sections, ends_of_sections, strict=True):
        starts = {start for start, _ in section}
        for key in starts - {min(starts)}:
            assert any(start < key <= end for start, end in section), "a gap would part it"
        for run in runs:
            assert all(left[1] < right[0] for left, right in pairwise(run))
        # Files with a common key must be in different runs.
        files_of_key = [sum(start <= key <= end for start, end in section) for key in starts]
        assert len(runs) == max(files_of_key)
