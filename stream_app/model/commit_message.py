"""What a bucket's writer and its compaction hand to the committer.

Source: Paimon `table/sink/CommitMessageImpl.java`, `manifest/ManifestCommittable.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The files that one bucket gained and lost.

    Attributes:
        partition: serialized BinaryRow of the partition columns.
        total_buckets: of the partition; None: as many as the table's options say.
        new_files, changelog_files: from flushes; they go into the APPEND snapshot.
        compact_before, compact_after: from a compaction; they go into the COMPACT snapshot.
    """

    partition: bytes
    bucket: int
    total_buckets: int | None = None
    new_files: tuple[DataFileMeta, ...] = ()
    changelog_files: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCommittable:
    """All that one epoch commits.

    Attributes:
        identifier: the epoch; increases with each commit of one user.
        appends: becomes one APPEND snapshot, also when it is empty; None: no APPEND at all.
        compactions: become one COMPACT snapshot when there are any.
        properties: kept in the snapshots, e.g. source offsets.
    """

    identifier: int
    appends: tuple[CommitMessage, ...] | None
    compactions: tuple[CommitMessage, ...] = ()
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
