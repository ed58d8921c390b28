"""What the job tells while it runs: a line for people on stderr, a JSON line for programs.

Called by `ingest_job`. The JSON lines (``--events FILE``) hold one object for each event, with
``event`` and ``time_ms`` first; the demo's screen is drawn from them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from stream_app.clock import Clock
from stream_app.model.snapshot import Snapshot
from stream_app.spark.micro_batch import EpochReport, IdleReport
from stream_app.spark.streaming_query import SourceProgress

_LOG = logging.getLogger("stream_app")


@dataclass(slots=True)
class EventLog:
    """Tells of epochs, of the source's lag and of commits between epochs."""

    clock: Clock
    sink: IO[str] | None = None

    def started(self, table: str, checkpoint: str) -> None:
        """The stream begins."""
        _LOG.info("writing %s, checkpoint %s", table, checkpoint)
        self._write("started", {"table": table, "checkpoint": checkpoint})

    def epoch(self, report: EpochReport) -> None:
        """An epoch is in the table."""
        if report.skipped:
            _LOG.info("epoch %d: in the table already", report.epoch)
            self._write("epoch", {"epoch": report.epoch, "skipped": True})
            return
        counts = report.counts
        total = report.wait_s + report.write_s + report.commit_s
        _LOG.info(
            "epoch %d: %d messages, %d changes in %.2f s (%.0f/s), %d bad, %d skipped; "
            "%d files in %d buckets, %s; snapshots %s; at most %d runs, %d compacting",
            report.epoch,
            counts.messages,
            counts.changes,
            total,
            counts.messages / total if total else 0,
            counts.bad,
            counts.skipped,
            report.files,
            report.buckets,
            _bytes_text(report.bytes),
            _snapshots_text(report.snapshots),
            max(report.sorted_runs, default=0),
            report.compactions_running,
        )
        self._write(
            "epoch",
            {
                "epoch": report.epoch,
                "skipped": False,
                "messages": counts.messages,
                "changes": counts.changes,
                "bad": counts.bad,
                "skipped_messages": counts.skipped,
                "buckets": report.buckets,
                "files": report.files,
                "bytes": report.bytes,
                "wait_s": round(report.wait_s, 4),
                "write_s": round(report.write_s, 4),
                "commit_s": round(report.commit_s, 4),
                "snapshots": [_snapshot_event(snapshot) for snapshot in report.snapshots],
                "sorted_runs": dict(report.sorted_runs),
                "compactions_running": report.compactions_running,
            },
        )

    def progress(self, progress: SourceProgress) -> None:
        """Spark has closed an epoch."""
        _LOG.info(
            "epoch %d: lag %s, next offsets %s",
            progress.epoch,
            "unknown" if progress.lag is None else progress.lag,
            json.dumps(progress.end_offsets),
        )
        self._write(
            "progress",
            {
                "epoch": progress.epoch,
                "messages": progress.messages,
                "lag": progress.lag,
                "end_offsets": dict(progress.end_offsets),
            },
        )

    def idle_commit(self, report: IdleReport) -> None:
        """A compaction was committed between epochs."""
        _LOG.info("idle commit: snapshot %s", _snapshots_text((report.snapshot,)))
        self._write(
            "idle_commit",
            {
                "snapshots": [_snapshot_event(report.snapshot)],
                "sorted_runs": dict(report.sorted_runs),
                "compactions_running": report.compactions_running,
            },
        )

    def ended(self) -> None:
        """The stream has ended by itself or on request."""
        _LOG.info("ended")
        self._write("ended", {})

    def _write(self, event: str, values: Mapping[str, object]) -> None:
        if self.sink is not None:
            line = {"event": event, "time_ms": self.clock.now_ms(), **values}
            self.sink.write(json.dumps(line) + "\n")
            self.sink.flush()


def _snapshot_event(snapshot: Snapshot) -> dict[str, object]:
    return {
        "id": snapshot.snapshot_id,
        "kind": snapshot.commit_kind.value,
        "identifier": snapshot.commit_identifier,
        "delta_records": snapshot.delta_record_count,
        "total_records": snapshot.total_record_count,
    }


def _snapshots_text(snapshots: tuple[Snapshot, ...]) -> str:
    return ", ".join(f"{s.snapshot_id} {s.commit_kind.value}" for s in snapshots) or "none"


def _bytes_text(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"
