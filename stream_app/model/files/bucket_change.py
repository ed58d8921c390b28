"""Describes the files that buckets gain and lose.

Source: Paimon `table/sink/CommitMessageImpl.java`, `compact/CompactResult.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFiles:
    """The files in which a compaction has looked up older rows of its keys.

    Attributes:
        output_level: the level of the output files, above which the levels were searched.
        names: the names of the files there that may have a key of its level 0.
    """

    output_level: int
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    """The files that one bucket gains and loses, by an append or by a compaction.

    A writer of index files names them in `index_entries`. A compaction of rows that other engines
    delete by vectors cannot, because only the commit knows which vectors belong to its files
    (`table.commit.compacted_index`).

    Tasks pickle the change for the driver. It has only metadata, some hundred bytes a file.

    Attributes:
        partition: the serialized BinaryRow of the partition columns.
        total_buckets: the partition's number of buckets; None: the number in its options.
        removed_files: the removed data files; empty for an append.
        added_files: the added data files. A file that a compaction only moves to another level
            is in both.
        changelog_files: the changelog files.
        index_entries: the added (ADD, new on disk) and deleted (DELETE) index files.
        lookup_files: the files in which a compaction looked up rows, on which it depends; None if
            it depends only on its own files.
        run_s: the run time of a compaction in seconds, without the wait for a thread.
    """

    partition: bytes
    bucket: int
    total_buckets: int | None = None
    removed_files: tuple[DataFileMeta, ...] = ()
    added_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    index_entries: tuple[IndexManifestEntry, ...] = ()
    lookup_files: LookupFiles | None = None
    run_s: float = 0.0

    @property
    def bucket_id(self) -> BucketId:
        """The bucket that changes."""
        return BucketId(self.partition, self.bucket)

    @property
    def written_files(self) -> tuple[DataFileMeta, ...]:
        """The files that are new on disk: changelog files, and unmoved data files."""
        removed_names = {file.file_name for file in self.removed_files}
        return (
            *(file for file in self.added_files if file.file_name not in removed_names),
            *self.changelog_files,
        )

    @property
    def written_index_entries(self) -> tuple[IndexManifestEntry, ...]:
        """The index files that are new on disk."""
        return tuple(entry for entry in self.index_entries if entry.kind is FileKind.ADD)
