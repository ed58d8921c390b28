"""Merges rows of which the first stays, and drops those whose key lies above the output already.

Readers do not merge the levels above 0 of such a table, so no key may be on two of them. Paimon
looks up each key by itself; here the keys of the higher files stream by in key order.

Source: Paimon `mergetree/compact/FirstRowMergeFunctionWrapper.java`,
`mergetree/compact/LookupMergeTreeCompactRewriter.java` (`FirstRowMergeFunctionWrapperFactory`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.file_access import KeyValueFileReader, WrittenFiles
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import KeyValueLayout, key_order, take
from stream_app.mergetree.sort_merge_reader import RunCursor
from stream_app.mergetree.sorted_run import KeyOrder, SortedRun
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, kw_only=True)
class FirstRowRewriter(CompactRewriter):
    """Rewrites sections of one bucket.

    Attributes:
        above: the files of the levels above the output.
        keys: reads them, in the layout `key_layout`: the key columns alone.
    """

    above: Sequence[DataFileMeta]
    keys: KeyValueFileReader
    key_layout: KeyValueLayout
    key_of: KeyOrder

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        """Move a file by metadata alone, unless a key of it may lie above."""
        if file.level > 0 or not self._above([file]):
            return super().upgrade(file, output_level)
        run = SortedRun((file,))
        return self.rewrite([(run,)], output_level=output_level, drop_deletes=False)

    def _merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        merged = super()._merged(section)
        above = self._above([file for run in section for file in run.files])
        if not above:
            return merged
        return self._absent(merged, [RunCursor(self._read(run), self.key_layout) for run in above])

    def _above(self, files: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        """The files above that overlap some files: those of each level, in key order."""
        least = min(self.key_of(file.min_key) for file in files)
        greatest = max(self.key_of(file.max_key) for file in files)
        levels: dict[int, list[DataFileMeta]] = {}
        for file in sorted(self.above, key=lambda file: self.key_of(file.min_key)):
            if self.key_of(file.max_key) >= least and self.key_of(file.min_key) <= greatest:
                levels.setdefault(file.level, []).append(file)
        return list(levels.values())

    def _read(self, files: Iterable[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from self.keys.read(file)

    def _absent(
        self, batches: Iterable[pa.RecordBatch], above: Sequence[RunCursor]
    ) -> Iterator[pa.RecordBatch]:
        """The rows whose key is in no run.

        Args:
            batches: in key order, each key once.
        """
        names = self.key_layout.key_names
        for batch in batches:
            if not batch.num_rows:
                continue
            keys = batch.select(list(names)).cast(self.key_layout.schema)
            bound = RunCursor(iter([keys]), self.key_layout).last_key
            found = [part for cursor in above for part in _up_to(cursor, bound)]
            # A stable sort leaves the batch's row of each key before those found.
            order, last = key_order(pa.concat_batches([keys, *found]), self.key_layout)
            is_absent = last & (order < batch.num_rows)
            yield take(batch, None if is_absent.sum() == batch.num_rows else order[is_absent])


def _up_to(cursor: RunCursor, bound: object) -> Iterator[pa.RecordBatch]:
    """Use up a run's rows whose key is not greater than `bound`."""
    while cursor.batch is not None:
        is_whole = cursor.last_key <= bound
        part = cursor.take_up_to(bound)
        if part is not None:
            yield part
        if not is_whole:
            return
