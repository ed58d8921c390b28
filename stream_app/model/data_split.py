"""The unit of reading: files of one bucket that are read together, by one task or thread.

Made by `planning.split_generator` and `table.split_scan`, read by `table.split_read`. Small, and
can be pickled: it names files and holds no rows.

Source: Paimon `table/source/DataSplit.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.index_file_meta import IndexManifestEntry


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Files that are read together.

    Attributes:
        is_raw: each file can be read alone, as it is; else versions of a key must be merged, and
            all files that may hold one are here.
    """

    files: tuple[DataFileMeta, ...]
    is_raw: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of a bucket at a snapshot.

    Attributes:
        snapshot_id: of the version that is read.
        schema_id: of the columns that it was planned with.
        partition: serialized BinaryRow of the partition columns.
        is_raw: see `SplitGroup`.
        index_files: those that hold deletion vectors of these files.
    """

    snapshot_id: int
    schema_id: int
    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    is_raw: bool
    index_files: tuple[IndexManifestEntry, ...] = ()

    def __post_init__(self) -> None:
        assert self.files, "a split without files has nothing to read"

    @property
    def row_count(self) -> int:
        """Rows of all files, deletes and older versions included."""
        return sum(file.row_count for file in self.files)

    @property
    def file_size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size for file in self.files)
