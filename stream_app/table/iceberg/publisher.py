"""Publishes a Paimon snapshot in the table's Iceberg metadata.

A version of Iceberg names the same data files as the snapshot, and copies of its deletion vectors
(`puffin_files`). The publisher derives it from the previous version and all changes since,
including those of other writers. If the changes do not lead to the snapshot, it takes the
snapshot's live files. So the next commit repairs a crash between the two commits.

Order on disk: manifests, their list, ``vN.metadata.json`` by create-if-absent, the hint. Then files
that no kept version needs are deleted. Errors never reach the table's own commit.

Source: Paimon `iceberg/IcebergCommitCallback.java`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from stream_app.errors import StreamAppError, UnsupportedTableError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.format.iceberg.manifests import ManifestKind
from stream_app.format.iceberg.metadata_json import partition_fields_json
from stream_app.model.iceberg_metadata import (
    IcebergManifest,
    IcebergMetadata,
    IcebergSnapshot,
    ManifestContent,
)
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import MANIFEST_TARGET_FILE_SIZE
from stream_app.model.options.iceberg_options import (
    DISABLED,
    METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM,
    METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM,
    METADATA_ICEBERG_FORMAT_VERSION,
    METADATA_ICEBERG_STORAGE,
)
from stream_app.model.schema.iceberg_schema import iceberg_problems
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.iceberg.retained_history import next_version
from stream_app.planning.iceberg.rewritten_manifests import ManifestMergeLimits
from stream_app.planning.iceberg.visible_files import (
    publishes_vectors,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.catalog_numbers import ANY_NUMBERS, CatalogAheadError, NextNumbers
from stream_app.table.iceberg.manifest_writer import LiveKeyCache, ManifestWriter
from stream_app.table.iceberg.published_catalog import PublishedCatalog
from stream_app.table.iceberg.published_files import published_files
from stream_app.table.iceberg.puffin_files import VectorFiles
from stream_app.table.iceberg.version_history import (
    TaggedSnapshotReader,
    delete_unnamed_files,
    older_files,
    schema_json,
    schemas_at,
)
from stream_app.table.iceberg.version_updates import (
    VersionUpdate,
    VersionUpdatePlanner,
    snapshot_summary,
)

_LOG = logging.getLogger(__name__)
_VISIBLE_LEVEL = "paimon.visible-from-level"
_KEEPS_FILES = {"gc.enabled": "false"}
"""The property by which no engine of Iceberg deletes the files, because they are Paimon's."""
_ROW_LINEAGE_FORMAT = 3
_ATTEMPTS_MAX = 5
"""The number of tries to publish; each continues from the version of another writer."""


@dataclass
class IcebergPublisher:
    """A publisher of one table's snapshots. Not thread safe.

    Attributes:
        problem: the reason why the newest attempt failed; None after a success.
    """

    table: FileStoreTable
    problem: str | None = None
    _published_metadata: IcebergMetadata | None = field(init=False, default=None)

    @property
    def is_on(self) -> bool:
        """Whether the table is published at all."""
        return self.table.options[METADATA_ICEBERG_STORAGE] != DISABLED

    @cached_property
    def iceberg_files(self) -> IcebergFiles:
        """The access to the metadata files.

        Raises:
            UnsupportedTableError: the table's location has no folder for Iceberg's metadata.
        """
        return IcebergFiles.of_table(self.table.file_io, self.table.location, self.table.options)

    @cached_property
    def _catalog(self) -> PublishedCatalog:
        return PublishedCatalog(self.table, self.iceberg_files)

    @cached_property
    def _live_key_cache(self) -> LiveKeyCache:
        return LiveKeyCache(self.iceberg_files)

    @cached_property
    def _tag_reader(self) -> TaggedSnapshotReader:
        return TaggedSnapshotReader(self.table)

    @cached_property
    def _planner(self) -> VersionUpdatePlanner:
        return VersionUpdatePlanner(self.table, self.iceberg_files)

    @cached_property
    def _vector_files(self) -> VectorFiles:
        return VectorFiles(self.table, self.iceberg_files)

    @cached_property
    def _table_uuid(self) -> str:
        return str(uuid.UUID(self.table.identity()[:32], version=4))

    @property
    def _format_version(self) -> int:
        return self.table.options[METADATA_ICEBERG_FORMAT_VERSION]

    def publish(self, snapshot: Snapshot) -> None:
        """Bring the metadata up to a snapshot. Never raises: the next commit tries again."""
        self._publish_safely(lambda: self._publish(snapshot), f"snapshot {snapshot.snapshot_id}")

    def catch_up(self) -> None:
        """Bring the metadata up to the latest snapshot, to expiry and to tags. Never raises."""
        self._publish_safely(self._catch_up, "the latest snapshot")

    def _publish(self, snapshot: Snapshot) -> None:
        self.bring_up_to(snapshot)
        self._give_to_catalog(snapshot)

    def _catch_up(self) -> None:
        latest_snapshot = self.table.snapshots.latest()
        if latest_snapshot is not None:
            self.bring_up_to(latest_snapshot)
            self._refresh()
            self._give_to_catalog(latest_snapshot)

    def _give_to_catalog(self, snapshot: Snapshot) -> None:
        """Publish the version in the catalog; retries once if the catalog has greater numbers."""
        try:
            self._catalog.bring_up_to(self._published_metadata)
        except CatalogAheadError as ahead:
            update = self._planner.full_update(self._published_metadata, snapshot, is_of_table=True)
            self._publish_version(update, snapshot, ahead.next_numbers)
            self._catalog.bring_up_to(self._published_metadata)

    def _publish_safely(self, publish: Callable[[], None], subject: str) -> None:
        """Publish, unless the option is off. A failure is logged, and becomes the `problem`."""
        if not self.is_on:
            return
        try:
            publish()
        except Exception as error:
            is_expected = isinstance(error, (StreamAppError, OSError))
            _LOG.warning(
                "Iceberg's readers do not see %s of %s yet: %s",
                *(subject, self.table.location, error),
                exc_info=not is_expected,
            )
            self.problem, self._published_metadata = str(error), None
        else:
            self.problem = None

    def bring_up_to(self, snapshot: Snapshot) -> None:
        """Publish a snapshot, unless it or a later one is already published.

        Raises:
            StreamAppError, OSError: the snapshot could not be published.
        """
        for _ in range(_ATTEMPTS_MAX):
            if self._try_to_publish(snapshot):
                return
        raise StreamAppError(
            f"other writers have published Iceberg's versions {_ATTEMPTS_MAX} times meanwhile",
            where=self.iceberg_files.folder,
            fix="do nothing; if this lasts, keep other programs from writing",
        )

    def _try_to_publish(self, snapshot: Snapshot) -> bool:
        """Try `bring_up_to` once; False if another writer published the next version first."""
        base = self._latest_metadata()
        update = None
        if base and self._has_current_form(base) and self._planner.exists(base.current_snapshot):
            if base.current_snapshot.snapshot_id >= snapshot.snapshot_id:
                self._published_metadata = base
                return True
            update = self._planner.delta_update(base, snapshot)
        is_of_table = self._is_of_table(base)
        update = update or self._planner.full_update(base, snapshot, is_of_table=is_of_table)
        return self._publish_version(update, snapshot)

    def _refresh(self) -> None:
        """Publish the latest version again if its history has changed by expiry or tags."""
        base = self._published_metadata
        if base is None:  # another writer also publishes
            return
        snapshots, tags = self._tag_reader.retained_snapshots(base.snapshots)
        if (snapshots, tags) == (base.snapshots, base.tags):
            return
        older_paths = older_files(self.iceberg_files, base, self.table.options, self._catalog)
        newer_version = replace(base, version=base.version + 1, older_files=older_paths)
        renewed_metadata = replace(newer_version, snapshots=snapshots, tags=tags)
        if self.iceberg_files.publish(renewed_metadata):
            self._finish_publication(base, renewed_metadata)

    def _finish_publication(self, base: IcebergMetadata | None, metadata: IcebergMetadata) -> None:
        """Note that a version is published, and delete files that only the previous one needed."""
        self._published_metadata = metadata
        drops_snapshots = delete_unnamed_files(self.iceberg_files, base, metadata)
        if drops_snapshots and publishes_vectors(self.table.options):
            self._vector_files.delete_unused_copies()

    def _latest_metadata(self) -> IcebergMetadata | None:
        version = self.iceberg_files.latest_version()
        if self._published_metadata is not None and self._published_metadata.version == version:
            return self._published_metadata
        return None if version is None else self.iceberg_files.read_version(version)

    def _is_of_table(self, base_metadata: IcebergMetadata | None) -> bool:
        """Return whether a version describes this table, and not an earlier table at its path."""
        return base_metadata is not None and base_metadata.table_uuid == self._table_uuid

    def _has_current_form(self, base_metadata: IcebergMetadata) -> bool:
        """Return whether a version describes this table in the form that its options require."""
        return (
            self._is_of_table(base_metadata)
            and base_metadata.format_version == self._format_version
            and base_metadata.location == self.table.location
            and base_metadata.properties.get(_VISIBLE_LEVEL) == str(self._planner.levels.level_min)
        )

    def _publish_version(
        self, update: VersionUpdate, snapshot: Snapshot, next_numbers: NextNumbers = ANY_NUMBERS
    ) -> bool:
        """Write and publish a version; false if another writer published its number first."""
        base = update.base_metadata
        version = max(next_version(base, snapshot.snapshot_id), next_numbers.sequence_number)
        next_row_id = max(base.next_row_id if base else 0, next_numbers.row_id)
        first_row_id = next_row_id if self._format_version >= _ROW_LINEAGE_FORMAT else None
        schema = _checked_schema(self.table, snapshot.schema_id)
        writer = ManifestWriter(
            iceberg_files=self.iceberg_files,
            live_key_cache=self._live_key_cache,
            manifest_kind=_manifest_kind(schema, self._format_version),
            limits=_merge_limits(self.table.options),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=version,
            first_row_id=first_row_id,
        )
        added_files = published_files(self.table, update.changes, first_row_id)
        manifests = writer.write(
            ManifestContent.DATA, update.manifests, added_files, update.changes.removed_paths
        )
        manifests += self._vector_manifests(writer, update, snapshot)
        added_row_count = sum(file.row_count for file in added_files.values())
        traits = self.table.kind_traits
        iceberg_snapshot = IcebergSnapshot(
            snapshot_id=snapshot.snapshot_id,
            parent_id=update.snapshots[-1].snapshot_id if update.snapshots else None,
            sequence_number=version,
            time_ms=max([snapshot.time_ms, *(earlier.time_ms for earlier in update.snapshots)]),
            manifest_list=self.iceberg_files.write_list(manifests, snapshot.snapshot_id),
            schema_id=snapshot.schema_id,
            summary=snapshot_summary(
                update, snapshot, writer, manifests, merges_by_key=traits.merges_by_key
            ),
            first_row_id=first_row_id,
            added_row_count=None if first_row_id is None else added_row_count,
        )
        metadata = self._metadata(update, iceberg_snapshot, version, next_row_id + added_row_count)
        if not self.iceberg_files.publish(metadata):
            self.iceberg_files.delete([*writer.written_paths, iceberg_snapshot.manifest_list])
            self._published_metadata = None
            return False
        self._live_key_cache.forget_others(manifests)
        self._finish_publication(update.base_metadata, metadata)
        return True

    def _vector_manifests(
        self, writer: ManifestWriter, update: VersionUpdate, snapshot: Snapshot
    ) -> list[IcebergManifest]:
        """Write the manifests of the snapshot's deletion vectors."""
        if not publishes_vectors(self.table.options):
            return []
        vectors = self._vector_files.vectors_by_key(snapshot)
        published_keys = self._live_key_cache.keys_of(update.manifests, ManifestContent.DELETES)
        added_files = self._vector_files.write(
            {key: file for key, file in vectors.items() if key not in published_keys}
        )
        removed_keys = published_keys - vectors.keys()
        return writer.write(ManifestContent.DELETES, update.manifests, added_files, removed_keys)

    def _metadata(
        self, update: VersionUpdate, snapshot: IcebergSnapshot, version: int, next_row_id: int
    ) -> IcebergMetadata:
        """Return the metadata of a version that ends with `snapshot`."""
        base, schema = update.base_metadata, self.table.known_schemas()(snapshot.schema_id)
        snapshots, tags = self._tag_reader.retained_snapshots([*update.snapshots, snapshot])
        comment = {} if schema.comment is None else {"comment": schema.comment}
        visible_level = str(self._planner.levels.level_min)
        return IcebergMetadata(
            version=version,
            format_version=self._format_version,
            table_uuid=self._table_uuid,
            location=self.table.location,
            schemas=schemas_at(self.table, base if self._is_of_table(base) else None, snapshots),
            last_column_id=schema.highest_field_id,
            partition_fields=_partition_fields(schema),
            snapshots=snapshots,
            tags=tags,
            properties={_VISIBLE_LEVEL: visible_level, **_KEEPS_FILES, **comment},
            older_files=older_files(self.iceberg_files, base, self.table.options, self._catalog),
            next_row_id=next_row_id,
        )


def _manifest_kind(schema: TableSchema, format_version: int) -> ManifestKind:
    return ManifestKind(
        format_version=format_version,
        schema=schema_json(schema),
        partition_type=schema.partition_type,
        partition_fields=partition_fields_json(_partition_fields(schema)),
    )


def _checked_schema(table: FileStoreTable, schema_id: int) -> TableSchema:
    """Return a schema after the check that Iceberg can represent it.

    Raises:
        UnsupportedTableError: Iceberg cannot represent the schema.
    """
    schema = table.known_schemas()(schema_id)
    problems = list(iceberg_problems(schema.fields, schema.primary_keys, table.schema.options))
    if problems:
        raise UnsupportedTableError(
            "; ".join(problems), where=table.location, fix="correct columns or options"
        )
    return schema


def _partition_fields(schema: TableSchema) -> tuple[tuple[str, int], ...]:
    return tuple((field.name, field.field_id) for field in schema.partition_type)


def _merge_limits(options: CoreOptions) -> ManifestMergeLimits:
    return ManifestMergeLimits(
        target_size=options[MANIFEST_TARGET_FILE_SIZE],
        count_min=options[METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM],
        count_max=options[METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM],
    )
