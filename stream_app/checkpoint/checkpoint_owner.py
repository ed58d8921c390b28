"""Checks that a checkpoint belongs to this job: to its table and its topics.

Spark's checkpoint has offsets, but not the identity of the table or of a topic. If the job got
another table, it would skip all records that the first table has. If a topic were recreated, the
job would skip its first records. The job detects both at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobState, JobStateFile
from stream_app.errors import CheckpointError

DATABASE = "a whole database"
"""Identity of a whole database; its tables have identities of their own."""
_NEW_CHECKPOINT_FIX = "give the job a new checkpoint folder (stream.checkpoint)"


def claim_checkpoint(
    state_file: JobStateFile, location: str, identity: str, share: str = ""
) -> None:
    """Check that the checkpoint belongs to the job; claim a new checkpoint for it.

    Args:
        location: the folder of the table or, for a whole database, of its tables.
        identity: the identity of the table, or `DATABASE` for a whole database.
        share: the job's share of a database's tables, such as ``3/8``; empty for all tables.

    Raises:
        CheckpointError: see `check_owner`.
    """
    check_owner(state_file.checkpoint, state_file.state, location, identity, share)
    if not state_file.state.location:
        state_file.update(
            replace(state_file.state, location=location, table_identity=identity, share=share)
        )


def write_topics(state_file: JobStateFile, topic_ids: Mapping[str, str]) -> None:
    """Add topics to the state; known topics keep their ids."""
    state_file.update(
        replace(state_file.state, topic_ids={**topic_ids, **state_file.state.topic_ids})
    )


def check_owner(
    checkpoint: JobFolder, state: JobState, location: str, identity: str, share: str = ""
) -> None:
    """Check that a checkpoint is new, or belongs to a job of this table and this share.

    Args:
        location: the folder of the table or, for a whole database, of its tables.
        identity: the identity of the table, or `DATABASE` for a whole database.
        share: the job's share of a database's tables, such as ``3/8``; empty for all tables.

    Raises:
        CheckpointError: the checkpoint belongs to another table, to an earlier table at this path,
            to another job's share, or to other software.
    """
    if not state.location:
        if checkpoint.file_io.exists(checkpoint.path("offsets")):
            raise CheckpointError(
                "the checkpoint was made by another application",
                where=str(checkpoint),
                fix=_NEW_CHECKPOINT_FIX,
            )
        return
    is_same_location = state.location == location
    if state.table_identity != identity or (identity == DATABASE and not is_same_location):
        if is_same_location:
            problem = "the table was dropped and recreated since this checkpoint was begun"
        else:
            problem = f"the checkpoint belongs to the table {state.location}, not {location}"
        raise CheckpointError(problem, where=str(checkpoint), fix=_NEW_CHECKPOINT_FIX)
    if state.share != share:
        first_share, current_share = map(_share_in_words, (state.share, share))
        raise CheckpointError(
            f"the checkpoint was begun with {first_share}, and the job now has {current_share}: it "
            "would skip changes that tables of another share lack",
            where=str(checkpoint),
            fix=f"set stream.share as it was, or {_NEW_CHECKPOINT_FIX}",
        )


def _share_in_words(share: str) -> str:
    return f"stream.share = {share!r}" if share else "all tables"
