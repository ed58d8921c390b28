"""Checks that a table has all epochs that its checkpoint has finished, and no others.

Spark's checkpoint counts epochs, and the table records the newest epoch of each job. If one of them
is an older copy, records would be lost or duplicated. These checks stop the job.
"""

from __future__ import annotations

import json
import logging

from stream_app.errors import CheckpointError, CommitConflictError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_end
from stream_app.model.job_epoch import Offsets
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import REPLAY_PROPERTY, Snapshot
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.commit.repeated_records import offsets_already_committed, resume_offsets
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_state import TableState

_LOG = logging.getLogger(__name__)


def check_not_behind(state: TableState, epoch: int, newest_epoch: int) -> None:
    """Check that the table has all epochs that Spark finished before this run.

    Args:
        epoch: the first epoch of this run.
        newest_epoch: the newest epoch that the table must have; -1 if it need not have any.

    Raises:
        CheckpointError: epochs are missing, or the table has some that the checkpoint lacks.
    """
    table = state.table
    table_epoch = state.last_identifier
    if table_epoch is not None and table_epoch > epoch:
        raise CheckpointError(
            f"the checkpoint continues with epoch {epoch}, the table already has its epoch "
            f"{table_epoch}",
            where=table.location,
            fix="an older copy of the checkpoint was restored: restore the newest one, or give the "
            "job a new checkpoint, for which source.starting-offsets says where to begin",
        )
    if newest_epoch < 0 or (table_epoch is not None and table_epoch >= newest_epoch):
        return
    if table_epoch is None and (table.snapshots.earliest_id() or 1) > 1:
        _LOG.warning(
            "the checkpoint has finished epoch %d, and the table's snapshots of it have expired: "
            "the job continues without a proof that the table has its rows\n  where: %s\n"
            "  to fix: only if the table was rolled back, or an older copy of it was restored, "
            "give the job a new checkpoint",
            newest_epoch,
            table.location,
        )
        return
    epochs_text = (
        "none of its epochs" if table_epoch is None else f"only its epochs up to {table_epoch}"
    )
    raise CheckpointError(
        f"the checkpoint has finished epoch {newest_epoch}, the table has {epochs_text}",
        where=table.location,
        fix="the table was rolled back, or an older copy of it was restored: give the job a new "
        "checkpoint, with which it reads from source.starting-offsets, or restore the newer table",
    )


def check_same_end(state: TableState, epoch: int, source_end: str) -> None:
    """Check that an epoch in the table ends at the checkpoint's position, or records would be lost.

    Args:
        source_end: the end of the epoch according to the checkpoint.

    Raises:
        CheckpointError: the epoch in the table has another end.
    """
    end = state.last_source_end
    if end is None or state.last_identifier != epoch or end == source_end:
        return
    raise CheckpointError(
        f"epoch {epoch} ends elsewhere in the checkpoint than in the table: at {source_end}, "
        f"not {end}",
        where=state.table.location,
        fix="the checkpoint has lost its newest files: give the job a new checkpoint, with "
        "source.starting-offsets where the table ends",
    )


def check_not_read_before(table: FileStoreTable, start: Offsets, *, accepts_repeats: bool) -> None:
    """Check that a job without an epoch in the table reads no records that the table already has.

    If a repeated record would count twice, the job must not begin. Otherwise the rows end up
    correct, and a warning suffices.

    Args:
        start: the offsets at which the job begins.
        accepts_repeats: whether ``stream.repeated-records = store`` is set.

    Raises:
        CheckpointError: the records are in the table, and the job must not store them again.
    """
    epochs = newest_epochs(table.snapshots).values()
    ends = [offsets_of_end(epoch.source_end) for epoch in epochs]
    repeated_ends = offsets_already_committed(start, ends)
    schema = table.schema
    if not repeated_ends or traits_of(schema.core_options.merge_engine).keeps_first:
        return
    problem = (
        f"{_repeated_count(start, repeated_ends)} records of {', '.join(sorted(repeated_ends))} "
        "that the job is about to read are in the table already, from a job with another "
        "checkpoint; "
        f"{_effect_of_repeats(schema)}"
    )
    if not accepts_repeats and (
        schema.merge_rules.counting_columns or not schema.kind_traits.merges_by_key
    ):
        raise CheckpointError(
            problem,
            where=table.location,
            fix="restore that checkpoint; or begin behind these records, with a new checkpoint and "
            f"source.starting-offsets = '{json.dumps(resume_offsets(start, repeated_ends))}'; or "
            "give the job a new table; or set stream.repeated-records = store, if they are other "
            "records (a topic that was recreated, another cluster's) or must be stored again",
        )
    _LOG.warning("%s\n  where: %s", problem, table.location)


def _repeated_count(start: Offsets, repeated_ends: Offsets) -> int:
    return sum(
        end - start[topic].get(partition_number, 0)
        for topic, topic_offsets in repeated_ends.items()
        for partition_number, end in topic_offsets.items()
    )


def _effect_of_repeats(schema: TableSchema) -> str:
    if not schema.kind_traits.merges_by_key:
        return "without a primary key each row would be there twice"
    if counting := schema.merge_rules.counting_columns:
        return f"each would count twice in {', '.join(counting)}"
    return (
        "the job stores them again: rows may be as they were earlier until it has caught up, and a "
        "changelog has these changes twice"
    )


def check_no_record_replay(
    table: FileStoreTable, base_id: int | None, latest_snapshot: Snapshot | None
) -> None:
    """Check that no quarantined records were replayed since an epoch's rows got sequence numbers.

    A record replay takes sequence numbers above all rows that it knows, as the epoch's rows did.
    So both may have the same numbers, and the older rows could win.

    Args:
        base_id: the number of the snapshot above which the rows took sequence numbers; None if it
            is unknown.
        latest_snapshot: the snapshot on top of which the epoch is committed.

    Raises:
        CommitConflictError: a snapshot above `base_id` is a record replay.
    """
    latest_id = 0 if latest_snapshot is None else latest_snapshot.snapshot_id
    if base_id is None or latest_id == base_id:
        return
    for snapshot in table.snapshots.backwards(start=latest_id, down_to=base_id + 1):
        if REPLAY_PROPERTY in (snapshot.properties or {}):
            raise CommitConflictError(
                f"snapshot {snapshot.snapshot_id} has replayed records of the quarantine while "
                "the epoch's rows were committed",
                where=table.location,
                fix="start the job again: it writes the epoch's rows again, with higher sequence "
                "numbers",
            )
