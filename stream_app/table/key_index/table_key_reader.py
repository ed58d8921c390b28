"""Reads the keys in a table's data files, and finds each key's newest row.

A read takes only the key columns, with each row's sequence number and kind. So it costs a small
part of the table's bytes.

Source: Paimon `crosspartition/IndexBootstrap.java`, which reads merged rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.bucket_hash import hash_columns, share_of
from stream_app.mergetree.key_value_batch import retract_kind_mask
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.table.file_store_table import SYSTEM_COLUMNS, FileStoreTable
from stream_app.table.key_index.key_layer import GONE, BucketCodes, Keys
from stream_app.table.write.bucket_assigner import row_codes

# Names of system columns. No table has such a column, because Paimon reserves the prefix.
HASH_COLUMN = f"{KEY_PREFIX}HASH"
BUCKET_CODE = f"{KEY_PREFIX}BUCKET_CODE"
_SNAPSHOT_INDEX = f"{KEY_PREFIX}SNAPSHOT_INDEX"
IS_LIVE = f"{KEY_PREFIX}IS_LIVE"
_SYSTEM_FIELDS = (
    pa.field(HASH_COLUMN, pa.int32()),
    pa.field(BUCKET_CODE, pa.int32()),
    pa.field(_SNAPSHOT_INDEX, pa.int64()),
    pa.field(SEQUENCE_NUMBER, pa.int64()),
    pa.field(IS_LIVE, pa.bool_()),
)


class KeyFile(NamedTuple):
    """A data file whose keys are read.

    Attributes:
        bucket_code: the code of its bucket.
        snapshot_index: the index of its snapshot among those that are read, oldest first.
    """

    entry: ManifestEntry
    bucket_code: int
    snapshot_index: int = 0


@dataclass(frozen=True, slots=True)
class TableKeyReader:
    """A reader of one table's keys.

    Attributes:
        vectors: the deletion vectors of a snapshot, by bucket.
    """

    table: FileStoreTable
    rule: IndexRule
    vectors: Mapping[BucketId, BucketVectors] = field(default_factory=dict)

    @property
    def key_type(self) -> RowType:
        """The columns of the key index's key."""
        return self.table.schema.fields.project(self.rule.keys)

    @property
    def keys_schema(self) -> pa.Schema:
        """The schema of `read`: system columns, then the key columns."""
        return pa.schema([*_SYSTEM_FIELDS, *arrow_schema(self.key_type)])

    def no_keys(self) -> pa.RecordBatch:
        """Return an empty batch of `keys_schema`."""
        columns = [pa.array([], data_type) for data_type in self.keys_schema.types]
        return pa.RecordBatch.from_arrays(columns, schema=self.keys_schema)

    def with_hashes(self, batch: pa.RecordBatch) -> Keys:
        """Return keys with their hashes.

        Args:
            batch: the key columns.
        """
        return Keys(hash_columns(batch.columns, self.key_type.types), batch)

    def read(self, file: KeyFile) -> Iterator[pa.RecordBatch]:
        """Yield a file's keys, in columns of `keys_schema`.

        Raises:
            CorruptFileError: the file cannot be read.
        """
        entry = file.entry
        bucket_files = self.table.bucket_files(
            entry.partition, entry.bucket, columns=self._type_to_read, system_columns=SYSTEM_COLUMNS
        )
        vectors = self.vectors.get(entry.bucket_id, {})
        for rows in replace(bucket_files, vectors=vectors).read(entry.file):
            keys = self.with_hashes(rows.select(self.rule.keys))
            row_count = rows.num_rows
            is_live = np.ones(row_count, np.bool_)
            if self.rule.deletes_remove_rows:
                is_live = ~retract_kind_mask(rows.column(VALUE_KIND).to_numpy())
            columns = [
                pa.array(keys.hashes),
                pa.array(np.full(row_count, file.bucket_code, np.int32)),
                pa.array(np.full(row_count, file.snapshot_index, np.int64)),
                rows.column(SEQUENCE_NUMBER),
                pa.array(is_live),
                *keys.batch.columns,
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.keys_schema)

    def keys_by_share(
        self, file: KeyFile, batch: pa.RecordBatch
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield a file's keys by key share."""
        if not self.rule.fills_buckets:
            yield file.entry.bucket, batch
            return
        shares = share_of(batch.column(HASH_COLUMN).to_numpy(), self.rule.share_count)
        for share in np.unique(shares).tolist():
            is_in_share = shares == share
            yield share, batch if is_in_share.all() else batch.filter(pa.array(is_in_share))

    @property
    def _type_to_read(self) -> RowType:
        """The columns of the index's key and of the key in the bucket."""
        schema = self.table.schema
        names = [
            name
            for name in schema.fields.names
            if name in self.rule.keys or name in schema.trimmed_primary_keys
        ]
        return schema.fields.project(names)

    def newest_buckets(
        self, batch: pa.RecordBatch, codes_before: Callable[[Keys], BucketCodes] | None = None
    ) -> tuple[Keys, BucketCodes]:
        """Return each key with the code of the bucket of its live row.

        In each bucket the newest row of a key decides whether the key is live there. If several
        buckets have a live row, the newest counts; a correctly written table has at most one.

        Args:
            batch: columns of `keys_schema`.
            codes_before: returns the codes of keys' buckets before these rows. A delete in another
                bucket does not affect them.

        Returns:
            Distinct keys and their buckets' codes; `GONE` for deleted keys. Without `codes_before`
            the result omits deleted keys.
        """
        indices = _newest_in_each_bucket(batch, len(_SYSTEM_FIELDS))
        is_live = batch.column(IS_LIVE).to_numpy(zero_copy_only=False)[indices]
        keys = self._keys(batch, indices)
        bucket_codes = batch.column(BUCKET_CODE).to_numpy()[indices]
        is_chosen = is_live
        if codes_before is not None and not is_live.all():
            ended_indices = np.flatnonzero(~is_live)
            is_chosen = is_live.copy()
            old_codes = codes_before(keys.keys_at(ended_indices))
            is_chosen[ended_indices] = old_codes == bucket_codes[ended_indices]
        chosen_indices = np.flatnonzero(is_chosen)
        codes_after = np.where(is_live, bucket_codes, GONE).astype(np.int32)
        return keys.keys_at(chosen_indices), codes_after[chosen_indices]

    def _keys(self, batch: pa.RecordBatch, indices: Int64s) -> Keys:
        key_columns = batch.select(range(len(_SYSTEM_FIELDS), batch.num_columns))
        hashes = batch.column(HASH_COLUMN).to_numpy()[indices]
        return Keys(hashes, key_columns.take(pa.array(indices)))


def _newest_in_each_bucket(batch: pa.RecordBatch, first_key: int) -> Int64s:
    """Return the row number of each key's live row, or else of its newest row in each bucket.

    A key that has one row, 6, comes first. The row 0 of key 5 is dead by row 1, and key 7 is dead::

        key       [5, 5, 5, 6, 7, 7]
        bucket    [0, 0, 1, 0, 0, 1]
        snapshot  [1, 2, 1, 1, 1, 2]
        is live   [T, F, T, T, F, F]
        result    [3, 2, 4, 5]
    """
    hashes = batch.column(HASH_COLUMN).to_numpy()
    order = np.argsort(hashes, kind="stable")
    is_equal = hashes[order[1:]] == hashes[order[:-1]]
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[1:] |= is_equal
    is_repeated[:-1] |= is_equal
    rows = order[is_repeated]
    if not len(rows):
        return order
    repeated_rows = batch.take(pa.array(rows))
    codes = row_codes(repeated_rows.columns[first_key:], len(rows))
    bucket_code, snapshot_index, sequence = (
        repeated_rows.column(name).to_numpy()
        for name in (BUCKET_CODE, _SNAPSHOT_INDEX, SEQUENCE_NUMBER)
    )
    is_live = repeated_rows.column(IS_LIVE).to_numpy(zero_copy_only=False)
    # By key, bucket, snapshot, sequence number: the newest row of a key comes last in its bucket.
    bucket_order = np.lexsort((sequence, snapshot_index, bucket_code, codes))
    newest_rows = _last_of(bucket_order, codes, bucket_code)
    # By key, then live rows, snapshot and sequence number: the last row of a key is live if any is.
    newest_rows = newest_rows[
        np.lexsort(
            (
                sequence[newest_rows],
                snapshot_index[newest_rows],
                is_live[newest_rows],
                codes[newest_rows],
            )
        )
    ]
    is_last = np.ones(len(newest_rows), np.bool_)
    is_last[:-1] = codes[newest_rows[1:]] != codes[newest_rows[:-1]]
    has_live_row = np.zeros(codes.max() + 1, np.bool_)
    has_live_row[codes[newest_rows[is_live[newest_rows]]]] = True
    is_chosen = np.where(has_live_row[codes[newest_rows]], is_last, True)
    return np.concatenate([order[~is_repeated], rows[newest_rows[is_chosen]]])


def _last_of(order: Int64s, *groups: npt.NDArray[Any]) -> Int64s:
    """Return the last row of each group in an order of rows."""
    is_last = np.zeros(len(order), np.bool_)
    is_last[-1:] = True
    for group in groups:
        is_last[:-1] |= group[order[1:]] != group[order[:-1]]
    return order[is_last]
