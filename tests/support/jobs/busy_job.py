"""A stub of a job that compacts, for the page of the job."""

from __future__ import annotations

from stream_app.table.compact.compaction_metrics import CompactionMetrics, UnfinishedCompaction


class Busy:
    """A job that compacts."""

    def compaction_metrics(self) -> CompactionMetrics:
        return CompactionMetrics(
            buckets=1,
            sorted_runs_max=6,
            running_count=1,
            queued_count=2,
            completed_count=3,
            waited_s=4.5,
        )

    def unfinished_compactions(self) -> list[UnfinishedCompaction]:
        return [
            UnfinishedCompaction(
                partition="", bucket=0, is_running=True, reason="size ratio", levels=(0,),
                output_level=5, file_count=1, byte_count=100,
            )
        ]  # fmt: skip
