"""Decides whether changes conflict with a table that other writers have changed meanwhile.

`table.commit.commit_conflict_check` calls it. If changes conflict, it names the snapshot that
caused the conflict.

Source: Paimon `operation/commit/ConflictDetection.java`,
`operation/commit/PrimaryKeyConflictDetection.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stream_app.model.bucket_id import NOT_FIXED, BucketId
from stream_app.model.files.bucket_change import LookupFiles
from stream_app.model.files.data_file_meta import KeyOrder
from stream_app.model.files.manifest_entry import FileIdentity, FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind

_UNCOUNTED_BUCKETS = (NOT_FIXED, 0)
"""Values of `total_buckets` that count no buckets, so that they fit every number."""
_TWO_COMPACTORS = (
    "two jobs compact this table: set 'write-only' = 'true' for all of them but one; this job "
    "plans its dropped compactions again"
)
_RESCALED_REMEDY = "write the rows again: a running job does so by itself"


class ConflictKind(enum.Enum):
    """The rule that a change violates."""

    BUCKET_COUNT = "a partition keeps its number of buckets"
    FILE_GONE = "a file that is replaced must be there"
    FILE_THERE = "a file is added once"
    LOOKED_UP = "the files in which older rows are looked up stay what they were"
    KEY_RANGES = "files of a level above 0 do not overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One conflict of a commit.

    Attributes:
        problem: one sentence with the wrong values.
        entry: the conflicting entry of the commit.
        live_entry: the entry with which `entry` conflicts; None if an expected entry is missing.
    """

    kind: ConflictKind
    problem: str
    entry: ManifestEntry
    live_entry: ManifestEntry | None = None


def find_conflicts(
    live_entries: Iterable[ManifestEntry],
    changes: Sequence[ManifestEntry],
    key_of: KeyOrder,
    bucket_lookups: Iterable[tuple[BucketId, LookupFiles]] = (),
) -> list[Conflict]:
    """Return all conflicts of committing `changes` on top of `live_entries`.

    Args:
        live_entries: the live files of at least the changed partitions.
        changes: the entries to commit.
        key_of: makes serialized keys comparable.
        bucket_lookups: the files in which compactions looked up older rows, by bucket.
    """
    live_by_identity = {entry.identity: entry for entry in live_entries}
    conflicts = _bucket_count_conflicts(live_by_identity.values(), changes)
    for bucket_id, lookup_files in bucket_lookups:
        conflicts += _lookup_conflicts(
            live_by_identity.values(), changes, key_of, bucket_id, lookup_files
        )
    file_conflicts, entries_after = _file_conflicts(live_by_identity, changes)
    conflicts += file_conflicts
    return conflicts + _key_range_conflicts(entries_after.values(), changes, key_of)


def _bucket_count_conflicts(
    live_entries: Iterable[ManifestEntry], changes: Sequence[ManifestEntry]
) -> list[Conflict]:
    """Return a conflict for each added file whose partition has another number of buckets."""
    entry_of_partition = {
        entry.partition: entry for entry in live_entries if entry.total_buckets > 0
    }
    conflicts = []
    for change in changes:
        if change.kind is FileKind.DELETE:
            continue
        live_entry = entry_of_partition.setdefault(change.partition, change)
        if live_entry.total_buckets not in (change.total_buckets, *_UNCOUNTED_BUCKETS):
            problem = (
                f"the partition has {live_entry.total_buckets} buckets, not {change.total_buckets}"
            )
            conflicts.append(
                Conflict(
                    kind=ConflictKind.BUCKET_COUNT,
                    problem=problem,
                    entry=change,
                    live_entry=live_entry,
                )
            )
    return conflicts


def _file_conflicts(
    live_by_identity: Mapping[FileIdentity, ManifestEntry], changes: Sequence[ManifestEntry]
) -> tuple[list[Conflict], Mapping[FileIdentity, ManifestEntry]]:
    """Return conflicts of files that are gone or there, and the live entries after the changes."""
    conflicts = []
    entries_after = dict(live_by_identity)
    deleted_identities = set()
    for change in changes:
        identity, name = change.identity, f"file {change.file.file_name}"
        if change.kind is FileKind.DELETE:
            deleted_identities.add(identity)
            if entries_after.pop(identity, None) is None:
                problem = f"{name} of level {change.file.level} is gone"
                conflicts.append(
                    Conflict(kind=ConflictKind.FILE_GONE, problem=problem, entry=change)
                )
            continue
        if identity in entries_after or identity in deleted_identities:
            # Readers treat a DELETE as permanent: the file would be invisible at this level.
            problem = f"{name} is or was at level {change.file.level} already"
            conflicts.append(
                Conflict(
                    kind=ConflictKind.FILE_THERE,
                    problem=problem,
                    entry=change,
                    live_entry=entries_after.get(identity),
                )
            )
        entries_after[identity] = change
    return conflicts, entries_after


def _lookup_conflicts(
    live_entries: Iterable[ManifestEntry],
    changes: Sequence[ManifestEntry],
    key_of: KeyOrder,
    bucket_id: BucketId,
    lookup_files: LookupFiles,
) -> list[Conflict]:
    """Return conflicts of lookups: a file above was added or is missing, which changes rows."""
    lifted_entries = [
        change
        for change in changes
        if change.kind is FileKind.DELETE
        and change.file.level == 0
        and change.bucket_id == bucket_id
    ]
    key_ranges = [
        (key_of(change.file.min_key), key_of(change.file.max_key)) for change in lifted_entries
    ]
    files_above = {
        entry.file.file_name: entry
        for entry in live_entries
        if entry.bucket_id == bucket_id
        and entry.file.level > lookup_files.output_level
        and any(
            key_of(entry.file.min_key) <= max_key and min_key <= key_of(entry.file.max_key)
            for min_key, max_key in key_ranges
        )
    }
    if not lifted_entries or files_above.keys() == lookup_files.names:
        return []
    name = min(files_above.keys() ^ lookup_files.names)
    event = "has come" if name in files_above else "is gone"
    return [
        Conflict(
            kind=ConflictKind.LOOKED_UP,
            problem=f"file {name}, which may hold older rows of its keys, {event} meanwhile",
            entry=lifted_entries[0],
            live_entry=files_above.get(name),
        )
    ]


def _key_range_conflicts(
    entries: Iterable[ManifestEntry], changes: Sequence[ManifestEntry], key_of: KeyOrder
) -> list[Conflict]:
    """Return a conflict for each two files of a level above 0 that overlap, if one is added."""
    added_entries = [change for change in changes if change.kind is FileKind.ADD]
    added_identities = {change.identity for change in added_entries}
    changed_levels = {(entry.partition, entry.bucket, entry.file.level) for entry in added_entries}
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in entries:
        where = (entry.partition, entry.bucket, entry.file.level)
        if entry.file.level > 0 and where in changed_levels:
            levels.setdefault(where, []).append(entry)
    conflicts = []
    for (_, bucket, level), members in levels.items():
        ordered_entries = sorted(members, key=lambda entry: key_of(entry.file.min_key))
        for left, right in pairwise(ordered_entries):
            if key_of(left.file.max_key) < key_of(right.file.min_key):
                continue
            change, live_entry = (
                (left, right) if left.identity in added_identities else (right, left)
            )
            conflicts.append(
                Conflict(
                    kind=ConflictKind.KEY_RANGES,
                    problem=f"{left.file.file_name} and {right.file.file_name} overlap in bucket "
                    f"{bucket}, level {level}",
                    entry=change,
                    live_entry=live_entry,
                )
            )
    return conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDelta:
    """A snapshot and its changes of data files."""

    snapshot_id: int
    commit_kind: CommitKind
    commit_user: str
    entries: Sequence[ManifestEntry]


def cause_and_fix(conflict: Conflict, deltas: Iterable[SnapshotDelta]) -> tuple[str, str]:
    """Return a text on a conflict and the commit that caused it, and the remedy.

    Args:
        deltas: the latest commits, newest first, of which only the needed ones are consumed.
    """
    match conflict.kind:
        case ConflictKind.FILE_GONE:
            return _missing_file_text(
                conflict, next(_deltas_that_delete(conflict.entry, deltas), None)
            )
        case ConflictKind.BUCKET_COUNT:
            # Several snapshots may have files of the new number; the first of them is the cause.
            cause = min(
                _deltas_that_add(conflict, deltas),
                key=lambda delta: delta.snapshot_id,
                default=None,
            )
            return f"{conflict.problem}{_cause_text(cause, 'since')}", _RESCALED_REMEDY
        case ConflictKind.LOOKED_UP:
            return conflict.problem, "nothing: the bucket is compacted again as it is now"
        case ConflictKind.KEY_RANGES | ConflictKind.FILE_THERE:
            cause = next(_deltas_that_add(conflict, deltas), None)
            return f"{conflict.problem}{_cause_text(cause, 'that came with')}", _TWO_COMPACTORS


def _missing_file_text(conflict: Conflict, cause: SnapshotDelta | None) -> tuple[str, str]:
    """Describe the conflict of a file that the snapshot `cause` has deleted."""
    if cause is None or cause.commit_kind is not CommitKind.OVERWRITE:
        return f"{conflict.problem}{_cause_text(cause, 'replaced by')}", _TWO_COMPACTORS
    partition = conflict.entry.partition
    has_new_files = any(
        entry.partition == partition and entry.kind is FileKind.ADD for entry in cause.entries
    )
    if has_new_files:
        return (
            f"{conflict.problem}{_cause_text(cause, 'its partition was overwritten by')}",
            "nothing: the job compacts the partition again as it is now",
        )
    return (
        f"{conflict.problem}"
        f"{_cause_text(cause, 'its partition was dropped, or has expired, with')}",
        "nothing, unless rows keep arriving for partitions that expire: filter such rows out",
    )


def _deltas_that_delete(
    change: ManifestEntry, deltas: Iterable[SnapshotDelta]
) -> Iterator[SnapshotDelta]:
    for delta in deltas:
        if any(
            entry.kind is FileKind.DELETE and entry.identity == change.identity
            for entry in delta.entries
        ):
            yield delta


def _deltas_that_add(
    conflict: Conflict, deltas: Iterable[SnapshotDelta]
) -> Iterator[SnapshotDelta]:
    live_entry = conflict.live_entry
    if live_entry is None:
        return
    for delta in deltas:
        for entry in delta.entries:
            is_match = entry.identity == live_entry.identity
            if conflict.kind is ConflictKind.BUCKET_COUNT:
                is_match = (entry.partition, entry.total_buckets) == (
                    live_entry.partition,
                    live_entry.total_buckets,
                )
            if entry.kind is FileKind.ADD and is_match:
                yield delta
                break


def _cause_text(cause: SnapshotDelta | None, verb: str) -> str:
    if cause is None:
        return ""
    snapshot_text = f"{cause.snapshot_id} ({cause.commit_kind.value})"
    return f": {verb} snapshot {snapshot_text} of user {cause.commit_user}"
