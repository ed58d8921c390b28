"""Checks that an ending job leaves no row that waits for one of its compactions."""

from __future__ import annotations

from stream_app.errors import CompactionError, StreamAppError
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.planning.compact.waiting_rows import readers_text, waiting_text
from stream_app.table.job.stream_table_commit import StreamTableCommit


def check_no_row_waits(stream_commit: StreamTableCommit) -> None:
    """Check that no row waits for a compaction of this job.

    Args:
        stream_commit: the job's commit, after `compact_due`.

    Raises:
        CompactionError: a row waits, because its compactions fail.
    """
    table, coordinator = stream_commit.table, stream_commit.coordinator
    rows = coordinator.waiting_row_count()
    if not rows or table.options[WRITE_ONLY]:
        return
    errors = coordinator.failures.stuck_errors().values()
    if stream_commit.leaves_rows and not (errors or coordinator.failures.to_be_retried()):
        return
    causes = {
        error.problem if isinstance(error, StreamAppError) else str(error) for error in errors
    }
    causes_text = f": {'; '.join(sorted(causes))}" if causes else ""
    raise CompactionError(
        f"{waiting_text(rows)}: {readers_text(table.visibility)} do not see them until then"
        f"{causes_text}",
        where=table.location,
        fix="remove the cause, and start the job again: it begins with these compactions",
    )
