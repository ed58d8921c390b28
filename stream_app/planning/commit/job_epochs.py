"""Determines the newest epoch of each job from a few snapshots, and how long it is kept.

A restarted job must know what it has committed, even if its own snapshots have expired. So each
snapshot of stream_app has a property with the newest epoch of each job. Snapshots of other engines
have none, and those of older versions record only their own job.

`table.commit.recorded_epochs` calls it. It takes and returns plain values. All snapshots come
newest first, and are consumed lazily.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.model.job_epoch import JobEpoch
from stream_app.model.snapshot import SOURCE_END_PROPERTY, Snapshot

KEPT_DAYS = 30
"""Days for which a job's newest epoch is recorded: nearly every topic drops messages earlier."""
KEPT_MS = KEPT_DAYS * 86_400_000
KEPT_JOBS_MIN = 16
"""Jobs whose epochs are recorded at any age: a fast clock makes all epochs look old."""
JOBS_MAX = 100
"""Maximum number of recorded jobs: a new checkpoint each hour must not make snapshots grow."""


@dataclass(frozen=True, slots=True)
class RecordingSnapshot:
    """A snapshot, and the newest epochs that it records by commit user; None if it records none."""

    snapshot: Snapshot
    recorded_epochs: Mapping[str, JobEpoch] | None


def epochs_of(recordings: Iterable[RecordingSnapshot]) -> dict[str, JobEpoch]:
    """Return the newest epoch of each job, by commit user."""
    epochs: dict[str, JobEpoch] = {}
    for recording in recordings:
        snapshot = recording.snapshot
        if recording.recorded_epochs is not None:
            return {**recording.recorded_epochs, **epochs}
        if _ends_epoch(snapshot):
            epochs.setdefault(snapshot.commit_user, _own_epoch(snapshot))
    return epochs


def epoch_of_user(commit_user: str, recordings: Iterable[RecordingSnapshot]) -> JobEpoch | None:
    """Return the newest epoch of one job; None if no snapshot records one.

    A COMPACT snapshot's identifier is its job's newest epoch, even if no other record remains.
    """
    numbered_epoch: JobEpoch | None = None
    for recording in recordings:
        snapshot, epoch = recording.snapshot, (recording.recorded_epochs or {}).get(commit_user)
        if snapshot.commit_user == commit_user and epoch is None:
            own_epoch = _own_epoch(snapshot)
            if _ends_epoch(snapshot):
                epoch = own_epoch
            elif numbered_epoch is None:
                numbered_epoch = own_epoch
        if epoch is not None:
            is_newer = numbered_epoch is None or numbered_epoch.identifier <= epoch.identifier
            return epoch if is_newer else numbered_epoch
    return numbered_epoch


def carried_epochs(epochs: Mapping[str, JobEpoch], now_ms: int) -> dict[str, JobEpoch]:
    """Return the epochs that the next snapshot copies, newest first.

    These are the newest `KEPT_JOBS_MIN` of any age, and further young ones up to a limit.
    """
    newest_items = sorted(epochs.items(), key=lambda item: item[1].time_ms, reverse=True)
    young_items = [
        item for item in newest_items[KEPT_JOBS_MIN:JOBS_MAX] if _is_young(item[1], now_ms)
    ]
    return dict(newest_items[:KEPT_JOBS_MIN] + young_items)


def earliest_needed_snapshot_id(recordings: Iterable[RecordingSnapshot], now_ms: int) -> int | None:
    """Return the earliest snapshot with the only record of a job's epoch; None if none must stay.

    If only other engines commit, such a snapshot and its successors stay for at most 30 days,
    because the jobs may never return. This machine's clock and the latest snapshot's time must both
    show that they have passed, because either may be ahead.
    """
    needed_id = None
    seen_users = set[str]()
    for index, recording in enumerate(recordings):
        snapshot, recorded_epochs = recording.snapshot, recording.recorded_epochs
        if index == 0:
            now_ms = min(now_ms, snapshot.time_ms)
        is_last = recorded_epochs is not None
        if recorded_epochs is None:
            recorded_epochs = (
                {snapshot.commit_user: _own_epoch(snapshot)} if _ends_epoch(snapshot) else {}
            )
        if any(
            _is_young(recorded_epochs[user], now_ms) for user in recorded_epochs.keys() - seen_users
        ):
            needed_id = snapshot.snapshot_id
        if is_last:
            break
        seen_users |= recorded_epochs.keys()
    return needed_id


def _is_young(epoch: JobEpoch, now_ms: int) -> bool:
    return now_ms - epoch.time_ms <= KEPT_MS


def _ends_epoch(snapshot: Snapshot) -> bool:
    return SOURCE_END_PROPERTY in (snapshot.properties or {})


def _own_epoch(snapshot: Snapshot) -> JobEpoch:
    return JobEpoch(
        identifier=snapshot.commit_identifier,
        time_ms=snapshot.time_ms,
        source_end=(snapshot.properties or {}).get(SOURCE_END_PROPERTY),
    )
