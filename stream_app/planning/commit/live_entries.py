"""Computes the live files, which were added and not deleted.

Source: Paimon `manifest/FileEntry.java#mergeEntries`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.files.manifest_entry import FileIdentity, FileKind, ManifestEntry


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the ADD entries without a DELETE entry, in any order.

    For all Paimon readers, a file that was ever deleted at a level stays deleted there.
    """
    added_entries: dict[FileIdentity, ManifestEntry] = {}
    deleted_identities: set[FileIdentity] = set()
    for entry in entries:
        if entry.kind is FileKind.ADD:
            added_entries[entry.identity] = entry
        else:
            deleted_identities.add(entry.identity)
    return [
        entry for identity, entry in added_entries.items() if identity not in deleted_identities
    ]


def compacted_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the fewest entries with the same meaning, without pairs of ADD and DELETE.

    A DELETE without its ADD is kept, because the ADD is in a manifest outside of this merge.
    """
    remaining_entries: dict[FileIdentity, ManifestEntry] = {}
    deleted_identities: set[FileIdentity] = set()
    for entry in entries:
        identity = entry.identity
        if entry.kind is FileKind.ADD:
            if identity not in deleted_identities:
                remaining_entries[identity] = entry
            continue
        if identity not in deleted_identities:
            deleted_identities.add(identity)
            if remaining_entries.pop(identity, None) is None:
                remaining_entries[identity] = entry
    return list(remaining_entries.values())
