"""Checks the rules among the live files of a version, for `stream-app check`.

Source: Paimon `mergetree/Levels.java`, `operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder
from stream_app.model.files.manifest_entry import FileIdentity, FileKind, ManifestEntry
from stream_app.model.finding import Finding, FindingKind

_COMPACT = "compact the bucket whole, which rewrites its files: stream-app compact --full"
_ROLL_BACK = "roll the table back to a snapshot or tag before this one: stream-app rollback-to"


@dataclass(slots=True)
class LiveFiles:
    """The live files of a version, by bucket.

    Attributes:
        row_count: the number of rows of all files.
    """

    row_count: int = 0
    _buckets: dict[BucketId, dict[FileIdentity, ManifestEntry]] = field(
        init=False, default_factory=lambda: defaultdict(dict)
    )
    _totals: dict[bytes, Counter[int]] = field(
        init=False, default_factory=lambda: defaultdict(Counter)
    )

    def apply(self, delta: Iterable[ManifestEntry]) -> list[ManifestEntry]:
        """Apply a snapshot's changes, and return impossible ones, such as a DELETE of no file."""
        impossible_entries = []
        delta = list(delta)
        for entry in delta:
            if entry.kind is FileKind.ADD:
                bucket = self._buckets[entry.bucket_id]
                if entry.identity in bucket:
                    impossible_entries.append(entry)
                    continue
                bucket[entry.identity] = entry
                self._count(entry, 1)
        for entry in delta:
            if entry.kind is FileKind.DELETE:
                deleted_entry = self._buckets[entry.bucket_id].pop(entry.identity, None)
                if deleted_entry is None:
                    impossible_entries.append(entry)
                else:
                    self._count(deleted_entry, -1)
        return impossible_entries

    def bucket(self, bucket_id: BucketId) -> Collection[ManifestEntry]:
        """Return the live files of a bucket."""
        return self._buckets.get(bucket_id, {}).values()

    def total_buckets(self, partition: bytes) -> list[int]:
        """Return the bucket counts in a partition's files, ascending; at most one is correct.

        Files without a bucket are ignored.
        """
        totals = self._totals.get(partition, Counter())
        return sorted(total for total, files in totals.items() if files and total > 0)

    def _count(self, entry: ManifestEntry, sign: int) -> None:
        self.row_count += sign * entry.file.row_count
        self._totals[entry.partition][entry.total_buckets] += sign


def level_findings(
    files: Sequence[DataFileMeta], key_of: KeyOrder, where: str
) -> Iterator[Finding]:
    """Yield problems of the levels of one bucket of a table with a primary key.

    A level above 0 is one sorted run, of which no two files may share a key. Readers use the first
    version of a key in a run. A file's level may exceed 'num-levels', because writers accept as
    many levels as exist.
    """
    levels: dict[int, list[DataFileMeta]] = {}
    for file in files:
        if key_of(file.min_key) > key_of(file.max_key):
            problem = f"the least key of {file.file_name} is above its greatest key"
            yield Finding(kind=FindingKind.KEY_RANGE, problem=problem, where=where, fix=_ROLL_BACK)
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    for level, members in sorted(levels.items()):
        members.sort(key=lambda file: key_of(file.min_key))
        for left, right in pairwise(members):
            if key_of(left.max_key) >= key_of(right.min_key):
                yield Finding(
                    kind=FindingKind.LEVELS,
                    problem=f"{left.file_name} and {right.file_name} of level {level} overlap",
                    where=where,
                    fix=f"{_ROLL_BACK}; or, if every row is known to be right, {_COMPACT}",
                )


def bucket_count_findings(totals: Sequence[int], where: str) -> Iterator[Finding]:
    """Yield a finding if a partition's files were written for several numbers of buckets."""
    if len(totals) > 1:
        yield Finding(
            kind=FindingKind.BUCKET,
            problem="the partition has files written for "
            + " and for ".join(map(str, totals))
            + " buckets, so readers look for a key in the wrong bucket",
            where=where,
            fix=f"overwrite the partition whole (Paimon's rescale), or {_ROLL_BACK}",
        )


def placement_findings(entries: Sequence[ManifestEntry], where: str) -> Iterator[Finding]:
    """Yield problems with a bucket's number and with the names of its live files."""
    for entry in entries:
        bucket, total = entry.bucket, entry.total_buckets
        if total > 0 and not 0 <= bucket < total:
            problem = f"{entry.file.file_name} is in bucket {bucket} of {total}"
            yield Finding(kind=FindingKind.BUCKET, problem=problem, where=where, fix=_ROLL_BACK)
    names = Counter(entry.file.file_name for entry in entries)
    for name, count in sorted(names.items()):
        if count > 1:
            problem = f"{name} is live {count} times, at different levels"
            yield Finding(kind=FindingKind.LEVELS, problem=problem, where=where, fix=_ROLL_BACK)
