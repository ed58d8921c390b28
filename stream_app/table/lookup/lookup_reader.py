"""Finds rows by key in a bucket's files, and reads as little of each file as possible.

Compactions (`compact.keyed`) and writers (`bucket_row_lookup`) use it for their lookups.
`mergetree.lookup.lookup_source` decides how much of a file is read. The choices are the whole
file, the parts that may have a key, or rows of a local copy (`filestore.local_copies`). The first
lookup makes the copy.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.errors import UnsupportedTableError
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.part_filter import KeyPartFilter
from stream_app.filestore.local_copies.lookup_copies import (
    CopiedFile,
    LookupCopies,
    local_copies_folder,
)
from stream_app.filestore.local_copies.lookup_copy import BROKEN
from stream_app.format.binary_row import key_order, serialize_arrow_row
from stream_app.format.bucket_hash import MurmurHashes, hash_columns
from stream_app.format.deletion_vector import DeletionVector
from stream_app.mergetree.key_value_batch import KeyValueLayout, merge_order, rows_at
from stream_app.mergetree.lookup.key_lookup import KeyLookup, LookupFileReader, WantedKeys
from stream_app.mergetree.lookup.lookup_plan import keys_in
from stream_app.mergetree.lookup.lookup_source import LookupSource, source_to_read
from stream_app.mergetree.lookup.version_lookup import VersionLookup
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.merge_options import IGNORE_DELETE
from stream_app.model.options.write_options import (
    LOOKUP_CACHE_FILE_RETENTION,
    LOOKUP_CACHE_MAX_DISK_SIZE,
)
from stream_app.model.schema.data_type import RowType
from stream_app.model.traits.merge_engine import traits_of
from stream_app.table.file_store_table import SYSTEM_COLUMNS, FileStoreTable


@dataclass(slots=True, kw_only=True)
class LookupReader:
    """A reader of the rows of a file that may have one of the wanted keys.

    Implements `mergetree.file_access.RowPositionReader`.

    Attributes:
        columns, system_columns: the columns to read; see `FileStoreTable.bucket_files`.
        read_keys: returns the keys, perhaps after a read of files; it is called at most once.
        key_count: the approximate number of keys.
        copies: the local copies; None if the table uses none.
    """

    table: FileStoreTable
    bucket_id: BucketId
    columns: RowType
    system_columns: Collection[str]
    read_keys: Callable[[], WantedKeys]
    key_count: int
    vectors: Mapping[str, DeletionVector]
    copies: LookupCopies | None
    _wanted_keys: WantedKeys | None = field(init=False, default=None)

    def read_with_positions(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Read the file as `source_to_read` decides: whole, in parts, or from a local copy."""
        choice = source_to_read(
            key_count=self.key_count,
            file_row_count=file.row_count,
            file_size=file.file_size,
            has_copies=self.copies is not None,
        )
        match choice:
            case LookupSource.WHOLE:
                return self._files().read_with_positions(file)
            case LookupSource.PARTS:
                return self._rows_of_parts(file)
            case LookupSource.COPY:
                return self._rows_of_copy(file)

    def _files(self, part_filter: KeyPartFilter | None = None) -> BucketFiles:
        bucket_files = self.table.bucket_files(
            *self.bucket_id,
            columns=self.columns,
            system_columns=self.system_columns,
            part_filter=part_filter,
        )
        return replace(bucket_files, vectors=dict(self.vectors))

    def _rows_of_parts(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        first_key_column = self.table.schema.trimmed_primary_keys[0]
        return self._files(KeyPartFilter(first_key_column, self._keys())).read_with_positions(file)

    def _rows_of_copy(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Yield the wanted rows from a local copy; if it breaks, the rest from the file."""
        if not keys_in(file, self._keys(), self.table.key_of):
            return
        names = self.table.layout(self.columns, system_columns=self.system_columns).schema.names
        vector = self.vectors.get(file.file_name)
        next_position = 0
        bucket_files = self._copied_files()
        copied_file = CopiedFile(
            bucket_files.path(file),
            tuple(
                f"{column.field_id} {column.data_type}" for column in bucket_files.reader.columns
            ),
            bucket_files.reader.layout_schema,
            file.row_count,
        )
        assert self.copies is not None, "without copies another source is chosen"
        copy = self.copies.find(copied_file)
        copy = copy or self.copies.create(copied_file, bucket_files.read(file), self._hashes)
        hashes = self._hashes(self._keys().batch)
        try:
            if copy is not None:
                for batch, positions in copy.rows_of(hashes, names):
                    is_live = np.ones(len(positions), np.bool_)
                    if vector is not None:
                        first_position, last_position = int(positions[0]), int(positions[-1])
                        is_live = vector.keep_mask(
                            first_position, last_position - first_position + 1
                        )[positions - first_position]
                    yield batch.filter(pa.array(is_live)), positions[is_live]
                    next_position = int(positions[-1]) + 1
                return
        except BROKEN as error:
            self.copies.delete_damaged_copies(copied_file, error)
        for batch, positions in self._rows_of_parts(file):
            is_unread = positions >= next_position
            yield batch.filter(pa.array(is_unread)), positions[is_unread]

    def _copied_files(self) -> BucketFiles:
        """Return the access to files by a local copy's columns: only the key, or whole rows."""
        if self.columns == self.table.schema.key_type and not self.system_columns:
            return self.table.bucket_files(
                *self.bucket_id, columns=self.columns, system_columns=self.system_columns
            )
        return self.table.bucket_files(*self.bucket_id)

    def _hashes(self, rows: pa.RecordBatch) -> MurmurHashes:
        schema = self.table.schema
        columns = [rows.column(name) for name in schema.trimmed_primary_keys]
        return hash_columns(columns, schema.key_type.types).view(np.uint32)

    def _keys(self) -> WantedKeys:
        if self._wanted_keys is None:
            self._wanted_keys = self.read_keys()
        return self._wanted_keys


def lookup_copies(table: FileStoreTable) -> LookupCopies | None:
    """Return a table's local copies for lookups; None if its compactions look up no rows."""
    bytes_max = table.options[LOOKUP_CACHE_MAX_DISK_SIZE]
    if bytes_max == 0 or not table.options.looks_up:
        return None
    return LookupCopies(
        local_copies_folder(),
        table.location,
        table.options[LOOKUP_CACHE_FILE_RETENTION],
        bytes_max,
        table.clock,
        table.add_store_requests,
    )


def bucket_lookup(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    columns: Sequence[str],
    vectors: Mapping[str, DeletionVector] = MappingProxyType({}),
) -> KeyLookup:
    """Return a lookup of rows with the key, `columns` and the sequence fields.

    Args:
        vectors: name of a data file → its deleted rows.

    Raises:
        UnsupportedTableError: the table has no primary key, or another merge engine than
            `deduplicate`.
    """
    check_lookup(table)
    schema = table.schema
    needed_names = {*schema.trimmed_primary_keys, *schema.sequence_fields, *columns}
    row_type = schema.fields.project([name for name in schema.fields.names if name in needed_names])
    return KeyLookup(
        layout=table.layout(row_type),
        key_of=table.key_of,
        key_at=partial(_key_at, table.schema.key_type),
        read=_reader_of_keys(
            table, BucketId(partition, bucket), row_type, vectors, lookup_copies(table)
        ),
        ignores_deletes=table.options[IGNORE_DELETE],
    )


def version_lookup(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    vectors: Mapping[str, DeletionVector] = MappingProxyType({}),
) -> VersionLookup:
    """Return a lookup of whole row versions by the source's key, for a table with a history."""
    schema = table.schema
    source_key = schema.fields.project(schema.trimmed_primary_keys[:-1])
    count = len(source_key.names)
    return VersionLookup(
        layout=table.layout(),
        key_of=key_order(source_key.types),
        key_at=partial(_key_at, source_key),
        file_key_of=lambda key: table.key_of(key)[:count],
        # Local copies find rows by the whole key.
        read=_reader_of_keys(
            table, BucketId(partition, bucket), schema.fields, vectors, copies=None
        ),
    )


def _reader_of_keys(
    table: FileStoreTable,
    bucket_id: BucketId,
    columns: RowType,
    vectors: Mapping[str, DeletionVector],
    copies: LookupCopies | None,
) -> LookupFileReader:
    """Return a function that reads the rows of wanted keys from one file of the bucket."""

    def rows_of(file: DataFileMeta, wanted_keys: WantedKeys) -> Iterator[pa.RecordBatch]:
        reader = LookupReader(
            table=table,
            bucket_id=bucket_id,
            columns=columns,
            system_columns=SYSTEM_COLUMNS,
            read_keys=lambda: wanted_keys,
            key_count=len(wanted_keys),
            vectors=vectors,
            copies=copies,
        )
        return (rows for rows, _ in reader.read_with_positions(file))

    return rows_of


def keys_of_files(
    table: FileStoreTable, bucket_id: BucketId, files: Sequence[DataFileMeta]
) -> WantedKeys:
    """Return the keys of a bucket's files, ascending.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    columns = table.schema.key_type
    reader = table.bucket_files(*bucket_id, columns=columns, system_columns=frozenset())
    rows = pa.concat_batches([batch for file in files for batch in reader.read(file)])
    order, _ = merge_order(rows, KeyValueLayout(rows.schema, table.schema.trimmed_primary_keys))
    return WantedKeys(rows_at(rows, order), partial(_key_at, table.schema.key_type), table.key_of)


def _key_at(key_type: RowType, batch: pa.RecordBatch, row_index: int) -> bytes:
    """Return a row's key as bytes."""
    return serialize_arrow_row(
        [batch.column(name) for name in key_type.names], key_type.types, row_index
    )


def check_lookup(table: FileStoreTable) -> None:
    """Check that a table's rows can be looked up.

    Raises:
        UnsupportedTableError: they cannot be looked up.
    """
    if not table.kind_traits.merges_by_key:
        raise UnsupportedTableError(
            "rows are looked up by key, and the table has no primary key",
            where=table.location,
            fix="read its rows with a condition, as stream-app read --where does",
        )
    if not traits_of(table.options.merge_engine).keeps_newest:
        raise UnsupportedTableError(
            f"rows of merge-engine = {table.options.merge_engine} cannot be looked up",
            where=table.location,
            fix="a lookup takes the newest row of a key, as merge-engine = deduplicate does",
        )
