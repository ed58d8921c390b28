"""Defines the unit of reading: files of one bucket that one task or thread reads together.

`planning.read.split_generator` and `table.read.split_scan` make splits, and `table.read.split_read`
reads them. A split is small and can be pickled, because it only names files.

Source: Paimon `table/source/DataSplit.java`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexManifestEntry


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Files that are read together.

    Attributes:
        is_raw: whether each file can be read alone. Otherwise a reader must merge versions of keys,
            and the split has all files that may have one.
    """

    files: tuple[DataFileMeta, ...]
    is_raw: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of a bucket at a snapshot.

    Attributes:
        snapshot_id: the id of the snapshot that is read.
        schema_id: the id of the schema at planning.
        partition: the serialized BinaryRow of the partition columns.
        is_raw: whether each file can be read alone; otherwise a reader must merge versions of keys.
        index_entries: the index files with deletion vectors of these files.
    """

    snapshot_id: int
    schema_id: int
    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    is_raw: bool
    index_entries: tuple[IndexManifestEntry, ...] = ()

    def __post_init__(self) -> None:
        assert self.files, "a split without files has nothing to read"

    @property
    def row_count(self) -> int:
        """The rows of all files, including deletes and older versions."""
        return sum(file.row_count for file in self.files)

    @property
    def file_size(self) -> int:
        """The bytes of all files."""
        return sum(file.file_size for file in self.files)


class StreamContent(enum.Enum):
    """The way to read the files of a stream's split.

    ROWS: merged, as rows of a version; all are +I. CHANGES: unmerged, each row with its kind.
    """

    ROWS = "rows"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSplit:
    """A split of a streaming read: `table.follow.stream_scan` makes it, `stream_read` reads it.

    Attributes:
        split: the split. Files of CHANGES are read in its order, in which they were written.
        commit_time_ms: the snapshot's commit time, in ms since 1970 in UTC.
    """

    split: DataSplit
    content: StreamContent
    commit_time_ms: int
