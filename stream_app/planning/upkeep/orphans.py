"""Which files of a table are orphans: old enough, and named by no version.

Source: Paimon `operation/OrphanFilesClean.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

VERSION_FOLDERS = {"snapshot": "snapshot-", "changelog": "changelog-"}
"""Folders of versions, and how their files are called, beside the hints."""
HINTS = ("EARLIEST", "LATEST")


CLOCKS_APART_MS = 60_000
"""A greater difference of clocks is reported: one of them is wrong."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be an orphan.

    Attributes:
        modified_millis: since 1970 in UTC.
    """

    path: str
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        """Without the folder."""
        return self.path.rpartition("/")[2]


def is_temporary(name: str) -> bool:
    """Whether a file was to become another one, or to be deleted again, and was not."""
    return (name.startswith(".") and name.endswith(".tmp")) or name.startswith(".probe-")


def may_be_cleaned(folder: str, name: str) -> bool:
    """Whether a file of a folder that holds no data may be an orphan at all.

    In folders of versions these are all files that are neither version nor hint. Other folders hold
    files that no version names (schemas, tags, consumers; the table's own has an empty name). There
    these are only temporary files.
    """
    prefix = VERSION_FOLDERS.get(folder)
    if prefix is not None:
        return not name.startswith(prefix) and name not in HINTS
    return is_temporary(name)


def orphans(
    candidates: Iterable[Candidate], used: Collection[str], older_than_millis: int
) -> list[Candidate]:
    """The candidates that were written before a time and whose name is not used, by path.

    Names of files are never reused, so the name is sufficient.
    """
    removable = [
        candidate
        for candidate in candidates
        if candidate.modified_millis < older_than_millis and candidate.name not in used
    ]
    return sorted(removable, key=lambda candidate: candidate.path)


def emptied_folders(
    folders: Mapping[str, int], holding: Collection[str], older_than_millis: int
) -> list[str]:
    """The folders that nothing is left in, the inner ones first.

    A young folder stays: a writer may have made it for a file that it is about to write.

    Args:
        folders: of partitions and buckets, and when something was last changed in each (since 1970
            in UTC); an outer one stands before those in it.
        holding: folders in which files stay.
    """
    kept = set(holding)
    emptied = []
    for folder in reversed(list(folders)):
        if folder in kept or folders[folder] >= older_than_millis:
            kept.add(folder.rpartition("/")[0])
        else:
            emptied.append(folder)
    return emptied
