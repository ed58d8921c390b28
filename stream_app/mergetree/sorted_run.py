"""Defines a sorted run: files in key order whose key ranges do not overlap.

`levels`, `interval_partition` and the pickers of compactions use it. A run has only metadata.

Source: Paimon `mergetree/SortedRun.java`, `mergetree/LevelSortedRun.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from stream_app.errors import CorruptFileError
from stream_app.mergetree.packed_metadata import pack_metadata, unpack_metadata
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


class RunOfFiles(Protocol):
    """Files in key order, with at most one row of each key."""

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files, which are unpacked if necessary."""
        ...

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        ...

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        ...

    @property
    def newest_time_ms(self) -> int | None:
        """The creation time of the newest file; None if no file has one."""
        ...


@dataclass(frozen=True, slots=True)
class SortedRun:
    """A sorted run with its files as objects. Implements `RunOfFiles`."""

    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of all files."""
        return sum(file.row_count for file in self.files)

    @property
    def newest_time_ms(self) -> int | None:
        """The newest creation time of the run's files; None if no file has one."""
        times_ms = (file.creation_time_ms for file in self.files)
        return max((time_ms for time_ms in times_ms if time_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A sorted run in a tenth of the memory, because picks mostly need only sizes.

    Implements `RunOfFiles`.
    """

    total_size: int
    row_count: int
    newest_time_ms: int | None
    packed_files: bytes = field(repr=False)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files, unpacked at each access."""
        return unpack_metadata(self.packed_files)


def packed_run(run: SortedRun) -> PackedRun:
    """Return the run in packed form."""
    return PackedRun(run.total_size, run.row_count, run.newest_time_ms, pack_metadata(run.files))


@dataclass(frozen=True, slots=True)
class LevelSortedRun:
    """A sorted run and its level. Implements `RunOfFiles`."""

    level: int
    run: RunOfFiles

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The run's files, which are unpacked if necessary."""
        return self.run.files

    @property
    def total_size(self) -> int:
        """Bytes of the run."""
        return self.run.total_size

    @property
    def row_count(self) -> int:
        """Rows of the run."""
        return self.run.row_count

    @property
    def newest_time_ms(self) -> int | None:
        """The newest creation time of the run's files; None if no file has one."""
        return self.run.newest_time_ms


def sorted_run(files: Iterable[DataFileMeta], key_of: KeyOrder) -> SortedRun:
    """Put files into key order.

    Raises:
        CorruptFileError: two files overlap. A read of such a run would return a key twice, and a
            compaction would lose the newer version.
    """
    keyed_files = [(key_of(file.min_key), key_of(file.max_key), file) for file in files]
    keyed_files.sort(key=lambda item: item[:2])
    for (_, file_max, file), (next_min, _, next_file) in pairwise(keyed_files):
        if file_max >= next_min:
            raise CorruptFileError(
                f"files {file.file_name} and {next_file.file_name} of level {file.level} overlap",
                fix="another writer broke this bucket: roll the table back to an earlier snapshot",
            )
    return SortedRun(tuple(file for _, _, file in keyed_files))
