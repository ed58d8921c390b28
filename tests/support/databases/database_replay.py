"""Replays the quarantine of a job of a whole database."""

from __future__ import annotations

from typing import Any

from stream_app.app.ops.replay.job_replay import job_record_replays
from stream_app.app.ops.replay.record_replay import ReplayOutcome
from stream_app.quarantine.quarantine_folder import RecordFilter, open_quarantine
from tests.support.jobs.database_job import DatabaseJob


def replay(
    job: DatabaseJob, name: str | None = None, record_filter: RecordFilter | None = None
) -> Any:
    """Replay the quarantine; return what became of the records, by table."""
    quarantine = open_quarantine(str(job.config.stream.quarantine), {})
    replays = job_record_replays(job.database, quarantine, name, read_range=job.read)
    return {
        table: offsets_by_fate(table_replay.run(record_filter or RecordFilter(), dry_run=False))
        for table, table_replay in replays.items()
    }


def offsets_by_fate(done: ReplayOutcome) -> dict[str, list[int]]:
    kinds = {
        "replayed": done.replayed_records,
        "overtaken": done.overtaken_records,
        "early": done.early_records,
        "bad": [record for record, _ in done.bad_records],
    }
    return {
        kind: [record.offset for record in records] for kind, records in kinds.items() if records
    }
