"""Publishes finished compactions as COMPACT snapshots; a conflict drops only them, not an epoch.

The rows of an epoch are in its APPEND snapshot, which precedes the COMPACT (docs/adr/0006).
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
from stream_app.table.write.write_constraints import LiveFileCounts


@dataclass(slots=True)
class CompactionPublisher:
    """A publisher that commits finished compactions, and reports to the `CompactCoordinator`.

    Attributes:
        live: counts the table's live files.
        tally: the sums over committed compactions.
    """

    table: FileStoreTable
    commit: FileStoreCommit
    coordinator: CompactCoordinator
    live: LiveFileCounts
    tally: CompactionTally = field(default_factory=CompactionTally)
    _reports: list[CompactionReport] = field(init=False, default_factory=list)

    def take_over(self, earlier: CompactionPublisher) -> None:
        """Continue with an earlier publisher's sums and pending reports."""
        self.tally, self._reports = earlier.tally, earlier._reports

    def take_reports(self) -> tuple[CompactionReport, ...]:
        """Return the compactions that were published since the last call."""
        reports, self._reports = tuple(self._reports), []
        return reports

    def metrics(self, present: CompactionMetrics) -> CompactionMetrics:
        """Return the sums, the open work and the table's size. Any thread may call it."""
        return replace(self.tally.metrics(present), files=self.live.files, bytes=self.live.bytes)

    def publish(
        self, committable: ManifestCommittable, finished: Sequence[FinishedCompaction]
    ) -> Snapshot | None:
        """Publish compactions and return the snapshot; None if none remains to publish.

        Args:
            committable: the snapshot's identifier, watermark and properties, without changes.
        """
        reports = [self._report(compaction) for compaction in finished]
        properties = {**(committable.properties or {}), **reports_as_property(reports)}
        committable = replace(
            committable,
            changes=tuple(compaction.change for compaction in finished),
            properties=properties,
        )
        try:
            outcome = self.commit.commit_compactions(
                committable,
                are_overtaken=any(compaction.is_overtaken for compaction in finished),
            )
        except BaseException:
            # They may be committed in spite of the error; the next commit will see.
            self.coordinator.note_doubt(finished)
            raise
        if outcome.conflict is None:
            self.coordinator.apply(finished)
            self.live.change(compaction.change for compaction in finished)
            self._reports += reports
            self.tally.add_compactions(reports)
            return outcome.snapshot
        latest = self.table.snapshots.latest()
        at_fault = [
            compaction
            for compaction in finished
            if not outcome.conflicting_files.isdisjoint(_files(compaction))
        ]
        self.coordinator.discard(at_fault or finished, latest, outcome.conflict)
        others = [compaction for compaction in finished if compaction not in at_fault]
        return self.publish(committable, others) if at_fault and others else None

    def _report(self, compaction: FinishedCompaction) -> CompactionReport:
        partition = self.table.paths.partition(compaction.change.partition)
        policy = self.coordinator.policy_of(compaction.bucket)
        return compaction_report(partition, compaction.unit, compaction.change, policy)


def _files(compaction: FinishedCompaction) -> set[str]:
    return {file.file_name for file in (*compaction.change.removed, *compaction.change.added)}
