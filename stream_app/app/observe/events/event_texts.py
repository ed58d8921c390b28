"""Texts of `event_log`: parts of its lines for people, and events as objects for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from stream_app.app.text.listing import size_text
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.model.snapshot import Snapshot
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.job.table_job import IdleReport

_SHOWN_WAIT_MIN_S = 0.1
"""The minimum wait for compactions that an epoch's line shows. Reading the table takes less."""
Event = Mapping[str, object]


def drained_text(epoch_count: int, lag: int | None) -> str:
    """Return the line of a run that has read its source to the end."""
    if lag:
        return "the source has more that this run did not read"
    epochs_text = f"epochs in this run: {epoch_count}" if epoch_count else "there was nothing new"
    return f"caught up with the source, {epochs_text}"


def compaction_text(metrics: CompactionMetrics, wait_s: float) -> str:
    """Return the rest of an epoch's line, without zero counts."""
    parts = [f"at most {metrics.sorted_runs_max} runs", f"{metrics.running_count} compacting"]
    if metrics.queued_count:
        parts.append(f"{metrics.queued_count} queued")
    if wait_s >= _SHOWN_WAIT_MIN_S:
        parts.append(f"waited {wait_s:.2f} s before")
    return ", ".join(parts)


def report_line(report: CompactionReport) -> str:
    """Return a report as one line.

    Such as ``dt=1 bucket 0: size ratio, levels 0 0 0 → 3, 3 files (1 MiB) → 1 (1 MiB), 0.8 s``.
    """
    where = f"{report.partition} bucket {report.bucket}".strip()
    levels = " ".join(map(str, report.levels))
    work = (
        f"{report.files_in} files ({size_text(report.bytes_in)}) → {report.files_out} "
        f"({size_text(report.bytes_out)})"
    )
    upgrade_text = f", {report.upgraded} moved up" if report.upgraded else ""
    return (
        f"{where}: {report.reason}, levels {levels} → {report.output_level}, {work}{upgrade_text}, "
        f"{report.seconds:.1f} s"
    )


def snapshots_text(snapshots: tuple[Snapshot, ...]) -> str:
    """Return snapshots by number and kind: ``7 APPEND, 8 COMPACT``."""
    return (
        ", ".join(f"{snapshot.snapshot_id} {snapshot.commit_kind.value}" for snapshot in snapshots)
        or "none"
    )


def bytes_text(count: int) -> str:
    """Return a number of bytes for people: ``1.2 MB``."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def epoch_event(report: EpochReport, columns: Event) -> Event:
    """Return the event of a committed epoch.

    Args:
        columns: the records with unknown and missing columns.
    """
    counts = report.counts
    return {
        "epoch": report.epoch,
        "skipped": False,
        "messages": counts.message_count,
        "changes": counts.change_count,
        "bad": counts.bad_record_count,
        "decoder_errors": counts.decoder_error_count,
        "skipped_messages": counts.skipped_count,
        **quarantined_event(report.quarantine_report),
        **columns,
        "violations": {
            violation.expectation: sighting.record_count
            for violation, sighting in counts.violations.items()
        },
        "buckets": report.bucket_count,
        "files": report.file_count,
        "bytes": report.byte_count,
        "in_driver": report.ran_in_driver,
        **{f"{name}_s": seconds for name, seconds in rounded_parts(report.durations).items()},
        "snapshots": [_snapshot_event(snapshot) for snapshot in report.snapshots],
        **_compaction_event(report),
    }


def idle_event(report: IdleReport) -> Event:
    """Return the event of a commit of compactions between epochs."""
    return {"snapshots": [_snapshot_event(report.snapshot)], **_compaction_event(report)}


def rounded_parts(durations: EpochSeconds) -> dict[str, float]:
    """Return seconds by part, for a log."""
    return {name: round(seconds, 4) for name, seconds in durations.by_name.items()}


def quarantined_event(quarantine_report: QuarantineReport | None) -> dict[str, object]:
    """Return the event of quarantined records."""
    if quarantine_report is None:
        return {"bad_reasons": {}, "quarantine_file": None}
    return {
        "bad_reasons": dict(quarantine_report.reasons),
        "quarantine_file": quarantine_report.file,
    }


def _snapshot_event(snapshot: Snapshot) -> dict[str, object]:
    return {
        "id": snapshot.snapshot_id,
        "kind": snapshot.commit_kind.value,
        "identifier": snapshot.commit_identifier,
        "delta_records": snapshot.delta_record_count,
        "total_records": snapshot.total_record_count,
    }


def _compaction_event(report: EpochReport | IdleReport) -> dict[str, object]:
    """Return the members of an event about compactions."""
    metrics = report.metrics
    amplification = metrics.write_amplification
    return {
        "sorted_runs": dict(report.sorted_run_histogram),
        "level0_files_max": metrics.level0_files_max,
        "level0_files": metrics.level0_files,
        "waiting_rows": metrics.waiting_rows,
        "compactions": [asdict(compaction) for compaction in report.compactions],
        "compactions_queued": metrics.queued_count,
        "compactions_running": metrics.running_count,
        "compactions_completed": metrics.completed_count,
        "compactions_failed": metrics.failed_count,
        "compactions_dropped": metrics.dropped_count,
        "compaction_bytes_in": metrics.bytes_in,
        "compaction_bytes_out": metrics.bytes_out,
        "compaction_seconds": round(metrics.run_s, 3),
        "write_amplification": None if amplification is None else round(amplification, 3),
        "back_pressure_s": round(metrics.waited_s, 3),
    }
