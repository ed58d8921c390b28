"""Decides which range of snapshots and long-lived changelogs expires by a table's options.

`table.upkeep.expire_snapshots` and `table.upkeep.expire_changelogs` call it. It takes and returns
numbers and times; `unused_files` decides which files expire with them.

Source: Paimon `table/ExpireSnapshotsImpl.java`, `table/ExpireChangelogImpl.java`,
`options/ExpireConfig.java`. As in Paimon after 1.4, ``time-retained`` counts from the commit of the
next snapshot, not from a snapshot's own. So a reader of the latest version has that time, even if
the table was idle before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stream_app.errors import UsageError
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.expire_options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    CONSUMER_CHANGELOG_ONLY,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from stream_app.model.options.option import Option

TimeOf = Callable[[int], int | None]
"""Gives the time of a version's commit, in milliseconds; None if the version is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits by which a chain of versions is retained.

    Attributes:
        num_max: the maximum number of versions, however young they are.
        num_min: the minimum number of versions, however old they are.
        retained_ms: the milliseconds for which a version is kept.
    """

    num_max: int
    num_min: int
    retained_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRange:
    """The numbers from `start` to before `end`; empty if they are equal.

    Attributes:
        kept_by: a text that says why `end` is not later.
    """

    start: int
    end: int
    kept_by: str

    @property
    def is_empty(self) -> bool:
        """Whether nothing expires."""
        return self.end <= self.start


def snapshot_range(
    ids: Sequence[int],
    retention: Retention,
    *,
    bound_time_ms: int,
    expired_max: int,
    time_of: TimeOf,
) -> ExpireRange:
    """Return the snapshots that expire, without regard to consumers (`limit_by_consumer`).

    Args:
        ids: the numbers of all snapshots, ascending; at least one.
        bound_time_ms: the time from which on snapshots are kept.
        expired_max: the maximum number that may expire.
        time_of: returns a snapshot's time; only called between the minimum and maximum to retain.
    """
    start, latest_id = ids[0], ids[-1]
    end, kept_by = _end_by_counts(
        start, latest_id, retention, expired_max=expired_max, unread_id=None
    )
    # Snapshots beyond `num_max` expire at any age. The latest snapshot has no successor.
    for snapshot_id in range(max(latest_id - retention.num_max + 1, start), end):
        next_time_ms = time_of(snapshot_id + 1)
        if next_time_ms is not None and bound_time_ms <= next_time_ms:
            end = snapshot_id
            kept_by = "the time that is retained"
            break
    return ExpireRange(start=start, end=max(start, end), kept_by=kept_by)


def limit_by_consumer(expire_range: ExpireRange, unread_id: int | None) -> ExpireRange:
    """Return the range up to the first version that a consumer has yet to read."""
    if unread_id is None or unread_id >= expire_range.end:
        return expire_range
    return replace(expire_range, end=max(expire_range.start, unread_id), kept_by="a consumer")


def changelog_range(
    ids: Sequence[int],
    retention: Retention,
    *,
    latest_snapshot_id: int,
    bound_time_ms: int,
    expired_max: int,
    unread_id: int | None,
    time_of: TimeOf,
) -> ExpireRange:
    """Return the long-lived changelogs that expire; as in Paimon, the latest of them stays.

    Args:
        ids: the numbers of all long-lived changelogs, ascending; at least one.
        latest_snapshot_id: the table's latest snapshot, from which versions are counted.
    """
    start = ids[0]
    end, kept_by = _end_by_counts(
        start, latest_snapshot_id, retention, expired_max=expired_max, unread_id=unread_id
    )
    if end > ids[-1]:
        end = ids[-1]
        kept_by = "the latest long-lived changelog stays"
    for snapshot_id in range(max(latest_snapshot_id - retention.num_max + 1, start), end):
        commit_time_ms = time_of(snapshot_id)
        if commit_time_ms is not None and bound_time_ms <= commit_time_ms:
            end = snapshot_id
            kept_by = "the time that is retained"
            break
    return ExpireRange(start=start, end=max(start, end), kept_by=kept_by)


def _end_by_counts(
    start: int,
    latest_snapshot_id: int,
    retention: Retention,
    *,
    expired_max: int,
    unread_id: int | None,
) -> tuple[int, str]:
    """Return the end of the range by all rules except time, and the rule that set it."""
    bounds = [(latest_snapshot_id - retention.num_min + 1, "the number that is retained")]
    if unread_id is not None:
        bounds.append((unread_id, "a consumer"))
    bounds.append((start + expired_max, "the limit of one expiry"))
    return min(bounds, key=lambda bound: bound[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConfig:
    """The retention of snapshots and of changelogs.

    Attributes:
        expired_max: the maximum number of each that one expiry deletes.
        writes_changelog: whether the table has changelog files; else its flushed files serve as the
            changelog.
        consumers_keep_snapshots: whether consumers protect snapshots, and not only changelogs.
        cleans_folders: whether empty folders are deleted.
    """

    snapshot_retention: Retention
    changelog_retention: Retention
    expired_max: int
    writes_changelog: bool
    consumers_keep_snapshots: bool
    cleans_folders: bool

    def __post_init__(self) -> None:
        for noun, retention in (
            ("snapshot", self.snapshot_retention),
            ("changelog", self.changelog_retention),
        ):
            if retention.num_max < retention.num_min:
                raise UsageError(
                    f"the maximum number of {noun}s to keep, {retention.num_max}, is below the "
                    f"minimum, {retention.num_min}",
                    fix=f"lower '{noun}.num-retained.min', or raise '{noun}.num-retained.max'",
                )

    @property
    def is_changelog_longer(self) -> bool:
        """Whether changelogs outlive their snapshots, and so get their own files."""
        changelogs, snapshots = self.changelog_retention, self.snapshot_retention
        return (
            changelogs.num_max > snapshots.num_max
            or changelogs.num_min > snapshots.num_min
            or changelogs.retained_ms > snapshots.retained_ms
        )


def expire_config(
    options: CoreOptions,
    *,
    num_max: int | None = None,
    num_min: int | None = None,
    retained_ms: int | None = None,
    expired_max: int | None = None,
) -> ExpireConfig:
    """Return the retention in the options; by default changelogs live as long as snapshots.

    Args:
        num_max, num_min, retained_ms, expired_max: the retention of snapshots, which overrides the
            options. A maximum below the option's minimum also lowers the minimum.

    Raises:
        UsageError: the minimum to keep exceeds the maximum.
    """
    option_min = options[SNAPSHOT_NUM_RETAINED_MIN]
    if num_max is not None:
        option_min = min(option_min, num_max)
    snapshot_retention = Retention(
        num_max=options[SNAPSHOT_NUM_RETAINED_MAX] if num_max is None else num_max,
        num_min=option_min if num_min is None else num_min,
        retained_ms=options[SNAPSHOT_TIME_RETAINED] if retained_ms is None else retained_ms,
    )

    def changelog_value(option: Option[int | None], default: int) -> int:
        value = options[option]
        return default if value is None else value

    return ExpireConfig(
        snapshot_retention=snapshot_retention,
        changelog_retention=Retention(
            num_max=changelog_value(CHANGELOG_NUM_RETAINED_MAX, snapshot_retention.num_max),
            num_min=changelog_value(CHANGELOG_NUM_RETAINED_MIN, snapshot_retention.num_min),
            retained_ms=changelog_value(CHANGELOG_TIME_RETAINED, snapshot_retention.retained_ms),
        ),
        expired_max=options[SNAPSHOT_EXPIRE_LIMIT] if expired_max is None else expired_max,
        writes_changelog=options.writes_changelog,
        consumers_keep_snapshots=not options[CONSUMER_CHANGELOG_ONLY],
        cleans_folders=options[SNAPSHOT_CLEAN_EMPTY_DIRECTORIES],
    )
