"""Asks a job to retry held tables, by requests in its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_app.app.opening.job_folder_access import not_begun_text
from stream_app.checkpoint.held_tables import resume
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import read_state
from stream_app.errors import UsageError
from stream_app.model.near_names import did_you_mean


def resume_tables(
    checkpoint: JobFolder, location: str, names: Sequence[str], now_ms: int
) -> Iterator[str]:
    """Write the requests into the checkpoint, and yield a line for each.

    Args:
        location: the configured location of the checkpoint.
        names: the tables' names in the job; empty for all held tables.

    Raises:
        UsageError: one of the tables is not held back; then no request is written.
        CheckpointError: the checkpoint is damaged.
    """
    state = read_state(checkpoint)
    if state is None:
        raise UsageError(
            not_begun_text(location),
            fix="give the configuration of the job, in the folder where it runs",
        )
    held_tables = state.held_tables
    for name in names:
        if name not in held_tables:
            raise UsageError(
                f"the table {name!r} is not held back{did_you_mean(name, held_tables)}",
                where=str(checkpoint),
                fix=f"name a held table: {', '.join(sorted(held_tables))}"
                if held_tables
                else "no table is held back, so there is nothing to resume",
            )
    for name in sorted(names or held_tables):
        resume(checkpoint, name, now_ms)
        yield f"{name}: the job tries it again"
    if not names and not held_tables:
        yield "no table is held back"
