"""Merges the manifests of one table in groups, so its base list stays short.

Every commit adds a small manifest. Merging a group does not remove a deleted file whose ADD and
DELETE are in different large manifests. A full merge, for which `full_merge_names` chooses the
manifests, removes all deleted files.

Source: Paimon `operation/ManifestFileLegacyMerger.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import (
    FileIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from stream_app.model.options.file_options import (
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_FILE_SIZE,
)
from stream_app.planning.commit.live_entries import compacted_entries
from stream_app.planning.commit.merged_manifests import full_merge_names, manifest_groups
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True)
class ManifestMerger:
    """The merges of one table's manifests."""

    table: FileStoreTable

    def merge(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Merge manifests into fewer ones, and write those that are not in `metas`."""
        options = self.table.options
        target_size = options[MANIFEST_TARGET_FILE_SIZE]
        rewritten_names = full_merge_names(
            metas,
            target_size=target_size,
            threshold=options[MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE],
        )
        if rewritten_names:
            return self._merge_in_full(metas, rewritten_names)
        merged_metas: list[ManifestFileMeta] = []
        for group in manifest_groups(
            metas, target_size=target_size, count_min=options[MANIFEST_MERGE_MIN_COUNT]
        ):
            if len(group) == 1:
                merged_metas.append(group[0])
                continue
            entries = [entry for meta in group for entry in self._read(meta)]
            merged_metas += self.table.manifests.write_manifests(compacted_entries(entries))
        return merged_metas

    def _merge_in_full(
        self, metas: Sequence[ManifestFileMeta], rewritten_names: frozenset[str]
    ) -> list[ManifestFileMeta]:
        """Drop the entries of all deleted files, so that no DELETE entry remains."""
        deleted_files: set[FileIdentity] = {
            entry.identity
            for meta in metas
            if meta.num_deleted_files
            for entry in self._read(meta)
            if entry.kind is FileKind.DELETE
        }
        buckets = {BucketId(identity.partition, identity.bucket) for identity in deleted_files}
        scan = FileStoreScan(self.table)
        unchanged_metas: list[ManifestFileMeta] = []

        def remaining_entries() -> Iterator[ManifestEntry]:
            for meta in metas:
                must_change = meta.file_name in rewritten_names
                if not must_change and not scan.may_hold(meta, buckets):
                    unchanged_metas.append(meta)
                    continue
                added_entries = [entry for entry in self._read(meta) if entry.kind is FileKind.ADD]
                kept_entries = [
                    entry for entry in added_entries if entry.identity not in deleted_files
                ]
                if must_change or len(kept_entries) < len(added_entries):
                    yield from kept_entries
                else:
                    unchanged_metas.append(meta)

        merged_metas = self.table.manifests.write_manifests(remaining_entries())
        return unchanged_metas + merged_metas

    def _read(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        return self.table.manifests.read_manifest(meta.file_name, meta.file_size)
