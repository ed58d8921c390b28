"""Two versions of a bucket → the rows that differ.

Sections in which every file is of both versions are left out: their keys have the same rows before
and after. The others are merged on each side, and the two sides, both in key order, are compared
key by key, in columns.

Paimon leaves out every file that both versions have. It is faster, and wrong in both directions: a
row that such a file deletes, and that is written again with the values it had, is missed; a row
written again with the values that such a file has is told as a change, and so is a row that came
and went between the two versions.

Source: Paimon `table/source/splitread/IncrementalDiffSplitRead.java`,
`table/source/snapshot/SnapshotReaderImpl.java#toIncrementalPlan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.compact.compact_rewriter import merged_section, without_deletes
from stream_app.mergetree.file_access import KeyValueFileAccess
from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.row_kind import RowKind
from stream_app.model.table_schema import VALUE_KIND
from stream_app.table.file_store_scan import BucketId
from stream_app.table.file_store_table import FileStoreTable

_SIDE = "_SIDE"
_BEFORE, _AFTER = 0, 1
_BITS = {4: pa.int32(), 8: pa.int64()}


@dataclass(frozen=True, slots=True)
class DiffRead:
    """Compares versions of buckets.

    Attributes:
        keep_deletes: tell also of rows that are gone, as -D with the values they had.
    """

    table: FileStoreTable
    keep_deletes: bool

    def read(
        self, bucket: BucketId, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]
    ) -> Iterator[pa.RecordBatch]:
        """Key-value batches of the rows that are new or differ, in key order.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        return self.read_from(self.table.bucket_files(*bucket), before, after)

    def read_from(
        self,
        access: KeyValueFileAccess,
        before: Sequence[DataFileMeta],
        after: Sequence[DataFileMeta],
    ) -> Iterator[pa.RecordBatch]:
        """As `read`, with the reader of the bucket's files."""
        read = self._changed_sections(before, after)
        layout = self._layout()
        sides = [
            self._side(access, [file for file in files if file in read], side)
            for side, files in ((_BEFORE, before), (_AFTER, after))
        ]
        for window in merge_windows(sides, layout):
            found = self._differing(window, layout)
            if found.num_rows:
                yield found.drop_columns([_SIDE])

    def _changed_sections(
        self, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]
    ) -> set[DataFileMeta]:
        """The files of the sections that have a file of one version alone."""
        of_one = set(before) ^ set(after)
        sections = partition_into_sections([*before, *(of_one & set(after))], self.table.key_of)
        found = [{file for run in section for file in run.files} for section in sections]
        return set().union(*(files for files in found if files & of_one))

    def _layout(self) -> KeyValueLayout:
        layout = self.table.layout()
        # Rows of one key lie in any order: which side they are of is seen in the column.
        return replace(
            layout, schema=layout.schema.append(pa.field(_SIDE, pa.int8())), sequence_fields=()
        )

    def _side(
        self, access: KeyValueFileAccess, files: Sequence[DataFileMeta], side: int
    ) -> Iterator[pa.RecordBatch]:
        layout, function = self.table.layout(), self.table.merge_function
        for section in partition_into_sections(files, self.table.key_of):
            for batch in merged_section(section, layout, function, access):
                kept = without_deletes(batch)
                mark = pa.repeat(pa.scalar(side, pa.int8()), kept.num_rows)
                yield kept.append_column(_SIDE, mark)

    def _differing(self, window: MergeWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        batch = window.batch
        order = np.arange(batch.num_rows) if window.order is None else window.order
        last = window.last_rows(layout)
        first = np.concatenate(([True], last[:-1]))
        is_after = batch.column(_SIDE).to_numpy()[order] == _AFTER
        alone = first & last
        pairs = np.flatnonzero(~last)
        newer = pairs + (~is_after[pairs])
        older = pairs + is_after[pairs]
        differ = ~_same(batch, order[older], order[newer])
        added = np.concatenate((np.flatnonzero(alone & is_after), newer[differ]))
        gone = np.flatnonzero(alone & ~is_after) if self.keep_deletes else added[:0]
        chosen = np.concatenate((added, gone))
        is_gone = np.concatenate((np.zeros(len(added), np.bool_), np.ones(len(gone), np.bool_)))
        by_key = np.argsort(chosen, kind="stable")
        found = batch.take(pa.array(order[chosen[by_key]]))
        kinds = found.column(VALUE_KIND).to_numpy().copy()
        kinds[is_gone[by_key]] = int(RowKind.DELETE)
        place = found.schema.get_field_index(VALUE_KIND)
        return found.set_column(place, found.schema.field(place), pa.array(kinds, pa.int8()))


def _same(
    batch: pa.RecordBatch, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """For each pair of rows: are their values the same?"""
    same = np.ones(len(left), np.bool_)
    for name in batch.schema.names[2:]:
        if name == _SIDE:
            continue
        ours, theirs = (_exact(batch.column(name)).take(pa.array(rows)) for rows in (left, right))
        equal = pc.fill_null(pc.equal(ours, theirs), False)
        alike = pc.or_(equal, pc.and_(ours.is_null(), theirs.is_null()))
        same &= alike.to_numpy(zero_copy_only=False)
    return same


def _exact(column: pa.Array) -> pa.Array:
    """Floats as their bits: NaN is the same as NaN, and -0.0 is not 0.0."""
    if pa.types.is_floating(column.type):
        return column.view(_BITS[column.type.byte_width])
    return column
