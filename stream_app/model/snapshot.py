"""Defines a snapshot, which is one version of a table.

Source: Paimon `Snapshot.java`. Bytes on disk: `format.snapshot_json`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

SOURCE_END_PROPERTY = "stream_app.source-end"
"""Key of a snapshot's property: where the epoch ends, in the source's own words."""
SOURCE_TIME_PROPERTY = "stream_app.source-time"
"""Key of a snapshot's property: the time of the newest message of its epoch, in ms since 1970."""
SECONDS_PROPERTY = "stream_app.seconds"
"""Key of a snapshot's property: seconds of the parts of its epoch before the commit, as JSON."""
PACE_PROPERTY = "stream_app.pace"
"""Key of a snapshot's property: the length that its job chose for epochs, with the reason."""
REPLAY_PROPERTY = "stream_app.replay"
"""Key of a snapshot's property: records of a quarantine, replayed; the name of their mark."""
KEY_SHARES_PROPERTY = "stream_app.key-shares"
"""Key of a snapshot's property: by how many key shares its rows found their buckets."""
ROW_SUM_PROPERTY = "stream_app.row-sum"
"""Key of a snapshot's property: the checksum of all rows (`planning.commit.sum_record_rules`)."""
PROOF_PROPERTY = "stream_app.proof"
"""Key of a snapshot's property: when the table was equal to its source."""
BATCH_COMMIT_IDENTIFIER = 9_223_372_036_854_775_807
"""The identifier of commits that belong to no stream."""


class CommitKind(enum.Enum):
    """The kind of a snapshot's commit, by which readers of changes select snapshots."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class VersionKind(enum.Enum):
    """The form in which a version is kept, with its folder and the prefix of its file's name."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"
    """A changelog that outlives its snapshot."""


TRUNCATE = "TRUNCATE"
"""The operation of a snapshot that deletes all rows of partitions, or of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table; sizes in bytes, times in milliseconds UTC.

    Record counts are physical rows of files, of all kinds.

    Attributes:
        uuid: the commit's id, by which a catalog recognises the previous snapshot; None from a
            Paimon before 2.0.
        operation: the operation that a user requested, such as ``TRUNCATE``; None for a stream's
            commit.
        writer_version: the writer of the snapshot, such as ``java-2.0.0-…``; None from a Paimon
            before 2.0.
        unknown_fields: unknown keys of its file, which a copy would lose.
    """

    snapshot_id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None
    delta_manifest_list: str
    delta_manifest_list_size: int | None
    changelog_manifest_list: str | None
    changelog_manifest_list_size: int | None
    index_manifest: str | None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    total_record_count: int | None
    delta_record_count: int | None
    changelog_record_count: int | None
    watermark: int | None
    statistics: str | None
    properties: Mapping[str, str] | None
    next_row_id: int | None
    uuid: str | None = None
    writer_version: str | None = None
    operation: str | None = None
    unknown_fields: tuple[str, ...] = ()
