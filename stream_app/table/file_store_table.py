"""Represents a Paimon table, with its options, files and versions.

All code that works on a table takes a `FileStoreTable`, which is small and can be pickled. It has a
property for each kind of the table's files.

Source: Paimon `table/FileStoreTable.java`, `catalog/FileSystemCatalog.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from stream_app.catalog.catalog_environment import NO_CATALOG, CatalogEnvironment
from stream_app.catalog.identifier import name_in_path
from stream_app.clock import Clock
from stream_app.errors import SchemaMismatchError
from stream_app.fileio.counted_file_io import CountedFileIO, RequestCounter, counting_file_io
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.data_file_reader import READ_BATCH_ROWS_MAX, DataFileReader
from stream_app.filestore.data.part_filter import PartFilter
from stream_app.filestore.manifests.deletion_vector_files import DeletionVectorFiles
from stream_app.filestore.manifests.hash_index_files import HashIndexFiles
from stream_app.filestore.manifests.manifest_files import ManifestFiles
from stream_app.filestore.path_factory import FileStorePathFactory
from stream_app.filestore.versions.announcement_files import (
    Announcements,
    ExpiryAnnouncement,
    RollbackAnnouncement,
)
from stream_app.filestore.versions.branch_folders import branch_root
from stream_app.filestore.versions.changelog_manager import ChangelogManager
from stream_app.filestore.versions.consumer_manager import ConsumerManager
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.filestore.versions.tag_manager import TagManager
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import key_order
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.merge_engine_registry import merge_function_of
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import DELETION_VECTOR_INDEX_FILE_TARGET_SIZE
from stream_app.model.options.merge_options import SEQUENCE_FIELD_SORT_ORDER
from stream_app.model.options.tag_options import TAG_CREATE_SUCCESS_FILE
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_only_options import option_differences, with_configured
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from stream_app.model.traits.kind_traits import KindTraits
from stream_app.planning.commit.snapshot_ordering import prefix_of_own_numbers
from stream_app.planning.compact.waiting_rows import Visibility, visibility_of
from stream_app.planning.schema.option_changes import difference_fix

SYSTEM_COLUMNS = frozenset((SEQUENCE_NUMBER, VALUE_KIND))
_SYSTEM_FIELDS = (
    pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
    pa.field(VALUE_KIND, pa.int8(), nullable=False),
)


@dataclass(frozen=True)
class FileStoreTable:
    """A table at a path, with one of its schemas.

    Attributes:
        location: the absolute path of the table's folder.
        schema: the schema. Its options may exceed those of the schema file, for this process only.
        branch: the name of the branch to read and write; empty: the main branch.
        is_emptied: whether new rows follow a TRUNCATE or replace all others, so that the table has
            no older rows.
        configured_options: the options of `with_options`.
        catalog_environment: the catalog by which the table was opened.
    """

    location: str
    schema: TableSchema
    file_io: FileIO
    clock: Clock
    branch: str = ""
    is_emptied: bool = False
    configured_options: Mapping[str, str] = field(default_factory=dict)
    catalog_environment: CatalogEnvironment = NO_CATALOG

    @property
    def label(self) -> str:
        """The name ``database.table`` in the catalog, or, without one, from the folders."""
        return str(self.catalog_environment.identifier or table_label(self.location))

    @property
    def name(self) -> str:
        """The table's name without its database."""
        identifier = self.catalog_environment.identifier
        return identifier.table if identifier else name_in_path(self.location)

    def with_counter(self, request_counter: RequestCounter) -> FileStoreTable:
        """Return the table with a counter of its requests to the store, also in tasks."""
        return replace(self, file_io=counting_file_io(self.file_io, request_counter))

    def store_requests(self) -> Mapping[str, int]:
        """Return the counted requests to the store by kind; empty if they are not counted."""
        file_io = self.file_io
        return file_io.request_counter.total() if isinstance(file_io, CountedFileIO) else {}

    def add_store_requests(self, requests: Mapping[str, int]) -> None:
        """Add the requests that a task has made."""
        if isinstance(self.file_io, CountedFileIO):
            self.file_io.request_counter.add(requests)

    @property
    def options(self) -> CoreOptions:
        """The table's options."""
        return self.schema.core_options

    @property
    def version_root(self) -> str:
        """The folder of schemas, snapshots, tags, changelogs and consumers."""
        return branch_root(self.location, self.branch) if self.branch else self.location

    @cached_property
    def paths(self) -> FileStorePathFactory:
        """The paths of the table's files."""
        return FileStorePathFactory.of_schema(self.location, self.schema)

    @property
    def schemas(self) -> SchemaManager:
        """The schema files."""
        return SchemaManager(self.file_io, self.version_root)

    @property
    def snapshots(self) -> SnapshotManager:
        """The snapshot files. A catalog tracks the latest snapshot of the main branch only."""
        loader = None if self.branch else self.catalog_environment.snapshot_loader
        return SnapshotManager(self.file_io, self.version_root, loader)

    @property
    def changelogs(self) -> ChangelogManager:
        """The long-lived changelogs."""
        return ChangelogManager(self.file_io, self.version_root)

    @property
    def tags(self) -> TagManager:
        """The tag files."""
        has_success_files = self.options[TAG_CREATE_SUCCESS_FILE]
        return TagManager(self.file_io, self.version_root, has_success_files)

    @property
    def expiry_announcements(self) -> Announcements[ExpiryAnnouncement]:
        """Announcements that an expiry makes before it deletes."""
        return Announcements(self.file_io, self.version_root, ExpiryAnnouncement)

    @property
    def rollback_announcements(self) -> Announcements[RollbackAnnouncement]:
        """Announcements that a rollback makes before it deletes."""
        return Announcements(self.file_io, self.version_root, RollbackAnnouncement)

    @property
    def consumers(self) -> ConsumerManager:
        """The consumer files."""
        return ConsumerManager(self.file_io, self.version_root)

    @cached_property
    def manifests(self) -> ManifestFiles:
        """Manifests, manifest lists and index manifests."""
        return ManifestFiles(self.file_io, self.paths, self.options)

    @property
    def deletion_vector_files(self) -> DeletionVectorFiles:
        """The files of deletion vectors."""
        return DeletionVectorFiles(
            self.file_io,
            self.paths,
            target_size=self.options[DELETION_VECTOR_INDEX_FILE_TARGET_SIZE],
        )

    @property
    def hash_index_files(self) -> HashIndexFiles:
        """The files with the hashes of keys."""
        return HashIndexFiles(self.file_io, self.paths)

    @property
    def kind_traits(self) -> KindTraits:
        """The traits of the table's kind."""
        return self.schema.kind_traits

    @property
    def merges_by_vectors(self) -> bool:
        """Whether deletion vectors mark the rows that newer rows of the same key replace.

        Rows of level 0 have not marked older rows yet.
        """
        return self.options.merges_by_vectors and self.kind_traits.merges_by_key

    @property
    def visibility(self) -> Visibility:
        """The step at which a row becomes visible to readers and to followers of the changelog."""
        return visibility_of(self.options, merges_by_key=self.kind_traits.merges_by_key)

    @property
    def skips_level0(self) -> bool:
        """Whether readers skip files that are not compacted yet."""
        return self.kind_traits.merges_by_key and self.options.hides_level0

    @property
    def merge_function(self) -> MergeFunction:
        """The function by which rows of one key merge into one (``merge-engine``)."""
        return merge_function_of(self.schema)

    def identity(self) -> str:
        """Return a text that identifies the table, even against a later table at the same path."""
        return f"{self.schemas.fingerprint()}{self.branch and ':'}{self.branch}"

    @cached_property
    def key_of(self) -> Callable[[bytes], tuple[Any, ...]]:
        """A function that maps a serialized key to a value with the order of keys."""
        return key_order(self.schema.key_type.types)

    def layout(
        self, columns: RowType | None = None, *, system_columns: Container[str] = SYSTEM_COLUMNS
    ) -> KeyValueLayout:
        """Return the layout of key-value batches.

        Args:
            columns: columns that include the key, after the `system_columns`; None: all.
        """
        schema = self.schema
        system_fields = [field for field in _SYSTEM_FIELDS if field.name in system_columns]
        return KeyValueLayout(
            schema=pa.schema(
                [*system_fields, *arrow_schema(schema.fields if columns is None else columns)]
            ),
            key_names=schema.trimmed_primary_keys,
            sequence_fields=schema.sequence_fields,
            is_sequence_descending=self.options[SEQUENCE_FIELD_SORT_ORDER] == "descending",
            constant_names=frozenset(schema.partition_keys),
        )

    def bucket_files(
        self,
        partition: bytes,
        bucket: int,
        *,
        columns: RowType | None = None,
        system_columns: Container[str] = SYSTEM_COLUMNS,
        batch_rows_max: int = READ_BATCH_ROWS_MAX,
        part_filter: PartFilter | None = None,
    ) -> BucketFiles:
        """Return the access to a bucket's files, which makes readers and writers.

        Args:
            columns: the columns to read; None: all.
            system_columns: columns in front of the key; unused in tables that do not merge by key.
            part_filter: chooses the parts of files to read; None: all.
        """
        read_columns = self.schema.fields if columns is None else columns
        system_columns = system_columns if self.kind_traits.merges_by_key else ()
        return BucketFiles(
            file_io=self.file_io,
            schema=self.schema,
            folder=self.paths.bucket_folder(partition, bucket),
            reader=DataFileReader(
                self.file_io,
                read_columns,
                self.layout(columns, system_columns=system_columns).schema,
                self.known_schemas(),
                batch_rows_max,
                part_filter,
                prefix_of_own_numbers(self.options),
            ),
            clock=self.clock,
        )

    def discard(self, changes: Iterable[BucketChange]) -> None:
        """Delete the files of changes that no snapshot names or will name."""
        for change in changes:
            for file in change.written_files:
                for path in self.paths.files_of(*change.bucket_id, file):
                    self.file_io.delete(path)
            for entry in change.written_index_entries:
                self.file_io.delete(self.paths.index_file(*change.bucket_id, entry.index_file))

    def known_schemas(self) -> Callable[[int], TableSchema]:
        """Return a function from a schema's id to the schema, which reads each file once."""
        schemas = {self.schema.schema_id: self.schema}
        return lambda schema_id: (
            schemas.get(schema_id) or schemas.setdefault(schema_id, self.schemas.schema(schema_id))
        )

    def with_options(self, options: Mapping[str, str]) -> FileStoreTable:
        """Return the table with options for this process only; the schema file does not change.

        Raises:
            SchemaMismatchError: an option that only the table may set has another value there.
        """
        table_options = self.schema.options
        if differences := option_differences(self.schema, options):
            raise SchemaMismatchError(
                "; ".join(map(str, differences)),
                where=self.location,
                fix=difference_fix(self.location, table_options, differences),
            )
        schema = replace(self.schema, options=with_configured(table_options, options))
        return replace(
            self, schema=schema, configured_options={**self.configured_options, **options}
        )


def table_label(location: str) -> str:
    """Return ``db.t`` for a table at ``…/db.db/t``."""
    *_, database, name = ["", *location.rstrip("/").split("/")]
    return f"{database.removesuffix('.db')}.{name}"


def with_file_io(table: FileStoreTable, file_io: FileIO) -> FileStoreTable:
    """Return the table on another file system; a counting one gets a counter for the table."""
    if isinstance(file_io, CountedFileIO):
        file_io = counting_file_io(file_io.file_io, RequestCounter())
    return replace(table, file_io=file_io)
