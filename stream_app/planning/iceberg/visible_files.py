"""Decides which files of a version an Iceberg reader sees, and what changed between two versions.

Iceberg's readers merge no rows. So a file of a table with a key is visible when no other visible
file has an older or newer row of its keys:

* with deletion vectors that Iceberg knows: above level 0, because the vectors mark replaced rows,
* without: at the highest level, which has one row of each key.

Source: Paimon `iceberg/IcebergCommitCallback.java`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stream_app.model.manifest_entry import FileKind, ManifestEntry


@dataclass(frozen=True, slots=True)
class VisibleLevels:
    """The levels whose files are visible: from `least` on."""

    least: int

    def sees(self, entry: ManifestEntry) -> bool:
        """Whether a file is visible."""
        return entry.file.level >= self.least


def visible_levels(*, merges_by_key: bool, has_vectors: bool, num_levels: int) -> VisibleLevels:
    """The visible levels of a table.

    Args:
        has_vectors: whether Iceberg's readers get its deletion vectors.
    """
    if not merges_by_key:
        return VisibleLevels(0)
    return VisibleLevels(1 if has_vectors else num_levels - 1)


@dataclass(frozen=True, slots=True)
class VisibleChanges:
    """Files by their path: what a version adds to an earlier one, and what it lacks."""

    added: Mapping[str, ManifestEntry]
    removed: frozenset[str]


def visible_changes(
    entries: Iterable[ManifestEntry],
    levels: VisibleLevels,
    path_of: Callable[[ManifestEntry], str],
) -> VisibleChanges:
    """The changes of one or more snapshots; a file that only changed its level has not changed.

    Args:
        entries: of the snapshots' deltas, in any order: a file comes and goes once at a level.
    """
    balance: Counter[str] = Counter()
    newest: dict[str, ManifestEntry] = {}
    for entry in entries:
        if levels.sees(entry):
            path = path_of(entry)
            balance[path] += 1 if entry.kind is FileKind.ADD else -1
            newest[path] = entry
    return VisibleChanges(
        added={path: newest[path] for path, count in balance.items() if count > 0},
        removed=frozenset(path for path, count in balance.items() if count < 0),
    )
