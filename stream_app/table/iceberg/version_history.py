"""Computes the history of a version for `publisher`: which tags, schemas and files it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stream_app.fileio.file_io import FileStatus
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.iceberg_metadata import IcebergManifest, IcebergMetadata, IcebergSnapshot
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.iceberg_options import (
    METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED,
    METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX,
)
from stream_app.model.schema.iceberg_schema import iceberg_schema
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.iceberg.retained_history import kept_snapshots
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.published_catalog import PublishedCatalog


@dataclass(slots=True)
class TaggedSnapshotReader:
    """A reader of the snapshots that a table's tags keep; it reads each tag once."""

    table: FileStoreTable
    _snapshot_ids: dict[tuple[str, FileStatus], int] = field(init=False, default_factory=dict)

    def read(self) -> dict[str, int]:
        """Return each tag with the id of its snapshot."""
        earlier_ids, self._snapshot_ids = self._snapshot_ids, {}
        for key in self.table.tags.statuses().items():
            snapshot_id = earlier_ids.get(key)
            if snapshot_id is None and (tag := self.table.tags.tag(key[0])) is not None:
                snapshot_id = tag.snapshot.snapshot_id
            if snapshot_id is not None:
                self._snapshot_ids[key] = snapshot_id
        return {name: snapshot_id for (name, _), snapshot_id in self._snapshot_ids.items()}

    def retained_snapshots(
        self, snapshots: Sequence[IcebergSnapshot]
    ) -> tuple[tuple[IcebergSnapshot, ...], dict[str, int]]:
        """Return the snapshots that Paimon still keeps, always with the last, and their tags."""
        tags = self.read()
        latest_snapshot = snapshots[-1]
        earliest_id = self.table.snapshots.earliest_id() or latest_snapshot.snapshot_id
        retained_snapshots = (
            *kept_snapshots(snapshots[:-1], earliest_id, tags.values()),
            latest_snapshot,
        )
        snapshot_ids = {snapshot.snapshot_id for snapshot in retained_snapshots}
        kept_tags = {
            name: snapshot_id for name, snapshot_id in tags.items() if snapshot_id in snapshot_ids
        }
        return retained_snapshots, kept_tags


def older_files(
    iceberg_files: IcebergFiles,
    base_metadata: IcebergMetadata | None,
    options: CoreOptions,
    catalog: PublishedCatalog,
) -> tuple[tuple[str, int], ...]:
    """Return the older metadata files that stay beside the next version's, oldest first."""
    if base_metadata is None:
        return ()
    newest_file = (
        iceberg_files.version_path(base_metadata.version),
        base_metadata.current_snapshot.time_ms,
    )
    older_versions = (*base_metadata.older_files, newest_file)
    if not options[METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED]:
        return older_versions
    surplus_count = max(0, len(older_versions) - options[METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX])
    return older_versions[
        min(surplus_count, catalog.first_needed_index([path for path, _ in older_versions])) :
    ]


def delete_unnamed_files(
    iceberg_files: IcebergFiles, base_metadata: IcebergMetadata | None, metadata: IcebergMetadata
) -> bool:
    """Delete files that only the previous version named; return whether snapshots were dropped."""
    if base_metadata is None:
        return False
    named_paths = {path for path, _ in metadata.older_files}
    older_paths = [path for path, _ in base_metadata.older_files] + [
        iceberg_files.version_path(base_metadata.version)
    ]
    iceberg_files.delete(path for path in older_paths if path not in named_paths)
    lists = {snapshot.manifest_list for snapshot in metadata.snapshots}
    dropped_lists = [
        snapshot.manifest_list
        for snapshot in base_metadata.snapshots
        if snapshot.manifest_list not in lists
    ]
    if not dropped_lists:
        return False
    used_paths = {manifest.path for path in lists for manifest in manifests_of(iceberg_files, path)}
    for path in dropped_lists:
        manifests = manifests_of(iceberg_files, path)
        iceberg_files.delete(
            manifest.path for manifest in manifests if manifest.path not in used_paths
        )
        iceberg_files.delete([path])
    return True


def manifests_of(iceberg_files: IcebergFiles, path: str) -> list[IcebergManifest]:
    """Return the manifests of a list; empty if an interrupted deletion removed the list."""
    try:
        return iceberg_files.read_list(path)
    except FileNotFoundError:
        return []


def schema_json(schema: TableSchema) -> dict[str, Any]:
    """Convert a schema to Iceberg's JSON."""
    return iceberg_schema(schema.schema_id, schema.fields, schema.primary_keys)


def schemas_at(
    table: FileStoreTable,
    base_metadata: IcebergMetadata | None,
    snapshots: Sequence[IcebergSnapshot],
) -> Mapping[int, Mapping[str, Any]]:
    """Return the snapshots' schemas; those of the previous version stay unchanged."""
    published_schemas = base_metadata.schemas if base_metadata else {}
    schema_of = table.known_schemas()
    return {
        schema_id: published_schemas[schema_id]
        if schema_id in published_schemas
        else schema_json(schema_of(schema_id))
        for schema_id in sorted({snapshot.schema_id for snapshot in snapshots})
    }
