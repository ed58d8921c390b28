"""What a compaction did, and the message that commits it.

A COMPACT snapshot's property ``stream_app.compactions`` holds a JSON array of reports, so that an
operator can see later why a bucket was compacted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from stream_app.mergetree.compact.compact_unit import CompactResult, CompactUnit
from stream_app.model.bucket_id import BucketId
from stream_app.model.commit_message import CommitMessage

COMPACTIONS_PROPERTY = "stream_app.compactions"
_REPORTS_MAX = 200
"""Kept in one snapshot, whose file is read often; a job seldom commits more at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """One compaction of one bucket.

    Attributes:
        partition: as its path, empty for a table without partitions.
        reason: the rule that asked for it.
        levels: of the runs that went in, newest first.
        output_level: to which they were merged.
        files_in, bytes_in: that were read; upgraded ones are not among them.
        files_out, bytes_out: that were written.
        upgraded: files that changed their level without being read.
        seconds: the work's duration, without waiting.
    """

    partition: str
    bucket: int
    reason: str
    levels: tuple[int, ...]
    output_level: int
    files_in: int
    bytes_in: int
    files_out: int
    bytes_out: int
    upgraded: int
    seconds: float


def compaction_report(
    partition: str, bucket: int, unit: CompactUnit, result: CompactResult
) -> CompactionReport:
    """The report of a finished compaction."""
    after = {file.file_name for file in result.after}
    read = [file for file in result.before if file.file_name not in after]
    return CompactionReport(
        partition=partition,
        bucket=bucket,
        reason=unit.reason,
        levels=unit.levels,
        output_level=unit.output_level,
        files_in=len(read),
        bytes_in=sum(file.file_size for file in read),
        files_out=len(result.rewritten),
        bytes_out=sum(file.file_size for file in result.rewritten),
        upgraded=len(result.before) - len(read),
        seconds=round(result.seconds, 3),
    )


def reports_as_property(reports: Sequence[CompactionReport]) -> dict[str, str]:
    """The property that keeps them."""
    if not reports:
        return {}
    text = json.dumps([asdict(report) for report in reports[:_REPORTS_MAX]], separators=(",", ":"))
    return {COMPACTIONS_PROPERTY: text}


def reports_of_property(properties: Mapping[str, str] | None) -> list[CompactionReport] | None:
    """The reports that a snapshot keeps; None when it has none, or not in a form that we know."""
    text = (properties or {}).get(COMPACTIONS_PROPERTY)
    if text is None:
        return None
    try:
        return [
            CompactionReport(**{**report, "levels": tuple(report["levels"])})
            for report in json.loads(text)
        ]
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class FinishedCompaction:
    """What was asked for and what came of it.

    `is_overtaken`: another writer changed the bucket meanwhile; `total_buckets`: of the partition;
    see `CompactManager`.
    """

    bucket: BucketId
    unit: CompactUnit
    result: CompactResult
    is_overtaken: bool
    total_buckets: int | None = None

    @property
    def message(self) -> CommitMessage:
        """What the committer is to publish."""
        return CommitMessage(
            partition=self.bucket[0],
            bucket=self.bucket[1],
            total_buckets=self.total_buckets,
            compact_before=self.result.before,
            compact_after=self.result.after,
        )
