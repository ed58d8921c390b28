"""Finds the newest epoch of each job in a few snapshots, and decides how long it is kept.

A restarted job must know what it has committed, even if its own snapshots have expired. So each
snapshot that we make carries a property with the newest epoch of every job. Snapshots of other
engines have none, and those of our older versions record only their own job.

Called by `table.commit.recorded_epochs`. Plain values in and out. Snapshots come one by one, from
the newest down, and no more of them than needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.job_epoch import EPOCHS_PROPERTY, JobEpoch
from stream_app.model.snapshot import SOURCE_END_PROPERTY, Snapshot

KEPT_DAYS = 30
"""An epoch that was repeated later would find its messages gone from nearly every topic."""
KEPT_MS = KEPT_DAYS * 86_400_000
JOBS_KEPT = 16
"""Jobs that are recorded at any age, because a commit by a fast clock would age all jobs."""
JOBS_MAX = 100
"""Most jobs recorded: a job with a new checkpoint each hour must not make snapshots grow."""
_WHAT = f"snapshot's {EPOCHS_PROPERTY}"


def encode_epochs(epochs: Mapping[str, JobEpoch]) -> str:
    """The property's text: ``{"user": {"identifier": 7, "timeMillis": 1767225600000, …}}``."""
    return orjson.dumps(
        {
            user: {
                "identifier": epoch.identifier,
                "timeMillis": epoch.time_millis,
                **({} if epoch.source_end is None else {"sourceEnd": epoch.source_end}),
            }
            for user, epoch in sorted(epochs.items())
        }
    ).decode()


def decode_epochs(text: str) -> dict[str, JobEpoch]:
    """The epochs by commit user.

    Raises:
        CorruptFileError: the text holds no epochs.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptFileError(f"cannot read a {_WHAT}: {error}") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"cannot read a {_WHAT}: it is {value!r}")
    return {user: _epoch(JsonObject(entry, what=_WHAT)) for user, entry in value.items()}


def _epoch(entry: JsonObject) -> JobEpoch:
    return JobEpoch(
        identifier=entry.integer("identifier"),
        time_millis=entry.integer("timeMillis"),
        source_end=entry.optional_text("sourceEnd"),
    )


def epochs_of(newest_first: Iterable[Snapshot]) -> dict[str, JobEpoch]:
    """The newest epoch of each job, by commit user.

    Raises:
        CorruptFileError: a snapshot's property cannot be read.
    """
    walked: dict[str, JobEpoch] = {}
    for snapshot in newest_first:
        recorded = _recorded_in(snapshot)
        if recorded is not None:
            return {**recorded, **walked}
        if _ends_epoch(snapshot):
            walked.setdefault(snapshot.commit_user, _own_epoch(snapshot))
    return walked


def epoch_of_user(commit_user: str, newest_first: Iterable[Snapshot]) -> JobEpoch | None:
    """The newest epoch of one job; None when no snapshot records one.

    A COMPACT snapshot has the number of its job's newest epoch, even where no other record is left.

    Raises:
        CorruptFileError: a snapshot's property cannot be read.
    """
    number_alone: JobEpoch | None = None
    for snapshot in newest_first:
        epoch = (_recorded_in(snapshot) or {}).get(commit_user)
        if snapshot.commit_user == commit_user and epoch is None:
            own = _own_epoch(snapshot)
            if _ends_epoch(snapshot):
                epoch = own
            elif number_alone is None:
                number_alone = own
        if epoch is not None:
            is_newer = number_alone is None or number_alone.identifier <= epoch.identifier
            return epoch if is_newer else number_alone
    return number_alone


def carried_epochs(epochs: Mapping[str, JobEpoch], now_millis: int) -> dict[str, JobEpoch]:
    """The epochs that the next snapshot copies, newest first.

    These are the newest `JOBS_KEPT` of any age, and further young ones up to a limit.
    """
    newest = sorted(epochs.items(), key=lambda item: item[1].time_millis, reverse=True)
    rest = [item for item in newest[JOBS_KEPT:JOBS_MAX] if _is_young(item[1], now_millis)]
    return dict(newest[:JOBS_KEPT] + rest)


def oldest_needed(newest_first: Iterable[Snapshot], now_millis: int) -> int | None:
    """The number of the oldest snapshot with the only record of a job's epoch.

    None: no such record must be kept. When other engines alone commit, such a snapshot and its
    successors stay for 30 days at most, because the jobs may never return. These must have passed
    by our clock and by the newest snapshot's, for either may be ahead.

    Raises:
        CorruptFileError: a snapshot's property cannot be read.
    """
    needed, seen = None, set[str]()
    for place, snapshot in enumerate(newest_first):
        if place == 0:
            now_millis = min(now_millis, snapshot.time_millis)
        recorded = _recorded_in(snapshot)
        is_last = recorded is not None
        if recorded is None:
            recorded = {snapshot.commit_user: _own_epoch(snapshot)} if _ends_epoch(snapshot) else {}
        if any(_is_young(recorded[user], now_millis) for user in recorded.keys() - seen):
            needed = snapshot.snapshot_id
        if is_last:
            break
        seen |= recorded.keys()
    return needed


def _recorded_in(snapshot: Snapshot) -> dict[str, JobEpoch] | None:
    text = (snapshot.properties or {}).get(EPOCHS_PROPERTY)
    try:
        return None if text is None else decode_epochs(text)
    except CorruptFileError as error:
        raise CorruptFileError(
            error.what,
            where=f"snapshot {snapshot.snapshot_id}",
            fix="restore the snapshot's file from a backup, or roll the table back",
        ) from error


def _is_young(epoch: JobEpoch, now_millis: int) -> bool:
    return now_millis - epoch.time_millis <= KEPT_MS


def _ends_epoch(snapshot: Snapshot) -> bool:
    return SOURCE_END_PROPERTY in (snapshot.properties or {})


def _own_epoch(snapshot: Snapshot) -> JobEpoch:
    return JobEpoch(
        identifier=snapshot.commit_identifier,
        time_millis=snapshot.time_millis,
        source_end=(snapshot.properties or {}).get(SOURCE_END_PROPERTY),
    )
