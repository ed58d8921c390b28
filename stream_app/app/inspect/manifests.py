"""The manifests that make up a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.manifest_entry import ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRow:
    """One manifest.

    Attributes:
        part: the snapshot's list that names it: base, delta or changelog.
        added, deleted: entries.
        buckets, levels: least and largest, when its writer said so.
    """

    part: str
    manifest: str
    bytes: int
    added: int
    deleted: int
    schema: int
    buckets: str | None
    levels: str | None


def manifest_rows(table: FileStoreTable, snapshot: Snapshot | None) -> list[ManifestRow]:
    """Base, delta and changelog manifests, each in the order of its list."""
    if snapshot is None:
        return []
    lists = {
        "base": snapshot.base_manifest_list,
        "delta": snapshot.delta_manifest_list,
        "changelog": snapshot.changelog_manifest_list,
    }
    return [
        _row(part, meta)
        for part, name in lists.items()
        if name is not None
        for meta in table.manifests.read_list(name)
    ]


def _row(part: str, meta: ManifestFileMeta) -> ManifestRow:
    return ManifestRow(
        part=part,
        manifest=meta.file_name,
        bytes=meta.file_size,
        added=meta.num_added_files,
        deleted=meta.num_deleted_files,
        schema=meta.schema_id,
        buckets=_span(meta.min_bucket, meta.max_bucket),
        levels=_span(meta.min_level, meta.max_level),
    )


def _span(low: int | None, high: int | None) -> str | None:
    if low is None or high is None:
        return None
    return str(low) if low == high else f"{low}-{high}"
