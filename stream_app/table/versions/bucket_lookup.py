"""Looks rows of a bucket up by key, in the files of a snapshot or in others of the bucket.

For writers and compactions that need the old rows of some keys. Reads the asked columns alone.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, overload

import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.data.row_group_filter import RowGroupsOfKeys
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.deletion_vector import DeletionVector
from stream_app.mergetree.key_value_batch import key_order, take
from stream_app.mergetree.lookup.key_lookup import KeyLookup, WantedKeys
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.merge_engine import traits_of
from stream_app.model.options.table_options import IGNORE_DELETE
from stream_app.table.file_store_table import FileStoreTable


def bucket_lookup(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    columns: Sequence[str],
    vectors: Mapping[str, DeletionVector] = MappingProxyType({}),
) -> KeyLookup:
    """A lookup that gives the key, some columns, and those by which rows are ordered.

    Args:
        vectors: by the name of a data file, its rows that do not count.

    Raises:
        UnsupportedTableError: the table has no primary key, or another merge engine than
            `deduplicate`.
    """
    check_lookup(table)
    schema = table.schema
    keys = schema.trimmed_primary_keys
    needed = {*keys, *schema.sequence_fields, *columns}
    read = schema.fields.project([name for name in schema.fields.names if name in needed])

    def rows_of(file: DataFileMeta, wanted: WantedKeys) -> Iterator[pa.RecordBatch]:
        groups = RowGroupsOfKeys(keys[0], wanted)
        files = table.bucket_files(partition, bucket, columns=read, row_groups=groups)
        return (rows for rows, _ in replace(files, vectors=dict(vectors)).read_places(file))

    return KeyLookup(
        layout=table.layout(read),
        key_of=table.key_of,
        key_at=partial(_key_at, table),
        read=rows_of,
        ignores_deletes=table.options[IGNORE_DELETE],
    )


@dataclass(frozen=True)
class KeysOfFiles(Sequence[Any]):
    """The keys of some files of a bucket, ascending; the files are read when a key is asked for."""

    table: FileStoreTable
    partition: bytes
    bucket: int
    files: Sequence[DataFileMeta]

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> WantedKeys: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._keys[place]

    @cached_property
    def _keys(self) -> WantedKeys:
        table, columns = self.table, self.table.schema.key_type
        files = table.bucket_files(self.partition, self.bucket, columns=columns, system=frozenset())
        layout = table.layout(columns, system=frozenset())
        batches = [batch for file in self.files for batch in files.read(file)]
        rows = pa.concat_batches(batches)
        order, _ = key_order(rows, layout)
        return WantedKeys(take(rows, order), partial(_key_at, table), table.key_of)


def _key_at(table: FileStoreTable, batch: pa.RecordBatch, row: int) -> bytes:
    """The bytes of the key in a row."""
    columns = [batch.column(name) for name in table.schema.trimmed_primary_keys]
    return serialize_arrow_row(columns, table.schema.key_type.types, row)


def check_lookup(table: FileStoreTable) -> None:
    """Check that rows of a table can be looked up.

    Raises:
        UnsupportedTableError: they cannot.
    """
    if not table.kind.merges_by_key:
        raise UnsupportedTableError(
            "rows are looked up by key, and the table has no primary key", where=table.location
        )
    if not traits_of(table.options.merge_engine).keeps_newest:
        raise UnsupportedTableError(
            f"rows of merge-engine = {table.options.merge_engine} cannot be looked up",
            where=table.location,
            fix="a lookup takes the newest row of a key, as merge-engine = deduplicate does",
        )
