"""The rows of some keys in the levels above a compaction's output.

The keys come in order, so each level is read once, from the first key to the last. A reader may
leave out row groups that have none of the keys.

Source: Paimon `mergetree/LookupLevels.java`, which copies each file into a local store of keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from stream_app.mergetree.file_access import RowPlaceReader
from stream_app.mergetree.key_differences import rows_of_keys
from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout
from stream_app.mergetree.sort_merge_reader import RunCursor
from stream_app.mergetree.sorted_run import KeyOrder, sorted_run
from stream_app.model.data_file_meta import DataFileMeta

_FILE, _PLACE = "_FILE", "_PLACE"


@dataclass(slots=True)
class RowsAbove:
    """Looks keys up, in ascending order over all calls.

    Attributes:
        above: data files, of levels above the output.
        places_read: by the name of a data file, the places of the rows that were found in it.
    """

    layout: KeyValueLayout
    files: RowPlaceReader
    above: Sequence[DataFileMeta]
    key_of: KeyOrder
    places_read: dict[str, list[Indices]] = field(init=False, default_factory=dict)
    _cursors: list[RunCursor] | None = field(init=False, default=None)

    def rows_of(self, keys: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
        """The newest row of each key that has one, in no order; and the keys that have none.

        Args:
            keys: rows with at least the key columns; unique and ascending over all calls.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        if self._cursors is None:
            self._cursors = [RunCursor(rows, self.layout) for rows in self._levels()]
        bound = RunCursor(iter((keys,)), self.layout).last_key
        batches: list[pa.RecordBatch] = []
        for cursor in self._cursors:
            while cursor.batch is not None and keys.num_rows:
                part = cursor.take_up_to(bound)
                if part is None:
                    break
                hits, keys = rows_of_keys(self.layout, part, keys)
                if hits.num_rows:
                    batches.append(self._noted(hits))
        return batches, keys

    def may_have(self, file: DataFileMeta) -> bool:
        """Whether a key of this file may be above, by least and greatest keys."""
        least, greatest = self.key_of(file.min_key), self.key_of(file.max_key)
        return any(
            self.key_of(above.min_key) <= greatest and least <= self.key_of(above.max_key)
            for above in self.above
        )

    def _noted(self, hits: pa.RecordBatch) -> pa.RecordBatch:
        files = hits.column(_FILE).to_numpy()
        for number in np.unique(files):
            places = hits.column(_PLACE).to_numpy()[files == number]
            self.places_read.setdefault(self.above[number].file_name, []).append(places)
        return hits.drop_columns([_FILE, _PLACE])

    def _levels(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of each level, the lowest level first."""
        by_level = sorted(self.above, key=lambda file: file.level)
        for _, files in groupby(by_level, key=lambda file: file.level):
            yield self._read(sorted_run(files, self.key_of).files)

    def _read(self, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in files:
            number = pa.scalar(self.above.index(file), pa.int32())
            for batch, places in self.files.read_places(file):
                marked = batch.append_column(_FILE, pa.repeat(number, batch.num_rows))
                yield marked.append_column(_PLACE, pa.array(places))
