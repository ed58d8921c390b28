"""Publishes finished compactions as COMPACT snapshots; a conflict drops only them, not an epoch.

`stream_table_commit` calls it. The rows of an epoch are in its APPEND snapshot, which precedes the
COMPACT (docs/adr/0006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import Snapshot
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.compact.compact_coordinator import CompactCoordinator
from stream_app.table.compact.compaction_metrics import CompactionMetrics, CompactionTally
from stream_app.table.compact.compaction_report import (
    CompactionReport,
    FinishedCompaction,
    compaction_report,
    reports_as_property,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.live_file_counts import LiveFileCounts


@dataclass(slots=True)
class PublishedCompactions:
    """The published compactions of one job, which outlive its committer when the schema changes.

    Attributes:
        tally: the sums over all of them.
        reports: the reports that the job has not taken yet.
        snapshots: the snapshots that were published during a wait, for the next epoch's outcome.
    """

    tally: CompactionTally = field(default_factory=CompactionTally)
    reports: list[CompactionReport] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def take_reports(self) -> tuple[CompactionReport, ...]:
        """Return the compactions that were published since the last call."""
        reports, self.reports = tuple(self.reports), []
        return reports

    def add_snapshot(self, snapshot: Snapshot | None) -> None:
        """Keep what a wait published, if anything, for the next epoch's outcome."""
        if snapshot is not None:
            self.snapshots.append(snapshot)

    def take_snapshots(self) -> list[Snapshot]:
        """Return the snapshots that were published during waits since the last call."""
        snapshots, self.snapshots = self.snapshots, []
        return snapshots


@dataclass(slots=True)
class CompactionPublisher:
    """A publisher that commits finished compactions, and reports to the `CompactCoordinator`.

    Attributes:
        live_counts: counts the table's live files.
        published_compactions: records each published compaction.
    """

    table: FileStoreTable
    file_store_commit: FileStoreCommit
    coordinator: CompactCoordinator
    live_counts: LiveFileCounts
    published_compactions: PublishedCompactions

    def metrics(self, bucket_metrics: CompactionMetrics) -> CompactionMetrics:
        """Return the sums, the begun compactions and the table's size. Any thread may call it."""
        metrics = self.published_compactions.tally.metrics(bucket_metrics)
        return replace(
            metrics, file_count=self.live_counts.file_count, byte_count=self.live_counts.byte_count
        )

    def publish(
        self, committable: ManifestCommittable, compactions: Sequence[FinishedCompaction]
    ) -> Snapshot | None:
        """Publish compactions and return the snapshot; None if none remains to publish.

        Args:
            committable: the snapshot's identifier, watermark and properties, without changes.
        """
        reports = [self._report(compaction) for compaction in compactions]
        properties = {**(committable.properties or {}), **reports_as_property(reports)}
        compact_committable = replace(
            committable,
            changes=tuple(compaction.change for compaction in compactions),
            properties=properties,
        )
        try:
            outcome = self.file_store_commit.commit_compactions(
                compact_committable,
                are_overtaken=any(compaction.is_overtaken for compaction in compactions),
            )
        except BaseException:
            # The compactions may be committed in spite of the error; the next commit finds out.
            self.coordinator.note_doubt(compactions)
            raise
        if outcome.conflict is None:
            self.coordinator.apply(compactions)
            self.live_counts.change(compaction.change for compaction in compactions)
            self.published_compactions.reports += reports
            self.published_compactions.tally.add_compactions(reports)
            return outcome.snapshot
        latest_snapshot = self.table.snapshots.latest()
        conflicting_compactions = [
            compaction
            for compaction in compactions
            if not outcome.conflicting_files.isdisjoint(_file_names(compaction))
        ]
        self.coordinator.discard(
            conflicting_compactions or compactions, latest_snapshot, outcome.conflict
        )
        remaining_compactions = [
            compaction for compaction in compactions if compaction not in conflicting_compactions
        ]
        return (
            self.publish(committable, remaining_compactions)
            if conflicting_compactions and remaining_compactions
            else None
        )

    def _report(self, compaction: FinishedCompaction) -> CompactionReport:
        partition = self.table.paths.partition_path(compaction.change.partition)
        policy = self.coordinator.policy_of(compaction.bucket_id)
        return compaction_report(partition, compaction.unit, compaction.change, policy)


def _file_names(compaction: FinishedCompaction) -> set[str]:
    return {
        file.file_name
        for file in (*compaction.change.removed_files, *compaction.change.added_files)
    }
