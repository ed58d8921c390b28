"""Looks up all versions of keys in a bucket, where a version's start is the last key column.

The writer of a table with a history calls it (`mergetree.write.history_versions`). A version may be
in any file, so it reads all files that may have one of the keys. `key_lookup` stops at the newest
row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    merge_order,
    retract_mask,
    rows_at,
)
from stream_app.mergetree.lookup.key_lookup import (
    KeyAt,
    LookupFileReader,
    RowsOfKeys,
    WantedKeys,
    rows_with_keys,
)
from stream_app.mergetree.lookup.lookup_plan import keys_in
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLookup:
    """A lookup of versions in the files of one bucket.

    Attributes:
        layout: the layout of the rows, with the key and both system columns.
        key_of: decodes a serialized key, which lacks a version's start.
        key_at: serializes a row's key, without a version's start.
        file_key_of: decodes the bounds of a file to values comparable with those of `key_of`.
        read: reads files.
    """

    layout: KeyValueLayout
    key_of: KeyOrder
    key_at: KeyAt
    file_key_of: KeyOrder
    read: LookupFileReader

    def rows(self, keys: pa.RecordBatch, files: Iterable[DataFileMeta]) -> RowsOfKeys:
        """Return all versions of each key, by key and start, and each version's key by its index.

        Args:
            keys: distinct keys in key order, without the column of a version's start.
            files: the files that may have the keys.

        Raises:
            CorruptFileError: a file is missing, or cannot be read.
        """
        names = self.layout.key_names[:-1]
        wanted_keys = WantedKeys(keys, self.key_at, self.key_of)
        indices: list[Int64s] = [np.empty(0, np.int64)]
        parts = [self.layout.no_rows]
        for file in files:
            file_range = keys_in(file, wanted_keys, self.file_key_of)
            if not file_range:
                continue
            nearby_keys = wanted_keys[file_range.start : file_range.stop]
            for batch in filter(len, self.read(file, nearby_keys)):
                key_indices, rows = rows_with_keys(nearby_keys.batch, batch, names)
                indices.append(key_indices + file_range.start)
                parts.append(rows_at(batch, rows))
        key_indices = np.concatenate(indices)
        rows = pa.concat_batches(parts)
        order, is_last = merge_order(rows, self.layout)
        newest_indices = order[is_last]
        live_rows = newest_indices[~retract_mask(rows_at(rows, newest_indices))]
        return RowsOfKeys(key_indices[live_rows], rows_at(rows, live_rows))
