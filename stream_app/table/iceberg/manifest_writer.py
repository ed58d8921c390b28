"""Writes the manifests of a version for `publisher`, and carries over those of its predecessor.

It merges small manifests, and rewrites those that name removed files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.format.iceberg.manifests import ManifestKind
from stream_app.model.iceberg_metadata import (
    EntryStatus,
    IcebergEntry,
    IcebergFile,
    IcebergManifest,
    ManifestContent,
)
from stream_app.planning.iceberg.rewritten_manifests import (
    ManifestMergeLimits,
    carried_entries,
    full_manifest_entry_count,
    manifests_to_merge,
)


@dataclass(slots=True)
class LiveKeyCache:
    """A cache of the live files' keys of each manifest by its path.

    Manifests are immutable, so a process reads each once. A commit that removes files finds their
    manifests by these keys.
    """

    iceberg_files: IcebergFiles
    _keys: dict[str, frozenset[str]] = field(init=False, default_factory=dict)

    def keys(self, manifest: IcebergManifest) -> frozenset[str]:
        """Return the keys of a manifest, which is read unless they are cached."""
        if manifest.path not in self._keys:
            self.note(manifest, self.iceberg_files.read_manifest(manifest.path))
        return self._keys[manifest.path]

    def keys_of(
        self, manifests: Iterable[IcebergManifest], content: ManifestContent
    ) -> frozenset[str]:
        """Return the keys of all manifests of one content type that have live files."""
        return frozenset[str]().union(
            *(
                self.keys(manifest)
                for manifest in manifests
                if manifest.content is content and manifest.live_file_count
            )
        )

    def note(self, manifest: IcebergManifest, entries: Iterable[IcebergEntry]) -> None:
        """Cache the keys of a manifest that was read or written."""
        self._keys[manifest.path] = frozenset(
            entry.file.key for entry in entries if entry.status is not EntryStatus.DELETED
        )

    def forget_others(self, manifests: Iterable[IcebergManifest]) -> None:
        """Drop all other manifests from the cache."""
        live_paths = {manifest.path for manifest in manifests}
        self._keys = {path: keys for path, keys in self._keys.items() if path in live_paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """A writer of one version's manifests.

    Attributes:
        first_row_id: the row id of the first row that the version adds; None if the Iceberg format
            has no row ids.
        written_manifests: the manifests that were written.
    """

    iceberg_files: IcebergFiles
    live_key_cache: LiveKeyCache
    manifest_kind: ManifestKind
    limits: ManifestMergeLimits
    snapshot_id: int
    sequence_number: int
    first_row_id: int | None
    written_manifests: list[IcebergManifest] = field(default_factory=list)

    @property
    def written_paths(self) -> list[str]:
        """The paths of the manifests that were written."""
        return [manifest.path for manifest in self.written_manifests]

    def write(
        self,
        content: ManifestContent,
        previous_manifests: Sequence[IcebergManifest],
        added_files: Mapping[str, IcebergFile],
        removed_keys: frozenset[str],
    ) -> list[IcebergManifest]:
        """Write the manifests of one content type, and return all of its manifests.

        Args:
            previous_manifests: all manifests of the previous version.
            added_files, removed_keys: files by key.
        """
        live_manifests = [
            manifest
            for manifest in previous_manifests
            if manifest.content is content and manifest.live_file_count
        ]
        changed_manifests = [
            manifest
            for manifest in live_manifests
            if removed_keys and not removed_keys.isdisjoint(self.live_key_cache.keys(manifest))
        ]
        unchanged_manifests = [
            manifest for manifest in live_manifests if manifest not in changed_manifests
        ]
        entries_max = full_manifest_entry_count(
            sum(manifest.live_file_count for manifest in live_manifests)
        )
        merged_manifests = manifests_to_merge(unchanged_manifests, self.limits, entries_max)
        entries = [
            IcebergEntry(
                status=EntryStatus.ADDED,
                snapshot_id=self.snapshot_id,
                sequence_number=self.sequence_number,
                file=file,
            )
            for file in added_files.values()
        ]
        for manifest in (*changed_manifests, *merged_manifests):
            older_entries = self.iceberg_files.read_manifest(manifest.path)
            entries += carried_entries(older_entries, removed_keys, self.snapshot_id)
        kept_manifests = [
            manifest for manifest in unchanged_manifests if manifest not in merged_manifests
        ]
        return kept_manifests + [
            self._write_one(content, entries[start : start + entries_max])
            for start in range(0, len(entries), entries_max)
        ]

    def _write_one(
        self, content: ManifestContent, entries: Sequence[IcebergEntry]
    ) -> IcebergManifest:
        manifest = self.iceberg_files.write_manifest(
            entries,
            content,
            self.manifest_kind,
            snapshot_id=self.snapshot_id,
            sequence_number=self.sequence_number,
        )
        if content is ManifestContent.DATA:
            manifest = replace(manifest, first_row_id=self.first_row_id)
        self.live_key_cache.note(manifest, entries)
        self.written_manifests.append(manifest)
        return manifest
