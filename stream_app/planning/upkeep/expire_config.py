"""What a table's options say about expiry.

Source: Paimon `options/ExpireConfig.java`, `CoreOptions.java#expireConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from stream_app.planning.upkeep.expire_range import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConfig:
    """How long snapshots and changelogs are kept.

    Attributes:
        limit: most of each that one expiry deletes.
        writes_changelog: whether the table has changelog files; else its flushed files are it.
        consumers_keep_snapshots: whether consumers protect snapshots, and not only changelogs.
        cleans_folders: whether folders that became empty are deleted.
    """

    snapshots: Retention
    changelogs: Retention
    limit: int
    writes_changelog: bool
    consumers_keep_snapshots: bool
    cleans_folders: bool

    def __post_init__(self) -> None:
        for what, retention in (("snapshot", self.snapshots), ("changelog", self.changelogs)):
            if retention.num_max < retention.num_min:
                raise UsageError(
                    f"the most {what}s to keep, {retention.num_max}, are fewer than the least, "
                    f"{retention.num_min}",
                    fix=f"lower '{what}.num-retained.min', or raise '{what}.num-retained.max'",
                )

    @property
    def is_changelog_longer(self) -> bool:
        """Whether changelogs outlive their snapshots: then they get files of their own."""
        here, there = self.changelogs, self.snapshots
        return (
            here.num_max > there.num_max
            or here.num_min > there.num_min
            or here.time_ms > there.time_ms
        )


def expire_config(
    options: CoreOptions,
    *,
    num_max: int | None = None,
    num_min: int | None = None,
    time_ms: int | None = None,
    limit: int | None = None,
) -> ExpireConfig:
    """What the options say; the defaults for changelogs are those for snapshots.

    Args:
        num_max, num_min, time_ms, limit: of snapshots, instead of the options. A maximum below the
            option's minimum takes that down with it.

    Raises:
        UsageError: more are to be kept at least than at most.
    """
    most = options[SNAPSHOT_NUM_RETAINED_MAX] if num_max is None else num_max
    least = options[SNAPSHOT_NUM_RETAINED_MIN]
    if num_max is not None:
        least = min(least, num_max)
    snapshots = Retention(
        num_max=most,
        num_min=least if num_min is None else num_min,
        time_ms=options[SNAPSHOT_TIME_RETAINED] if time_ms is None else time_ms,
    )

    def changelog(option: Option[int | None], otherwise: int) -> int:
        given = options[option]
        return otherwise if given is None else given

    return ExpireConfig(
        snapshots=snapshots,
        changelogs=Retention(
            num_max=changelog(CHANGELOG_NUM_RETAINED_MAX, snapshots.num_max),
            num_min=changelog(CHANGELOG_NUM_RETAINED_MIN, snapshots.num_min),
            time_ms=changelog(CHANGELOG_TIME_RETAINED, snapshots.time_ms),
        ),
        limit=options[SNAPSHOT_EXPIRE_LIMIT] if limit is None else limit,
        writes_changelog=options.writes_changelog,
        consumers_keep_snapshots=not options[CONSUMER_CHANGELOG_ONLY],
        cleans_folders=options[SNAPSHOT_CLEAN_EMPTY_DIRECTORIES],
    )
