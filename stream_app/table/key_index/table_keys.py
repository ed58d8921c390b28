"""Reads the keys in a table's data files, and finds each key's newest row.

It reads only the key columns, with each row's sequence number and kind. So the keys of a table cost
a small part of its bytes.

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
from stream_app.table.key_index.key_layer import GONE, BucketCodes, Keys, key_codes

HASH, BUCKET_CODE, LIVES = f"{KEY_PREFIX}HASH", f"{KEY_PREFIX}BUCKET_CODE", f"{KEY_PREFIX}LIVES"
"""Names of system columns. No table has such a column, because Paimon reserves the prefix."""
_AGE = f"{KEY_PREFIX}AGE"
_SYSTEM_FIELDS = (
    *(pa.field(HASH, pa.int32()), pa.field(BUCKET_CODE, pa.int32()), pa.field(_AGE, pa.int64())),
    *(pa.field(SEQUENCE_NUMBER, pa.int64()), pa.field(LIVES, pa.bool_())),
)


class KeyFile(NamedTuple):
    """A data file whose keys are read, the code of its bucket, and the number of its snapshot."""

    entry: ManifestEntry
    bucket_code: int
    age: int = 0


@dataclass(frozen=True, slots=True)
class TableKeys:
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

    def with_hashes(self, columns: pa.RecordBatch) -> Keys:
        """Return keys with their hashes.

        Args:
            columns: the key columns.
        """
        return Keys(hash_columns(columns.columns, self.key_type.types), columns)

    def read(self, file: KeyFile) -> Iterator[pa.RecordBatch]:
        """Read a file's keys, in columns of `keys_schema`.

        Raises:
            CorruptFileError: the file cannot be read.
        """
        entry, names = file.entry, self.rule.keys
        files = self.table.bucket_files(
            entry.partition, entry.bucket, columns=self._read_type, system_columns=SYSTEM_COLUMNS
        )
        vectors = self.vectors.get((entry.partition, entry.bucket), {})
        for rows in replace(files, vectors=vectors).read(entry.file):
            keys = self.with_hashes(rows.select(names))
            count = rows.num_rows
            lives = np.ones(count, np.bool_)
            if self.rule.deletes_remove_rows:
                lives = ~retract_kind_mask(rows.column(VALUE_KIND).to_numpy())
            columns = [
                pa.array(keys.hashes),
                pa.array(np.full(count, file.bucket_code, np.int32)),
                pa.array(np.full(count, file.age, np.int64)),
                rows.column(SEQUENCE_NUMBER),
                pa.array(lives),
                *keys.columns.columns,
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.keys_schema)

    def keys_by_share(
        self, file: KeyFile, batch: pa.RecordBatch
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield a file's keys by key share."""
        if not self.rule.fills_buckets:
            yield file.entry.bucket, batch
            return
        shares = share_of(batch.column(HASH).to_numpy(), self.rule.shares)
        for share in np.unique(shares).tolist():
            is_in_share = shares == share
            yield share, batch if is_in_share.all() else batch.filter(pa.array(is_in_share))

    @property
    def _read_type(self) -> RowType:
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
        rows = _newest_in_each_bucket(batch, len(_SYSTEM_FIELDS))
        lives = batch.column(LIVES).to_numpy(zero_copy_only=False)[rows]
        keys = self._keys(batch, rows)
        bucket_codes = batch.column(BUCKET_CODE).to_numpy()[rows]
        is_chosen = lives
        if codes_before is not None and not lives.all():
            ended = np.flatnonzero(~lives)
            is_chosen = lives.copy()
            is_chosen[ended] = codes_before(keys.keys_at(ended)) == bucket_codes[ended]
        live_keys = np.flatnonzero(is_chosen)
        return keys.keys_at(live_keys), np.where(lives, bucket_codes, GONE).astype(np.int32)[
            live_keys
        ]

    def _keys(self, batch: pa.RecordBatch, rows: Int64s) -> Keys:
        columns = batch.select(range(len(_SYSTEM_FIELDS), batch.num_columns)).take(pa.array(rows))
        return Keys(batch.column(HASH).to_numpy()[rows], columns)


def _newest_in_each_bucket(batch: pa.RecordBatch, first_key: int) -> Int64s:
    """Return the row number of each key's live row, or else of its newest row in each bucket."""
    hashes = batch.column(HASH).to_numpy()
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[1:]] == hashes[order[:-1]]
    repeated = np.zeros(len(order), np.bool_)
    repeated[1:] |= same
    repeated[:-1] |= same
    rows = order[repeated]
    if not len(rows):
        return order
    several = batch.take(pa.array(rows))
    codes = key_codes(several.columns[first_key:], len(rows))
    bucket_code, age, sequence = (
        several.column(name).to_numpy() for name in (BUCKET_CODE, _AGE, SEQUENCE_NUMBER)
    )
    lives = several.column(LIVES).to_numpy(zero_copy_only=False)
    newest = _last_of(np.lexsort((sequence, age, bucket_code, codes)), codes, bucket_code)
    by_life = newest[np.lexsort((*(a[newest] for a in (sequence, age, lives, codes)),))]
    last = np.ones(len(by_life), np.bool_)
    last[:-1] = codes[by_life[1:]] != codes[by_life[:-1]]
    living = np.zeros(codes.max() + 1, np.bool_)
    living[codes[by_life[lives[by_life]]]] = True
    is_chosen = np.where(living[codes[by_life]], last, True)
    return np.concatenate([order[~repeated], rows[by_life[is_chosen]]])


def _last_of(order: Int64s, *groups: npt.NDArray[Any]) -> Int64s:
    """Return the last row of each group in an order of rows."""
    last = np.zeros(len(order), np.bool_)
    last[-1:] = True
    for group in groups:
        last[:-1] |= group[order[1:]] != group[order[:-1]]
    return order[last]
