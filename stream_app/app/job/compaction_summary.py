"""Sums up a run of ``stream-app compact``, and formats the totals as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stream_app.app.text.listing import size_text
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.table.compact.compaction_report import CompactionReport


@dataclass(slots=True)
class CompactionSummary:
    """The totals of a run so far, with sizes in bytes.

    Attributes:
        counts_before: the number of sorted runs of each bucket before its first compaction.
        level0_byte_count: the sizes of level-0 files that compactions may read.
        upgraded: the number of files that moved to a higher level without a rewrite.
    """

    counts_before: dict[object, int] = field(default_factory=dict)
    compaction_count: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    level0_byte_count: int = 0
    upgraded: int = 0

    def add(self, report: CompactionReport) -> None:
        """Add a finished compaction to the totals."""
        self.compaction_count += 1
        self.files_in += report.files_in
        self.files_out += report.files_out
        self.bytes_in += report.bytes_in
        self.bytes_out += report.bytes_out
        self.upgraded += report.upgraded

    def add_level0(self, entries: Iterable[ManifestEntry]) -> None:
        """Add the sizes of the level-0 files among files that compactions may read."""
        level0 = (entry.file for entry in entries if entry.file.level == 0)
        self.level0_byte_count += sum(file.file_size for file in level0)

    def text(self, counts_after: dict[object, int], dropped_count: int, seconds: float) -> str:
        """Format the totals as two or three lines.

        Args:
            counts_after: the number of sorted runs of each bucket after the run.
            dropped_count: the number of compactions that conflicts have dropped.
        """
        before = self.counts_before.values()
        after = counts_after.values()
        lines = [
            f"{self.compaction_count} compactions in {seconds:.1f} s: {self.files_in} files "
            f"({size_text(self.bytes_in)}) → {self.files_out} files "
            f"({size_text(self.bytes_out)}), {self.upgraded} files moved up as they are",
        ]
        if counts_after:
            lines.append(
                f"sorted runs of {len(counts_after)} buckets: {sum(before)} → {sum(after)}, at "
                f"most {max(before)} → {max(after)} in one"
            )
        if self.level0_byte_count:
            amplification = self.bytes_out / self.level0_byte_count
            lines.append(
                f"write amplification: {amplification:.2f} (bytes written for each byte of level 0)"
            )
        if dropped_count:
            lines.append(
                f"dropped: {dropped_count} compactions, "
                "because another writer had changed the bucket"
            )
        return "\n".join(lines)
