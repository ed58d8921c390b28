"""The hidden changes of one bucket, in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import integer_view, rows_at
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys, rows_with_keys
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER


class HiddenInMemory:
    """Implements `mergetree.file_access.HiddenChanges`; a batch is a file."""

    late_change_count = 0

    def __init__(self, schema: pa.Schema, start: str) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._schema = schema
        self._start = start

    def count_late_changes(self, starts: pa.Array) -> None:
        """Count none."""

    def find(self, keys: pa.RecordBatch, start_min: int | None) -> RowsOfKeys:
        """See `HiddenChanges.find`; what may be absent is."""
        indices = [np.empty(0, np.int64)]
        parts = [pa.RecordBatch.from_pylist([], schema=self._schema)]
        for batch in self.batches:
            starts = integer_view(batch.column(self._start)).to_numpy(zero_copy_only=False)
            if not len(starts) or (start_min is not None and starts.max() < start_min):
                continue
            key_indices, rows = rows_with_keys(keys, batch, keys.schema.names)
            indices.append(key_indices)
            parts.append(rows_at(batch, rows))
        return RowsOfKeys(np.concatenate(indices), pa.concat_batches(parts))

    def add(self, rows: pa.RecordBatch) -> None:
        """See `HiddenChanges.add`."""
        index = rows.schema.get_field_index(SEQUENCE_NUMBER)
        numbers = pa.repeat(pa.scalar(len(self.batches), pa.int64()), rows.num_rows)
        self.batches.append(rows.set_column(index, rows.schema.field(index), numbers))

    def drop_newest(self) -> None:
        """Drop the newest file, as a merge drops changes that are too old."""
        del self.batches[-1:]

    def finish(self) -> tuple[IndexManifestEntry, ...]:
        """Write nothing."""
        return ()
