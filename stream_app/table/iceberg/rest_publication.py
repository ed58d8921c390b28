"""Updates the table of an Iceberg REST catalog to the version that `publisher` wrote.

A REST catalog owns the pointer to its table's metadata. So a table is sent once, by
`register_table`, and later only its changes: new schemas, new and expired snapshots, and tags. For
each change the catalog writes a metadata file, which names stream_app's manifest lists.
`rest_client` connects to the catalog.

The changes are the difference between the catalog's state and the published version. So one round
repairs the effects of a crash, another writer or a rollback.

Source: Paimon `iceberg/IcebergRestMetadataCommitter.java`; Iceberg's REST specification.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property

import orjson
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from stream_app.errors import StreamAppError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.format.iceberg.metadata_json import encode_metadata
from stream_app.model.iceberg_metadata import IcebergMetadata, IcebergSnapshot
from stream_app.model.options.iceberg_options import METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.catalog_numbers import CatalogAheadError, NextNumbers
from stream_app.table.iceberg.metadata_pointer import another_table_error, name_in_catalog
from stream_app.table.iceberg.published_catalog import CatalogState
from stream_app.table.iceberg.rest_client import open_rest_catalog, rest_errors, rest_settings

_LOG = logging.getLogger(__name__)
_MAIN = "main"
_ATTEMPTS_MAX = 3
"""The number of tries to update the table; each starts from the changes of another writer."""
_PREVIOUS_MAX = "write.metadata.previous-versions-max"
_DELETE_OLDER = {"write.metadata.delete-after-commit.enabled": "true"}
"""The option by which the server deletes old metadata files; it writes one at each commit."""


@dataclass(frozen=True)
class RestCatalogTable:
    """One table in an Iceberg REST catalog.

    Attributes:
        folder: the folder of the table's Iceberg metadata.
    """

    table: FileStoreTable
    folder: str
    _reported_tags: set[str] = field(init=False, default_factory=set)

    @property
    def identifier(self) -> tuple[str, str]:
        """The table's database and name in the catalog."""
        return name_in_catalog(self.table)

    @cached_property
    def _settings(self) -> Mapping[str, str]:
        """The settings of PyIceberg's client; it raises the errors of `rest_settings`."""
        return rest_settings(self.table.schema.options, self.table.location)

    @cached_property
    def _catalog(self) -> Catalog:
        return open_rest_catalog(self._settings)

    def state(self) -> CatalogState | None:
        """See `CatalogClient.state`.

        Raises:
            StreamAppError: the catalog has another table of this name, refuses it or does not
                answer.
        """
        try:
            with self._errors():
                table = self._catalog.load_table(self.identifier)
        except NoSuchTableError:
            return None
        if table.metadata.location != self.table.location:
            raise another_table_error(".".join(self.identifier))
        older_paths = tuple(entry.metadata_file for entry in reversed(table.metadata.metadata_log))
        snapshot_id = table.metadata.current_snapshot_id
        return CatalogState((table.metadata_location, *older_paths), snapshot_id)

    def bring_up_to(self, metadata: IcebergMetadata) -> None:
        """Update the catalog's table to the published version.

        Raises:
            CatalogAheadError: another program has written to the catalog's table, or metadata was
                lost.
            StreamAppError: the catalog refuses the update, has another table of this name, or does
                not answer. Or other writers win every race.
            OSError: the first metadata file cannot be written.
        """
        with self._errors():
            self._update_table(metadata)

    def _errors(self) -> AbstractContextManager[None]:
        return rest_errors(".".join(self.identifier), self._settings)

    def _update_table(self, metadata: IcebergMetadata) -> None:
        """Commit a version to the catalog, and try again when another writer was faster."""
        for _ in range(_ATTEMPTS_MAX):
            try:
                self._commit(self._catalog.load_table(self.identifier), metadata)
                return
            except CommitFailedException:
                continue  # another writer of the table was faster
            except NoSuchTableError:
                try:
                    self._register(metadata)
                    return
                except TableAlreadyExistsError:
                    continue
        raise StreamAppError(
            f"other writers have changed the catalog's table {_ATTEMPTS_MAX} times meanwhile",
            where=".".join(self.identifier),
            fix="do nothing; if this lasts, keep other programs from writing",
        )

    def _register(self, metadata: IcebergMetadata) -> None:
        """Register the table in the catalog with a metadata file that no later version deletes."""
        self._catalog.create_namespace_if_not_exists(self.identifier[:1])
        registered_metadata = replace(
            metadata, properties=self._properties(metadata), older_files=()
        )
        path = f"{self.folder}/00000-{uuid.uuid4()}.metadata.json"
        self.table.file_io.write_bytes(path, encode_metadata(registered_metadata))
        self._catalog.register_table(self.identifier, path)

    def _properties(self, metadata: IcebergMetadata) -> dict[str, str]:
        versions_max = max(1, self.table.options[METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX])
        return {**metadata.properties, **_DELETE_OLDER, _PREVIOUS_MAX: str(versions_max)}

    def _commit(self, published_table: Table, metadata: IcebergMetadata) -> None:
        """Send the updates from the catalog's state to a version, if any, in one request."""
        if str(published_table.metadata.table_uuid) != metadata.table_uuid:
            raise another_table_error(".".join(self.identifier))
        if next_numbers := _next_numbers_if_behind(
            published_table.metadata, metadata.current_snapshot
        ):
            raise CatalogAheadError(next_numbers, where=".".join(self.identifier))
        tags = self._tags_to_publish(published_table.metadata, metadata)
        updates = tuple(
            _updates(
                published_table.metadata, replace(metadata, tags=tags), self._properties(metadata)
            )
        )
        if updates:
            current_id = published_table.metadata.current_snapshot_id
            requirements = (
                AssertTableUUID(uuid=published_table.metadata.table_uuid),
                AssertRefSnapshotId(ref=_MAIN, snapshot_id=current_id),
            )
            self._catalog.commit_table(published_table, requirements, updates)

    def _tags_to_publish(
        self, published_metadata: TableMetadata, metadata: IcebergMetadata
    ) -> dict[str, int]:
        """Return the tags whose snapshots the catalog has or receives; log the others once."""
        common_ids = _common_snapshots(published_metadata, metadata)
        sent_ids = {
            snapshot.snapshot_id
            for snapshot in metadata.snapshots
            if _must_be_sent(snapshot, published_metadata, metadata)
        }
        tags = {
            name: snapshot_id
            for name, snapshot_id in metadata.tags.items()
            if snapshot_id in common_ids | sent_ids
        }
        for name in sorted(metadata.tags.keys() - tags.keys() - self._reported_tags):
            _LOG.warning(
                "the Iceberg catalog's %s has no tag %r: it has lost snapshot %d, and takes no "
                "older snapshots; to get both, drop the table there (not its files)",
                *(".".join(self.identifier), name, metadata.tags[name]),
            )
            self._reported_tags.add(name)
        return tags


def open_catalog_table(table: FileStoreTable, iceberg_files: IcebergFiles) -> RestCatalogTable:
    """Open the table in a REST catalog, with its metadata in a folder."""
    return RestCatalogTable(table, iceberg_files.folder)


def _common_snapshots(published_metadata: TableMetadata, metadata: IcebergMetadata) -> set[int]:
    """Return the ids of snapshots that both sides have.

    The manifest lists decide, because a rollback may have reused an id.
    """
    lists = {snapshot.snapshot_id: snapshot.manifest_list for snapshot in metadata.snapshots}
    return {
        snapshot.snapshot_id
        for snapshot in published_metadata.snapshots
        if snapshot.manifest_list == lists.get(snapshot.snapshot_id)
    }


def _must_be_sent(
    snapshot: IcebergSnapshot, published_metadata: TableMetadata, metadata: IcebergMetadata
) -> bool:
    """Return whether to send a snapshot that the catalog lacks.

    A catalog accepts only sequence numbers above its last one. The latest snapshot is sent in any
    case, so that the server reports a problem with it.
    """
    is_latest = snapshot.snapshot_id == metadata.current_snapshot.snapshot_id
    return is_latest or snapshot.sequence_number > published_metadata.last_sequence_number


def _next_numbers_if_behind(
    published_metadata: TableMetadata, current_snapshot: IcebergSnapshot
) -> NextNumbers | None:
    """Return the lowest numbers that the catalog accepts; None if it accepts the snapshot."""
    if any(
        snapshot.manifest_list == current_snapshot.manifest_list
        for snapshot in published_metadata.snapshots
    ):
        return None
    next_numbers = NextNumbers(
        published_metadata.last_sequence_number + 1,
        getattr(published_metadata, "next_row_id", None) or 0,
    )
    first_row_id = (
        next_numbers.row_id
        if current_snapshot.first_row_id is None
        else current_snapshot.first_row_id
    )
    is_accepted = (
        current_snapshot.sequence_number >= next_numbers.sequence_number
        and first_row_id >= next_numbers.row_id
    )
    return None if is_accepted else next_numbers


def _updates(
    published_metadata: TableMetadata, metadata: IcebergMetadata, properties: Mapping[str, str]
) -> Iterator[TableUpdate]:
    """Yield the updates from the catalog's state to a version."""
    common_ids = _common_snapshots(published_metadata, metadata)
    version_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    removed_ids = [
        snapshot.snapshot_id
        for snapshot in published_metadata.snapshots
        if snapshot.snapshot_id not in common_ids
    ]
    # Removals come first: after a rollback another snapshot may have the removed number.
    replaced_ids = [snapshot_id for snapshot_id in removed_ids if snapshot_id in version_ids]
    if replaced_ids:
        yield RemoveSnapshotsUpdate(snapshot_ids=replaced_ids)
    schemas = _schemas_in_catalog(published_metadata, metadata)
    yield from _schema_updates(published_metadata, metadata, schemas)
    yield from _snapshot_updates(published_metadata, metadata, schemas, common_ids)
    yield from _ref_updates(published_metadata, metadata, replaced_ids)
    if expired_ids := [
        snapshot_id for snapshot_id in removed_ids if snapshot_id not in version_ids
    ]:
        yield RemoveSnapshotsUpdate(snapshot_ids=expired_ids)
    if dropped_keys := sorted(
        published_metadata.properties.keys() & {"comment"} - properties.keys()
    ):
        yield RemovePropertiesUpdate(removals=dropped_keys)
    if changed_properties := dict(properties.items() - published_metadata.properties.items()):
        yield SetPropertiesUpdate(updates=changed_properties)


def _schemas_in_catalog(
    published_metadata: TableMetadata, metadata: IcebergMetadata
) -> dict[int, tuple[Schema, int]]:
    """Return each schema with its number in the catalog, which counts distinct Iceberg schemas."""
    numbered_schemas = [(schema, schema.schema_id) for schema in published_metadata.schemas]
    schemas: dict[int, tuple[Schema, int]] = {}
    for schema_id, document in sorted(metadata.schemas.items()):
        schema = Schema.model_validate(document)
        catalog_schema_id = next(
            (catalog_schema_id for other, catalog_schema_id in numbered_schemas if other == schema),
            None,
        )
        if catalog_schema_id is None:
            catalog_schema_id = (
                max(catalog_schema_id for _, catalog_schema_id in numbered_schemas) + 1
            )
            numbered_schemas.append((schema, catalog_schema_id))
        schemas[schema_id] = (schema, catalog_schema_id)
    return schemas


def _schema_updates(
    published_metadata: TableMetadata,
    metadata: IcebergMetadata,
    schemas: Mapping[int, tuple[Schema, int]],
) -> Iterator[TableUpdate]:
    """Yield updates that add new schemas and make the latest snapshot's schema current."""
    known_ids = {schema.schema_id for schema in published_metadata.schemas}
    for schema, catalog_schema_id in schemas.values():
        if catalog_schema_id not in known_ids:
            known_ids.add(catalog_schema_id)
            yield AddSchemaUpdate(schema=schema.model_copy(update={"schema_id": catalog_schema_id}))
    _, current_schema_id = schemas[metadata.current_snapshot.schema_id]
    if current_schema_id != published_metadata.current_schema_id:
        yield SetCurrentSchemaUpdate(schema_id=current_schema_id)


def _snapshot_updates(
    published_metadata: TableMetadata,
    metadata: IcebergMetadata,
    schemas: Mapping[int, tuple[Schema, int]],
    common_ids: set[int],
) -> Iterator[TableUpdate]:
    """Yield updates that add the snapshots that the catalog lacks."""
    documents = {
        document["snapshot-id"]: document
        for document in orjson.loads(encode_metadata(metadata))["snapshots"]
    }
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id in common_ids or not _must_be_sent(
            snapshot, published_metadata, metadata
        ):
            continue
        document = documents[snapshot.snapshot_id]
        in_catalog = {
            "schema-id": schemas[document["schema-id"]][1],
            # A catalog's times must ascend, but a rollback publishes an old snapshot.
            "timestamp-ms": max(document["timestamp-ms"], published_metadata.last_updated_ms),
        }
        yield AddSnapshotUpdate(snapshot=Snapshot.model_validate({**document, **in_catalog}))


def _ref_updates(
    published_metadata: TableMetadata, metadata: IcebergMetadata, replaced_ids: Collection[int]
) -> Iterator[TableUpdate]:
    """Yield updates of the main branch and of tags; tags of replaced snapshots are already gone."""
    current_id = metadata.current_snapshot.snapshot_id
    if published_metadata.current_snapshot_id != current_id or replaced_ids:
        yield SetSnapshotRefUpdate(
            ref_name=_MAIN, type=SnapshotRefType.BRANCH, snapshot_id=current_id
        )
    tags = {
        name: ref.snapshot_id
        for name, ref in published_metadata.refs.items()
        if name != _MAIN and ref.snapshot_id not in replaced_ids
    }
    for name in tags.keys() - metadata.tags.keys():
        yield RemoveSnapshotRefUpdate(ref_name=name)
    for name, snapshot_id in metadata.tags.items():
        if name != _MAIN and tags.get(name) != snapshot_id:
            yield SetSnapshotRefUpdate(
                ref_name=name, type=SnapshotRefType.TAG, snapshot_id=snapshot_id
            )
