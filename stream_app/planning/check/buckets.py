"""The rules that the live files of a version keep among themselves, for `stream-app check`.

Source: Paimon `mergetree/Levels.java`, `operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.manifest_entry import ManifestEntry

KeyOrder = Callable[[bytes], Any]
_COMPACT = "merge the bucket whole, which writes its files anew: stream-app compact --full"
_ROLL_BACK = "roll the table back to a snapshot or tag before this one: stream-app rollback-to"


def level_findings(files: Sequence[DataFileMeta], key_of: KeyOrder, where: str) -> list[Finding]:
    """What is wrong with the levels of one bucket of a table with a primary key.

    A level above 0 is one sorted run: no two of its files may share a key. Readers take the first
    version that they find in a run. A file may lie higher than 'num-levels' says: writers take in
    as many levels as they find.
    """
    findings = []
    levels: dict[int, list[DataFileMeta]] = {}
    for file in files:
        if key_of(file.min_key) > key_of(file.max_key):
            findings.append(
                Finding(
                    kind=FindingKind.KEY_RANGE,
                    what=f"the least key of {file.file_name} is above its greatest one",
                    where=where,
                    fix=_ROLL_BACK,
                )
            )
        if file.level > 0:
            levels.setdefault(file.level, []).append(file)
    for level, members in sorted(levels.items()):
        members.sort(key=lambda file: key_of(file.min_key))
        findings += [
            Finding(
                kind=FindingKind.LEVELS,
                what=f"{left.file_name} and {right.file_name} of level {level} overlap",
                where=where,
                fix=f"{_ROLL_BACK}; or, if every row is known to be right, {_COMPACT}",
            )
            for left, right in pairwise(members)
            if key_of(left.max_key) >= key_of(right.min_key)
        ]
    return findings


def total_findings(totals: Sequence[int], where: str) -> list[Finding]:
    """What is wrong when the files of a partition were written for several numbers of buckets."""
    if len(totals) < 2:
        return []
    return [
        Finding(
            kind=FindingKind.BUCKET,
            what="the partition has files written for "
            + " and for ".join(map(str, totals))
            + " buckets, so keys of the one are looked for in the wrong bucket of the other",
            where=where,
            fix=f"overwrite the partition whole (Paimon's rescale), or {_ROLL_BACK}",
        )
    ]


def placement_findings(entries: Sequence[ManifestEntry], where: str) -> list[Finding]:
    """What is wrong with the number of a bucket and the names of its live files."""
    findings = [
        Finding(
            kind=FindingKind.BUCKET,
            what=f"{entry.file.file_name} is in bucket {entry.bucket} of {entry.total_buckets}",
            where=where,
            fix=_ROLL_BACK,
        )
        for entry in entries
        if entry.total_buckets > 0 and not 0 <= entry.bucket < entry.total_buckets
    ]
    names = Counter(entry.file.file_name for entry in entries)
    findings += [
        Finding(
            kind=FindingKind.LEVELS,
            what=f"{name} is live {count} times, at different levels",
            where=where,
            fix=_ROLL_BACK,
        )
        for name, count in sorted(names.items())
        if count > 1
    ]
    return findings
