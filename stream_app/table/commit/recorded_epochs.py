"""Reads the newest epoch of each of a table's jobs from its snapshots' properties.

`file_store_commit` carries these epochs from snapshot to snapshot, and `commit_history` reads its
job's epoch when the job starts. `planning.commit.job_epochs` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.format.snapshot_properties.epochs_json import encode_epochs, recorded_epochs
from stream_app.model.job_epoch import EPOCHS_PROPERTY, JobEpoch
from stream_app.model.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    SOURCE_END_PROPERTY,
    CommitKind,
    Snapshot,
)
from stream_app.planning.commit.job_epochs import (
    RecordingSnapshot,
    carried_epochs,
    epoch_of_user,
    epochs_of,
)


def recording(snapshots: Iterable[Snapshot]) -> Iterator[RecordingSnapshot]:
    """Yield each snapshot with the epochs that it records, decoded lazily.

    Raises:
        CorruptFileError: a snapshot's property cannot be read.
    """
    return (RecordingSnapshot(snapshot, recorded_epochs(snapshot)) for snapshot in snapshots)


def epochs_as_of(snapshots: SnapshotManager, snapshot: Snapshot | None) -> dict[str, JobEpoch]:
    """Return the newest epoch of each job up to a snapshot, by commit user.

    It reads backwards only as far as stream_app's last snapshot.

    Raises:
        CorruptFileError: a snapshot on the way cannot be read.
    """
    if snapshot is None:
        return {}
    older_snapshots = snapshots.backwards(start=snapshot.snapshot_id - 1)
    return epochs_of(recording(chain([snapshot], older_snapshots)))


def newest_epoch(snapshots: SnapshotManager, commit_user: str) -> JobEpoch | None:
    """Return the newest epoch of a job; None if no snapshot records one.

    Raises:
        CorruptFileError: a snapshot on the way cannot be read.
    """
    return epoch_of_user(commit_user, recording(_latest_first(snapshots)))


def newest_epochs(snapshots: SnapshotManager) -> dict[str, JobEpoch]:
    """Return the newest epoch of each job, by commit user; see `newest_epoch`."""
    return epochs_of(recording(_latest_first(snapshots)))


def with_epochs(snapshot: Snapshot, epochs_before: Mapping[str, JobEpoch]) -> Snapshot:
    """Return the snapshot with the newest epoch of each job among its properties."""
    epochs, properties = dict(epochs_before), dict(snapshot.properties or {})
    is_batch = snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
    if snapshot.commit_kind is CommitKind.APPEND and not is_batch:
        epochs[snapshot.commit_user] = JobEpoch(
            identifier=snapshot.commit_identifier,
            time_ms=snapshot.time_ms,
            source_end=properties.get(SOURCE_END_PROPERTY),
        )
    properties[EPOCHS_PROPERTY] = encode_epochs(carried_epochs(epochs, snapshot.time_ms))
    return replace(snapshot, properties=properties)


def _latest_first(snapshots: SnapshotManager) -> Iterable[Snapshot]:
    """Return all snapshots, latest first; callers stop at the first one of stream_app.

    A snapshot may expire during the walk, but a later one then records the same epochs. So a walk
    without a snapshot of stream_app also reads the snapshots that were committed since.
    """
    walked_snapshots: list[Snapshot] = []
    walked_id = 0
    while (latest_id := snapshots.latest_id()) is not None and latest_id > walked_id:
        new_snapshots = []
        for snapshot in snapshots.backwards(start=latest_id, down_to=walked_id + 1):
            new_snapshots.append(snapshot)
            if EPOCHS_PROPERTY in (snapshot.properties or {}):
                return chain(
                    new_snapshots,
                    walked_snapshots or snapshots.backwards(start=snapshot.snapshot_id - 1),
                )
        walked_snapshots, walked_id = [*new_snapshots, *walked_snapshots], latest_id
    return walked_snapshots
