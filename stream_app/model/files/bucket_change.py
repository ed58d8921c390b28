"""The files that buckets gain and lose, and the commit that publishes these changes.

Source: Paimon `table/sink/CommitMessageImpl.java`, `compact/CompactResult.java`,
`manifest/ManifestCommittable.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """The files in which a compaction has looked up older rows of its keys.

    Attributes:
        output_level: the level of the output files; levels above it were searched.
        files: names of the files there that could hold a key of its level 0.
    """

    output_level: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    """The files that one bucket gains and loses, by an append or by a compaction.

    A writer of index files names them in `index`. A compaction of rows that other engines delete by
    vectors cannot: only the commit knows which vectors belong to its files
    (`table.commit.metadata_files`).

    It travels from tasks to the driver by pickle: metadata only, some hundred bytes a file.

    Attributes:
        partition: serialized BinaryRow of the partition columns.
        total_buckets: the number of buckets of the partition; None: as many as the table's options
            say.
        removed: data files; an append removes none.
        added: data files; a file that a compaction only moves to another level is in both.
        changelog: changelog files.
        index: index files that come (ADD, new on disk) and go (DELETE).
        look_up: what a compaction that looks rows up rests on; None: on its own files alone.
        seconds: duration of a compaction's work, without waiting.
    """

    partition: bytes
    bucket: int
    total_buckets: int | None = None
    removed: tuple[DataFileMeta, ...] = ()
    added: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    index: tuple[IndexManifestEntry, ...] = ()
    look_up: LookUp | None = None
    seconds: float = 0.0

    @property
    def bucket_id(self) -> BucketId:
        """The bucket that changes."""
        return self.partition, self.bucket

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """The files that are new on disk: data files that did not merely move, and changelog."""
        old = {file.file_name for file in self.removed}
        return (*(file for file in self.added if file.file_name not in old), *self.changelog)

    @property
    def written_index(self) -> tuple[IndexManifestEntry, ...]:
        """The index files that are new on disk."""
        return tuple(entry for entry in self.index if entry.kind is FileKind.ADD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCommittable:
    """The changes that one snapshot commits.

    Attributes:
        identifier: the epoch; increases with each commit of one user.
        changes: the changes of the buckets; an APPEND may have none.
        properties: kept in the snapshot, e.g. source offsets.
    """

    identifier: int
    changes: tuple[BucketChange, ...] = ()
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
