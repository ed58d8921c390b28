"""Looks rows of a bucket up by key, in the files of a snapshot or in others of the bucket.

For writers and compactions that need the old rows of some keys. Reads the asked columns alone.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.deletion_vector import DeletionVector
from stream_app.mergetree.key_value_batch import key_order, take
from stream_app.mergetree.lookup.key_lookup import KeyLookup, WantedKeys
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.merge_engine import traits_of
from stream_app.model.options.table_options import IGNORE_DELETE
from stream_app.table.file_store_table import SYSTEM_COLUMNS, FileStoreTable
from stream_app.table.versions.lookup_reader import LookupReader, lookup_copies


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
    copies = lookup_copies(table)

    def rows_of(file: DataFileMeta, wanted: WantedKeys) -> Iterator[pa.RecordBatch]:
        reader = LookupReader(
            table=table,
            bucket=(partition, bucket),
            columns=read,
            system=SYSTEM_COLUMNS,
            keys=lambda: wanted,
            key_count=len(wanted),
            vectors=vectors,
            copies=copies,
        )
        return (rows for rows, _ in reader.read_places(file))

    return KeyLookup(
        layout=table.layout(read),
        key_of=table.key_of,
        key_at=partial(_key_at, table),
        read=rows_of,
        ignores_deletes=table.options[IGNORE_DELETE],
    )


def keys_of_files(
    table: FileStoreTable, bucket: BucketId, files: Sequence[DataFileMeta]
) -> WantedKeys:
    """The keys of some files of a bucket, ascending.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    columns = table.schema.key_type
    reader = table.bucket_files(*bucket, columns=columns, system=frozenset())
    rows = pa.concat_batches([batch for file in files for batch in reader.read(file)])
    order, _ = key_order(rows, table.layout(columns, system=frozenset()))
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
