"""Refuses files that this process cannot compact, before it adds more files to their bucket.

A job checks every file that it reads from a manifest, at its start and later. Otherwise the job
would keep writing until a compaction fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from stream_app.errors import UnsupportedTableError
from stream_app.format.casting.rules import can_be_read_as
from stream_app.format.data_files.data_file_registry import DATA_FILE_FORMATS, format_of_file
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True)
class CompactableFileCheck:
    """A check of one table's files, and of each schema once."""

    table: FileStoreTable
    _checked_schemas: set[int] = field(init=False, default_factory=set)

    def check(self, file: DataFileMeta) -> None:
        """Check that a live file can be read and rewritten.

        Raises:
            UnsupportedTableError: stream_app cannot read the file's format, or its columns differ
                from the opened table's.
        """
        if format_of_file(file.file_name) is None and not self._leaves_compaction:
            raise UnsupportedTableError(
                f"data file {file.file_name} has none of the formats "
                f"{', '.join(DATA_FILE_FORMATS)}, so it cannot be compacted",
                where=self.table.location,
                fix="with the engine that wrote it, set 'file.format' = 'parquet' and compact the "
                "table fully with 'compaction.force-rewrite-all-files' = 'true'",
            )
        if file.schema_id not in self._checked_schemas:
            self._check_schema(file.schema_id)
            self._checked_schemas.add(file.schema_id)

    @property
    def _leaves_compaction(self) -> bool:
        return self.table.options[WRITE_ONLY]

    def _check_schema(self, schema_id: int) -> None:
        """Check that a compaction can rewrite files of a schema without a loss."""
        schema = self.table.schema
        if schema_id == schema.schema_id:
            return
        stored_fields = self.table.schemas.schema(schema_id).fields
        if schema_id > schema.schema_id:
            if stored_fields != schema.fields:  # a compaction would drop the other columns
                raise self._other_columns_error(schema_id)
            return
        stored_types = {column.field_id: column.data_type for column in stored_fields}
        for column in schema.fields:
            stored_type = stored_types.get(column.field_id, column.data_type)
            if can_be_read_as(stored_type, column.data_type) or self._leaves_compaction:
                continue
            raise UnsupportedTableError(
                f"files of schema {schema_id} hold column {column.name!r} as "
                f"{stored_type.as_nullable()}, which Paimon does not turn into "
                f"{column.data_type.as_nullable()}",
                where=self.table.schemas.path(schema_id),
                fix="change the column back to a type that its values fit (ALTER TABLE)",
            )

    def _other_columns_error(self, schema_id: int) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"another writer has changed the columns: its files have schema {schema_id}, this job "
            f"began with schema {self.table.schema.schema_id}",
            where=self.table.location,
            fix="start the job again; the configuration of an ingest job must name the new columns",
        )


def compactable_entries(
    table: FileStoreTable, snapshot: Snapshot, buckets: Collection[BucketId] | None
) -> Iterator[ManifestEntry]:
    """Yield a snapshot's live files, in all partitions or those of `buckets`, and check each.

    Files of a newer schema are not checked, because compactions skip them.

    Raises:
        UnsupportedTableError: a file cannot be compacted.
    """
    compactable_check = CompactableFileCheck(table)
    partitions = None if buckets is None else {partition for partition, _ in buckets}
    for entry in FileStoreScan(table).iterate_live(snapshot):
        if partitions is None or entry.partition in partitions:
            if entry.file.schema_id <= table.schema.schema_id:
                compactable_check.check(entry.file)
            yield entry
