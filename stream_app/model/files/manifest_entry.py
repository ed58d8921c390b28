"""Describes a manifest's entries, which add or delete a file, and a manifest in its list.

Source: Paimon `manifest/ManifestEntry.java`, `manifest/ManifestFileMeta.java`,
`manifest/FileEntry.java` (identity).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta, SimpleStats


class FileKind(enum.IntEnum):
    """The effect of an entry on its file."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The fields that identify a file at a level across entries."""

    partition: bytes
    bucket: int
    level: int
    file_name: str
    extra_files: tuple[str, ...]
    embedded_index: bytes | None
    external_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One change of a bucket's files.

    Attributes:
        partition: serialized BinaryRow of the partition columns.
        total_buckets: the partition's number of buckets when the entry was written.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def bucket_id(self) -> BucketId:
        """The bucket of the file."""
        return BucketId(self.partition, self.bucket)

    @property
    def identity(self) -> FileIdentity:
        """The key by which a DELETE is matched with its ADD."""
        file = self.file
        return FileIdentity(
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )

    def as_delete(self) -> ManifestEntry:
        """Return the entry that deletes this file."""
        return replace(self, kind=FileKind.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """A manifest file as a manifest list describes it; sizes in bytes, None if unknown."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    unknown_fields: tuple[str, ...] = ()


def files_of_buckets(entries: Iterable[ManifestEntry]) -> dict[BucketId, list[DataFileMeta]]:
    """Return the files of each bucket, in the order in which buckets appear."""
    files: dict[BucketId, list[DataFileMeta]] = {}
    for entry in entries:
        files.setdefault(entry.bucket_id, []).append(entry.file)
    return files
