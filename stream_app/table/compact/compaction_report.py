"""Reports compactions in snapshot properties.

A COMPACT snapshot's property ``stream_app.compactions`` holds a JSON array of reports. It tells an
operator later why a bucket was compacted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactUnit

COMPACTIONS_PROPERTY = "stream_app.compactions"
_REPORTS_MAX = 200
"""Reports in one snapshot, whose file is read often; a job seldom commits more at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """One compaction of one bucket.

    Attributes:
        partition: the partition's path; empty for a table without partitions.
        reason: the rule that requested the compaction.
        levels: the levels of the input runs, newest first.
        output_level: the level of the output run.
        files_in, bytes_in: the files and bytes that were read, without upgraded files.
        files_out, bytes_out: the files and bytes that were written.
        upgraded: files that changed their level without being read.
        seconds: the run time, without the wait for a thread.
        policy: the bucket's rules and the reason, if the job has chosen them.
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
    policy: str | None = None


def compaction_report(
    partition: str, unit: CompactUnit, change: BucketChange, policy: str | None = None
) -> CompactionReport:
    """Return the report of a finished compaction."""
    added_names = {file.file_name for file in change.added_files}
    read_files = [file for file in change.removed_files if file.file_name not in added_names]
    return CompactionReport(
        partition=partition,
        bucket=change.bucket,
        reason=unit.reason,
        levels=unit.levels,
        output_level=unit.output_level,
        files_in=len(read_files),
        bytes_in=sum(file.file_size for file in read_files),
        files_out=len(change.written_files),
        bytes_out=sum(file.file_size for file in change.written_files),
        upgraded=len(change.removed_files) - len(read_files),
        seconds=round(change.run_s, 3),
        policy=policy,
    )


def reports_as_property(reports: Sequence[CompactionReport]) -> dict[str, str]:
    """Return the snapshot property that holds the reports."""
    if not reports:
        return {}
    documents = [asdict(report) for report in reports[:_REPORTS_MAX]]
    for document in documents:
        if document["policy"] is None:
            del document["policy"]
    text = json.dumps(documents, separators=(",", ":"))
    return {COMPACTIONS_PROPERTY: text}


def reports_of_property(properties: Mapping[str, str] | None) -> list[CompactionReport] | None:
    """Parse a snapshot's reports; None if it has none or their form is unknown."""
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
    """A finished compaction: the request and its result.

    `is_overtaken` says that another writer has changed the bucket since; see `CompactManager`.
    """

    unit: CompactUnit
    change: BucketChange
    is_overtaken: bool

    @property
    def bucket_id(self) -> BucketId:
        """The compacted bucket."""
        return self.change.bucket_id
