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
        snapshot_ids, changelog_ids: the ids in the order of deletion, the latest first.
        tag_names: the names in the same order.
        is_restored: whether the target's snapshot has expired, so that its file is restored.
        consumers: the consumers that are ahead of the target.
    """

    target_id: int
    snapshot_ids: tuple[int, ...]
    changelog_ids: tuple[int, ...]
    tag_names: tuple[str, ...]
    is_restored: bool
    consumers: tuple[Consumer, ...]

    def is_empty(self) -> bool:
        """Return whether the table is already at the target."""
        return not (self.snapshot_ids or self.changelog_ids or self.tag_names or self.is_restored)


def rollback_versions(
    target_id: int,
    *,
    snapshot_ids: Iterable[int],
    changelog_ids: Iterable[int],
    tagged_ids: Mapping[str, int],
    consumers: Iterable[Consumer] = (),
) -> RollbackVersions:
    """Return all versions after the target, which a rollback deletes.

    Args:
        tagged_ids: tag → the id of its snapshot.

    The newest are deleted first, so that the remaining snapshots are always consecutive. Only after
    an expired target there may be a gap, until the rollback is done.
    """
    distinct_ids = set(snapshot_ids)
    is_restored = target_id not in distinct_ids
    # A restored snapshot needs no long-lived changelog.
    last_id = target_id - 1 if is_restored else target_id
    later_ids = (snapshot_id for snapshot_id in distinct_ids if snapshot_id > target_id)
    later_changelog_ids = (changelog_id for changelog_id in changelog_ids if changelog_id > last_id)
    later_names = (name for name in tagged_ids if tagged_ids[name] > target_id)
    return RollbackVersions(
        target_id=target_id,
        snapshot_ids=tuple(sorted(later_ids, reverse=True)),
        changelog_ids=tuple(sorted(later_changelog_ids, reverse=True)),
        tag_names=tuple(sorted(later_names, key=lambda name: (-tagged_ids[name], name))),
        is_restored=is_restored,
        consumers=tuple(
            consumer for consumer in consumers if consumer.next_snapshot_id > target_id + 1
        ),
    )
