"""Decides which versions a rollback deletes, and in which order. Pure.

Source: Paimon `table/RollbackHelper.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.model.consumer import Consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackVersions:
    """The versions that a rollback deletes and changes.

    Attributes:
        snapshots, changelogs: the ids in the order of deletion, the newest first.
        tags: the names in the same order.
        is_restored: whether the target's snapshot has expired, so that its file is restored.
        consumers: the consumers that are ahead of the target.
    """

    target: int
    snapshots: tuple[int, ...]
    changelogs: tuple[int, ...]
    tags: tuple[str, ...]
    is_restored: bool
    consumers: tuple[Consumer, ...]

    def is_empty(self) -> bool:
        """Return whether the table is already at the target."""
        return not (self.snapshots or self.changelogs or self.tags or self.is_restored)


def rollback_versions(
    target: int,
    *,
    snapshots: Iterable[int],
    changelogs: Iterable[int],
    tags: Mapping[str, int],
    consumers: Iterable[Consumer] = (),
) -> RollbackVersions:
    """Return all versions after the target, which a rollback deletes.

    The newest are deleted first, so that the remaining snapshots are always consecutive. Only after
    an expired target there may be a gap, until the rollback is done.
    """
    snapshot_ids = set(snapshots)
    is_restored = target not in snapshot_ids
    # A restored snapshot needs no long-lived changelog.
    last_changelog = target - 1 if is_restored else target
    later_ids = (snapshot_id for snapshot_id in snapshot_ids if snapshot_id > target)
    later_changelogs = (snapshot_id for snapshot_id in changelogs if snapshot_id > last_changelog)
    later_tags = (name for name in tags if tags[name] > target)
    return RollbackVersions(
        target=target,
        snapshots=tuple(sorted(later_ids, reverse=True)),
        changelogs=tuple(sorted(later_changelogs, reverse=True)),
        tags=tuple(sorted(later_tags, key=lambda name: (-tags[name], name))),
        is_restored=is_restored,
        consumers=tuple(consumer for consumer in consumers if consumer.next_snapshot > target + 1),
    )
