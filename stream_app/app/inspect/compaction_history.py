"""Lists the compactions that a table's snapshots record, also those of other engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

from stream_app.app.inspect.snapshot_files import EVERYTHING, BucketFilter
from stream_app.app.text.listing import time_text
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.compact.compaction_report import CompactionReport, reports_of_property
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

_READ_SNAPSHOTS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """One compaction of one bucket.

    Attributes:
        reason, seconds: why the compaction ran, and for how long; None for other engines, which do
            not record these.
        levels: the levels of the input runs, newest first.
        output_level: the level of the output, or None if no row remains.
        upgraded: the number of files that were moved to a higher level, and not rewritten.
    """

    snapshot: int
    time: str | None
    user: str
    partition: str
    bucket: int
    reason: str | None
    levels: str
    output_level: int | None
    files_in: int
    bytes_in: int
    files_out: int
    bytes_out: int
    upgraded: int
    seconds: float | None


def compaction_rows(
    table: FileStoreTable, bucket_filter: BucketFilter = EVERYTHING
) -> list[CompactionRow]:
    """Return the compactions of all snapshots, earliest snapshot first."""
    snapshots = [
        snapshot
        for snapshot in table.snapshots.backwards()
        if snapshot.commit_kind is CommitKind.COMPACT
    ]
    return [
        row
        for snapshot in snapshots[::-1]
        for row in compactions_of(table, snapshot, bucket_filter)
    ]


def compactions_of(
    table: FileStoreTable, snapshot: Snapshot, bucket_filter: BucketFilter = EVERYTHING
) -> list[CompactionRow]:
    """Return the compactions of one COMPACT snapshot, by partition and bucket."""
    changes: dict[BucketId, list[ManifestEntry]] = {}
    for entry in bucket_filter.chosen_entries(table, FileStoreScan(table).delta(snapshot)):
        changes.setdefault(entry.bucket_id, []).append(entry)
    reports_of: dict[tuple[str, int], list[CompactionReport]] = {}
    for report in reports_of_property(snapshot.properties) or ():
        reports_of.setdefault((report.partition, report.bucket), []).append(report)
    rows = []
    for (partition, bucket), entries in changes.items():
        partition_path = table.paths.partition_path(partition)
        reports = reports_of.get((partition_path, bucket))
        if reports is None:
            rows.append(_derive_row(snapshot, partition_path, bucket, entries))
        else:
            rows += [_recorded_row(snapshot, report) for report in reports]
    return sorted(rows, key=lambda row: (row.partition, row.bucket))


def policy_rules(table: FileStoreTable, latest_snapshot: Snapshot | None) -> str | None:
    """Return the rules that a job chose by ``compaction-policy``, with the reason, or None.

    The rules are those of the latest snapshot with compaction reports, among the latest 20. The
    bucket with the largest compaction represents the others.
    """
    for snapshot in (
        islice(table.snapshots.backwards(), _READ_SNAPSHOTS_MAX) if latest_snapshot else ()
    ):
        if reports := reports_of_property(snapshot.properties):
            return _policy_text([report for report in reports if report.policy is not None])
    return None


def _policy_text(reports: Sequence[CompactionReport]) -> str | None:
    if not reports:
        return None
    largest_report = max(reports, key=lambda report: report.bytes_in)
    bucket = f"{largest_report.partition} bucket {largest_report.bucket}".strip()
    other_buckets = len({(report.partition, report.bucket) for report in reports}) - 1
    rest_text = f"; and {other_buckets} more buckets" if other_buckets else ""
    return f"{bucket}: {largest_report.policy}{rest_text}"


def _recorded_row(snapshot: Snapshot, report: CompactionReport) -> CompactionRow:
    names = [column.name for column in fields(report) if column.name != "policy"]
    values = {name: getattr(report, name) for name in names}
    return _row(snapshot, **values | {"levels": _levels_text(report.levels)})


def _derive_row(
    snapshot: Snapshot, partition_path: str, bucket: int, entries: Sequence[ManifestEntry]
) -> CompactionRow:
    """Derive one compaction of the bucket from the files that the snapshot deletes and adds."""
    deleted_files = [entry.file for entry in entries if entry.kind is FileKind.DELETE]
    added_files = [entry.file for entry in entries if entry.kind is FileKind.ADD]
    upgraded_names = {file.file_name for file in deleted_files} & {
        file.file_name for file in added_files
    }
    input_files = [file for file in deleted_files if file.file_name not in upgraded_names]
    output_files = [file for file in added_files if file.file_name not in upgraded_names]
    return _row(
        snapshot,
        partition=partition_path,
        bucket=bucket,
        reason=None,
        levels=_levels_text(_levels(deleted_files)),
        output_level=max((file.level for file in added_files), default=None),
        files_in=len(input_files),
        bytes_in=sum(file.file_size for file in input_files),
        files_out=len(output_files),
        bytes_out=sum(file.file_size for file in output_files),
        upgraded=len(upgraded_names),
        seconds=None,
    )


def _row(snapshot: Snapshot, **values: Any) -> CompactionRow:
    return CompactionRow(
        snapshot=snapshot.snapshot_id,
        time=time_text(snapshot.time_ms),
        user=snapshot.commit_user,
        **values,
    )


def _levels(files: Sequence[DataFileMeta]) -> list[int]:
    """Return the levels of the sorted runs. Each file of level 0 is a sorted run."""
    upper_levels = {file.level for file in files if file.level > 0}
    return [0 for file in files if file.level == 0] + sorted(upper_levels)


def _levels_text(levels: Sequence[int]) -> str:
    return " ".join(map(str, levels))
