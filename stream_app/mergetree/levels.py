"""Keeps one bucket's files by level: level 0 by age, and one sorted run for each level above.

`compact_manager` owns the levels on the driver. They use only metadata: no rows, no files, no
clock.

Source: Paimon `mergetree/Levels.java`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sortedcontainers import SortedList

from stream_app.mergetree.sorted_run import (
    LevelSortedRun,
    RunOfFiles,
    SortedRun,
    packed_run,
    sorted_run,
)
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


def newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Return the sort key of level 0: the file with the largest sequence number comes first."""
    creation_time_ms = file.creation_time_ms or 0
    return (-file.max_sequence_number, file.min_sequence_number, creation_time_ms, file.file_name)


def files_of_runs(files: Iterable[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """Return each sorted run's files, a file of level 0 or a level above, the newest run first."""
    files_by_level: dict[int, list[DataFileMeta]] = {}
    for file in files:
        files_by_level.setdefault(file.level, []).append(file)
    level0 = sorted(files_by_level.pop(0, []), key=newest_first)
    return [
        *((file,) for file in level0),
        *(tuple(files_by_level[level]) for level in sorted(files_by_level)),
    ]


class Levels:
    """The LSM tree of one bucket as metadata.

    Level 0 may overlap, so each of its files is a sorted run. Each higher level is one sorted run,
    which is packed, because the driver has the levels of all buckets to which a job writes.
    `num_levels` grows if restored files are on higher levels than the options define.
    """

    def __init__(self, files: Iterable[DataFileMeta], *, num_levels: int, key_of: KeyOrder) -> None:
        files = tuple(files)
        restored_max = max((file.level for file in files), default=-1)
        self.key_of = key_of
        self._level0: SortedList[DataFileMeta] = SortedList(key=newest_first)
        self._upper: list[RunOfFiles | None] = [None] * (max(num_levels, restored_max + 1) - 1)
        self.update((), files)

    @property
    def num_levels(self) -> int:
        """The number of levels, including level 0."""
        return len(self._upper) + 1

    @property
    def max_level(self) -> int:
        """The highest level that a file may have."""
        return len(self._upper)

    @property
    def level0_file_count(self) -> int:
        """The number of level-0 files."""
        return len(self._level0)

    @property
    def sorted_run_count(self) -> int:
        """The number of level-0 files and non-empty higher levels, which triggers use."""
        return len(self._level0) + sum(run is not None for run in self._upper)

    def non_empty_highest_level(self) -> int:
        """Return the highest level with a file; -1 for an empty bucket."""
        for level in range(self.max_level, 0, -1):
            if self._upper[level - 1] is not None:
                return level
        return 0 if self._level0 else -1

    def level_sorted_runs(self) -> tuple[LevelSortedRun, ...]:
        """Return all runs, newest first: level 0 by age, then the levels upwards."""
        level0 = (LevelSortedRun(0, SortedRun((file,))) for file in self._level0)
        upper_runs = (LevelSortedRun(i + 1, run) for i, run in enumerate(self._upper) if run)
        return (*level0, *upper_runs)

    def all_files(self) -> tuple[DataFileMeta, ...]:
        """Return all live files of the bucket."""
        return (*self._level0, *(file for run in self._upper if run for file in run.files))

    def add_level0_file(self, file: DataFileMeta) -> None:
        """Add a flushed file, unless the level already has it."""
        assert file.level == 0, file
        if file not in self._level0:
            self._level0.add(file)

    def update(
        self, removed_files: Iterable[DataFileMeta], added_files: Iterable[DataFileMeta]
    ) -> None:
        """Apply a finished compaction: the `added_files` files replace the `removed_files` ones.

        Raises:
            CorruptFileError: the files of a level would overlap; nothing has changed then.
        """
        removed_names = {(file.level, file.file_name) for file in removed_files}
        added_files = tuple(added_files)
        upper_runs = list(self._upper)
        levels = {level for level, _ in removed_names} | {file.level for file in added_files}
        for level in levels - {0}:
            old_run = upper_runs[level - 1]
            old_files = () if old_run is None else old_run.files
            files = [file for file in old_files if (level, file.file_name) not in removed_names]
            files += [file for file in added_files if file.level == level]
            upper_runs[level - 1] = packed_run(sorted_run(files, self.key_of)) if files else None
        self._upper = upper_runs
        for file in [file for file in self._level0 if (0, file.file_name) in removed_names]:
            self._level0.remove(file)
        for file in added_files:
            if file.level == 0:
                self.add_level0_file(file)
