"""Groups the files that together hold the same rows, by the rows' numbers.

With ``data-evolution.enabled`` a file may have some of the columns of its rows. Rows are numbered
when they are committed, and the files of a group have numbers of one range. A file of BLOBs, or of
vectors in a file of their own, may hold a part of the range.

Source: Paimon `operation/DataEvolutionSplitRead.java`, `utils/DataEvolutionUtils.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.model.files.data_file_meta import DataFileMeta

_BLOBS = ".blob"
_VECTORS = ".vector."
_FIX = "roll the table back to a snapshot or tag before it was written"


def holds_blobs(file: DataFileMeta) -> bool:
    """Return whether a file holds a column of BLOBs."""
    return file.file_name.endswith(_BLOBS)


def holds_whole_range(file: DataFileMeta) -> bool:
    """Return whether a file has all rows of its group; files of BLOBs or vectors may have some."""
    return not holds_blobs(file) and _VECTORS not in file.file_name


def first_row_number(file: DataFileMeta) -> int:
    """Return the number of a file's first row.

    Raises:
        CorruptFileError: the rows have no numbers.
    """
    if file.first_row_id is None:
        raise CorruptFileError(
            f"the rows of data file {file.file_name} have no numbers, which data-evolution.enabled "
            "needs",
            fix=_FIX,
        )
    return file.first_row_id


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Files that hold the same rows.

    Attributes:
        files: the newest first; all that have a column agree about a row, but the newest wins.
    """

    first_row_number: int
    row_count: int
    files: tuple[DataFileMeta, ...]

    @property
    def anchor(self) -> DataFileMeta:
        """The file whose name the deletion vector of the rows bears: the oldest with all rows."""
        whole_files = [file for file in self.files if holds_whole_range(file)]
        return min(
            whole_files or self.files, key=lambda file: (file.max_sequence_number, file.file_name)
        )


def group_joined_files(files: Iterable[DataFileMeta]) -> list[JoinedFiles]:
    """Return the groups of a bucket's files, in the order of their rows.

    Raises:
        CorruptFileError: the rows of a file have no numbers, or files that should have all rows of
            a group have other ones.
    """
    groups: list[list[DataFileMeta]] = []
    end = -1
    for file in sorted(files, key=lambda member: (first_row_number(member), member.row_count)):
        if first_row_number(file) >= end:
            groups.append([])
        groups[-1].append(file)
        end = max(end, first_row_number(file) + file.row_count)
    return [_joined_files(group) for group in groups]


def _joined_files(files: Sequence[DataFileMeta]) -> JoinedFiles:
    start = first_row_number(files[0])
    end = max(first_row_number(file) + file.row_count for file in files)
    for file in files:
        is_whole = (first_row_number(file), file.row_count) == (start, end - start)
        if holds_whole_range(file) and not is_whole:
            raise CorruptFileError(
                f"data file {file.file_name} has {file.row_count} rows from number "
                f"{file.first_row_id} on, beside files with {end - start} rows from "
                f"{start} on",
                fix=_FIX,
            )
    newest_first = sorted(files, key=lambda file: -file.max_sequence_number)
    return JoinedFiles(start, end - start, tuple(newest_first))


def row_total(files: Iterable[DataFileMeta], *, joins_files: bool) -> int:
    """Return the number of rows that files hold; rows of joined files count once.

    Args:
        joins_files: whether the columns of a row may be in several files.
    """
    if joins_files:
        return sum(group.row_count for group in group_joined_files(files))
    return sum(file.row_count for file in files)
