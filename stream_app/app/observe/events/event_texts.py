"""Parts of the lines that `event_log` writes for people."""

from __future__ import annotations

from stream_app.app.text.listing import size_text
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.compact.report import CompactionReport

_WAIT_WORTH_TELLING_S = 0.1
"""Least wait of an epoch for its compactions that a line shows; reading the table takes less."""


def drained_text(epochs: int, lag: int | None) -> str:
    """Of a run that has read its source to the end."""
    if lag:
        return "the source has more that this run did not read"
    new = f"epochs in this run: {epochs}" if epochs else "there was nothing new"
    return f"caught up with the source, {new}"


def compaction_text(metrics: CompactionMetrics, wait_s: float) -> str:
    """The rest of an epoch's line, without zero counts."""
    parts = [f"at most {metrics.sorted_runs_max} runs", f"{metrics.running} compacting"]
    if metrics.queued:
        parts.append(f"{metrics.queued} queued")
    if wait_s >= _WAIT_WORTH_TELLING_S:
        parts.append(f"waited {wait_s:.2f} s before")
    return ", ".join(parts)


def report_line(report: CompactionReport) -> str:
    """``dt=1 bucket 0: size ratio, levels 0 0 0 → 3, 3 files (1 MiB) → 1 (1 MiB), 0.8 s``."""
    where = f"{report.partition} bucket {report.bucket}".strip()
    levels = " ".join(map(str, report.levels))
    work = (
        f"{report.files_in} files ({size_text(report.bytes_in)}) → {report.files_out} "
        f"({size_text(report.bytes_out)})"
    )
    upgraded = f", {report.upgraded} moved up" if report.upgraded else ""
    return (
        f"{where}: {report.reason}, levels {levels} → {report.output_level}, {work}{upgraded}, "
        f"{report.seconds:.1f} s"
    )


def snapshots_text(snapshots: tuple[Snapshot, ...]) -> str:
    """``7 APPEND, 8 COMPACT``."""
    return ", ".join(f"{s.snapshot_id} {s.commit_kind.value}" for s in snapshots) or "none"


def bytes_text(count: int) -> str:
    """``1.2 MB``."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"
