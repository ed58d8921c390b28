"""Rewrites manifests of a base list into fewer, as `planning.commit.manifest_merge` decides.

Used by commit_files, once for each commit. So the cost of a commit does not grow with the number of
commits before it.

Source: Paimon `operation/ManifestFileMerger.java`, `operation/ManifestFileLegacyMerger.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_app.model.manifest_entry import FileIdentity, FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.options.commit_options import (
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_FILE_SIZE,
)
from stream_app.planning.commit.live_entries import compacted_entries
from stream_app.planning.commit.manifest_merge import full_merge, manifest_groups
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True)
class ManifestMerger:
    """Merges manifests of one table."""

    table: FileStoreTable

    def merge(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Manifests of the same meaning; those that are not among `metas` are newly written."""
        options = self.table.options
        target_size = options[MANIFEST_TARGET_FILE_SIZE]
        rewritten = full_merge(
            metas,
            target_size=target_size,
            threshold=options[MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE],
        )
        if rewritten:
            return self._full(metas, rewritten)
        merged: list[ManifestFileMeta] = []
        for group in manifest_groups(
            metas, target_size=target_size, min_count=options[MANIFEST_MERGE_MIN_COUNT]
        ):
            if len(group) == 1:
                merged.append(group[0])
                continue
            entries = [entry for meta in group for entry in self._read(meta)]
            merged += self.table.manifests.write_manifests(compacted_entries(entries))
        return merged

    def _full(
        self, metas: Sequence[ManifestFileMeta], rewritten: frozenset[str]
    ) -> list[ManifestFileMeta]:
        """Drop the entries of all deleted files, so that no DELETE is left."""
        deleted: set[FileIdentity] = {
            entry.identity
            for meta in metas
            if meta.num_deleted_files
            for entry in self._read(meta)
            if entry.kind is FileKind.DELETE
        }
        places = {(identity.partition, identity.bucket) for identity in deleted}
        scan = FileStoreScan(self.table)
        kept: list[ManifestFileMeta] = []

        def live() -> Iterator[ManifestEntry]:
            for meta in metas:
                must_change = meta.file_name in rewritten
                if not must_change and not scan.may_hold(meta, places):
                    kept.append(meta)
                    continue
                added = [entry for entry in self._read(meta) if entry.kind is FileKind.ADD]
                left = [entry for entry in added if entry.identity not in deleted]
                if must_change or len(left) < len(added):
                    yield from left
                else:
                    kept.append(meta)

        merged = self.table.manifests.write_manifests(live())
        return kept + merged

    def _read(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        return self.table.manifests.read_manifest(meta.file_name, meta.file_size)
