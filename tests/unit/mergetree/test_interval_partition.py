"""Sections never overlap, their runs never do either, and there are as few runs as can be."""

from __future__ import annotations

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
    partitioned = [
        [[ends_of[f.file_name] for f in run.files] for run in section] for section in sections
    ]
    flat = [[ends for run in section for ends in run] for section in partitioned]
    assert sorted(ends for section in flat for ends in section) == sorted(intervals)
    for left, right in pairwise(flat):
        assert max(end for _, end in left) < min(start for start, _ in right)
    for section in flat:
        keys = {start for start, _ in section}
        for key in keys - {min(keys)}:
            assert any(start < key <= end for start, end in section), "a gap would part it"
    for runs, members in zip(partitioned, flat, strict=True):
        for run in runs:
            assert all(left[1] < right[0] for left, right in pairwise(run))
        # No fewer runs will do: so many files hold one and the same key.
        deepest = max(sum(s <= key <= e for s, e in members) for key, _ in members)
        assert len(runs) == deepest
