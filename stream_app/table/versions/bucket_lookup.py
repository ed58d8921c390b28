"""Looks rows of a bucket up by key, in the files of a snapshot or in others of the bucket.

For writers and compactions that need the old rows of some keys. Reads the asked columns alone.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.filestore.data.row_group_filter import RowGroupsOfKeys
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.deletion_vector import DeletionVector, live_rows
from stream_app.mergetree.lookup.key_lookup import KeyLookup, WantedKeys
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.options.table_options import IGNORE_DELETE
from stream_app.table.file_store_table import FileStoreTable

_NEWEST_WINS = "deduplicate"


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
    key_types = schema.key_type.types

    def key_at(batch: pa.RecordBatch, row: int) -> bytes:
        return serialize_arrow_row([batch.column(name) for name in keys], key_types, row)

    def rows_of(file: DataFileMeta, wanted: WantedKeys) -> Iterator[pa.RecordBatch]:
        groups = RowGroupsOfKeys(keys[0], wanted)
        if vector := vectors.get(file.file_name):
            whole = table.bucket_files(partition, bucket, columns=read)  # it counts all rows
            return live_rows(whole.read(file), vector)
        files = table.bucket_files(partition, bucket, columns=read, row_groups=groups)
        return files.read(file)

    return KeyLookup(
        layout=table.layout(read),
        key_of=table.key_of,
        key_at=key_at,
        read=rows_of,
        ignores_deletes=table.options[IGNORE_DELETE],
    )


def check_lookup(table: FileStoreTable) -> None:
    """Check that rows of a table can be looked up.

    Raises:
        UnsupportedTableError: they cannot.
    """
    if not table.kind.merges_by_key:
        raise UnsupportedTableError(
            "rows are looked up by key, and the table has no primary key", where=table.location
        )
    if table.options.merge_engine != _NEWEST_WINS:
        raise UnsupportedTableError(
            f"rows of merge-engine = {table.options.merge_engine} cannot be looked up",
            where=table.location,
            fix="a lookup takes the newest row of a key, as merge-engine = deduplicate does",
        )
