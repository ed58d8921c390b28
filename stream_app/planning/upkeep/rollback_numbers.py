"""Decides which versions a rollback deletes, and in which order: pure.

Source: Paimon `table/RollbackHelper.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stream_app.model.consumer import Consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackNumbers:
    """The versions that a rollback deletes and changes.

    Attributes:
        snapshots, changelogs: numbers, in the order of their deletion: the newest first.
        tags: names, likewise.
        is_restored: whether the target is a snapshot no longer, so that its file is written again.
        consumers: those that are ahead of the target, which the rollback would cut.
    """

    target: int
    snapshots: tuple[int, ...]
    changelogs: tuple[int, ...]
    tags: tuple[str, ...]
    is_restored: bool
    consumers: tuple[Consumer, ...]

    def is_empty(self) -> bool:
        """Whether the table is at the target already."""
        return not (self.snapshots or self.changelogs or self.tags or self.is_restored)


def rollback_numbers(
    target: int,
    *,
    snapshots: Iterable[int],
    changelogs: Iterable[int],
    tags: Mapping[str, int],
    consumers: Iterable[Consumer] = (),
) -> RollbackNumbers:
    """The numbers of everything newer than the target, which a rollback deletes.

    The newest are deleted first, so that the remaining snapshots are always consecutive. Only
    before an expired target there may be a gap, until the rollback is done.
    """
    numbers = set(snapshots)
    is_restored = target not in numbers
    # What is a snapshot again needs no changelog that outlives it.
    last = target - 1 if is_restored else target
    return RollbackNumbers(
        target=target,
        snapshots=tuple(sorted((n for n in numbers if n > target), reverse=True)),
        changelogs=tuple(sorted((n for n in changelogs if n > last), reverse=True)),
        tags=tuple(
            sorted((name for name in tags if tags[name] > target), key=lambda n: (-tags[n], n))
        ),
        is_restored=is_restored,
        consumers=tuple(consumer for consumer in consumers if consumer.next_snapshot > target + 1),
    )
