"""The events of ``--events`` as objects: pure.

`event_log` writes them as JSON lines, with ``event`` and ``time_ms`` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from stream_app.model.snapshot import Snapshot
from stream_app.spark.epoch.epoch_parts import EpochParts
from stream_app.spark.ingest.dead_letters import SetAside
from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.job.table_job import IdleReport

Event = Mapping[str, object]


def epoch_event(report: EpochReport, columns: Event) -> Event:
    """An epoch that is committed.

    Args:
        columns: the records with unknown and missing columns.
    """
    counts = report.counts
    return {
        "epoch": report.epoch,
        "skipped": False,
        "messages": counts.messages,
        "changes": counts.changes,
        "bad": counts.bad,
        "decoder_errors": counts.decoder_errors,
        "skipped_messages": counts.skipped,
        **set_aside_event(report.set_aside),
        **columns,
        "buckets": report.buckets,
        "files": report.files,
        "bytes": report.bytes,
        **{f"{name}_s": seconds for name, seconds in rounded(report.parts).items()},
        "snapshots": [_snapshot_event(snapshot) for snapshot in report.snapshots],
        **_compaction_event(report),
    }


def idle_event(report: IdleReport) -> Event:
    """A commit of compactions between epochs."""
    return {"snapshots": [_snapshot_event(report.snapshot)], **_compaction_event(report)}


def rounded(parts: EpochParts) -> dict[str, float]:
    """Seconds by part, for a log."""
    return {name: round(seconds, 4) for name, seconds in parts.by_name.items()}


def set_aside_event(set_aside: SetAside | None) -> dict[str, object]:
    """Records that were set aside."""
    if set_aside is None:
        return {"bad_reasons": {}, "quarantine_file": None}
    return {"bad_reasons": dict(set_aside.reasons), "quarantine_file": set_aside.file}


def _snapshot_event(snapshot: Snapshot) -> dict[str, object]:
    return {
        "id": snapshot.snapshot_id,
        "kind": snapshot.commit_kind.value,
        "identifier": snapshot.commit_identifier,
        "delta_records": snapshot.delta_record_count,
        "total_records": snapshot.total_record_count,
    }


def _compaction_event(report: EpochReport | IdleReport) -> dict[str, object]:
    metrics = report.metrics
    amplification = metrics.write_amplification
    return {
        "sorted_runs": dict(report.sorted_runs),
        "level0_files_max": metrics.level0_files_max,
        "level0_files": metrics.level0_files,
        "waiting_rows": metrics.waiting_rows,
        "compactions": [asdict(compaction) for compaction in report.compactions],
        "compactions_queued": metrics.queued,
        "compactions_running": metrics.running,
        "compactions_completed": metrics.completed,
        "compactions_failed": metrics.failed,
        "compactions_dropped": metrics.dropped,
        "compaction_bytes_in": metrics.bytes_in,
        "compaction_bytes_out": metrics.bytes_out,
        "compaction_seconds": round(metrics.seconds, 3),
        "write_amplification": None if amplification is None else round(amplification, 3),
        "back_pressure_s": round(metrics.waited_s, 3),
    }
