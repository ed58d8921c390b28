"""Finds the snapshot that a commit conflicts with, and the remedy.

Called by file_store_commit with what conflict_detection has found.

Source: Paimon `operation/commit/ConflictDetection.java#createConflictException`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stream_app.model.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind
from stream_app.planning.commit.conflict_detection import Conflict, ConflictKind

_TWO_COMPACTORS = (
    "two jobs compact this table: set 'write-only' = 'true' for all of them but one; this job "
    "plans its dropped compactions again"
)
_RESCALED = "restart the job: it takes the table's number of buckets then"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDelta:
    """A snapshot and what it changed about data files."""

    snapshot_id: int
    kind: CommitKind
    commit_user: str
    entries: Sequence[ManifestEntry]


def explanation(conflict: Conflict, history: Iterable[SnapshotDelta]) -> tuple[str, str]:
    """What happened, which user did it, and the remedy.

    Args:
        history: the latest commits, newest first; as much is taken of it as is needed.
    """
    match conflict.kind:
        case ConflictKind.FILE_GONE:
            return _of_a_missing_file(conflict, next(_deleting(conflict.change, history), None))
        case ConflictKind.BUCKET_COUNT:
            # Several snapshots may have brought files of the new number: the first one is the
            # cause.
            cause = min(
                _adding(conflict, history), key=lambda delta: delta.snapshot_id, default=None
            )
            return f"{conflict.what}{_by(cause, 'since')}", _RESCALED
        case ConflictKind.LOOKED_UP:
            return conflict.what, "nothing: the bucket is compacted again as it is now"
        case ConflictKind.KEY_RANGES | ConflictKind.FILE_THERE:
            cause = next(_adding(conflict, history), None)
            return f"{conflict.what}{_by(cause, 'that came with')}", _TWO_COMPACTORS


def _of_a_missing_file(conflict: Conflict, cause: SnapshotDelta | None) -> tuple[str, str]:
    if cause is None or cause.kind is not CommitKind.OVERWRITE:
        return f"{conflict.what}{_by(cause, 'replaced by')}", _TWO_COMPACTORS
    partition = conflict.change.partition
    comes_new = any(
        entry.partition == partition and entry.kind is FileKind.ADD for entry in cause.entries
    )
    if comes_new:
        return (
            f"{conflict.what}{_by(cause, 'its partition was overwritten by')}",
            "nothing: the job compacts the partition again as it is now",
        )
    return (
        f"{conflict.what}{_by(cause, 'its partition was dropped, or has expired, with')}",
        "nothing, unless rows keep arriving for partitions that expire: filter such rows out",
    )


def _deleting(change: ManifestEntry, history: Iterable[SnapshotDelta]) -> Iterator[SnapshotDelta]:
    for delta in history:
        if any(e.kind is FileKind.DELETE and e.identity == change.identity for e in delta.entries):
            yield delta


def _adding(conflict: Conflict, history: Iterable[SnapshotDelta]) -> Iterator[SnapshotDelta]:
    against = conflict.against
    if against is None:
        return
    for delta in history:
        for entry in delta.entries:
            is_meant = entry.identity == against.identity
            if conflict.kind is ConflictKind.BUCKET_COUNT:
                is_meant = (entry.partition, entry.total_buckets) == (
                    against.partition,
                    against.total_buckets,
                )
            if entry.kind is FileKind.ADD and is_meant:
                yield delta
                break


def _by(cause: SnapshotDelta | None, verb: str) -> str:
    if cause is None:
        return ""
    return f": {verb} snapshot {cause.snapshot_id} ({cause.kind.value}) of user {cause.commit_user}"
