"""Compares two versions of a bucket: the rows that differ.

It skips sections whose files all belong to both versions, because their keys have the same rows
before and after. It merges the other sections on each side. Then it compares the two sides, both in
key order, key by key in columns.

Paimon skips every file that both versions have. That is faster, and wrong in both directions. It
misses a row that such a file deletes and that is written again with its old values. It reports a
row written again with the values that such a file has. It also reports a row that was added and
deleted between the two versions.

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
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.sorted_run import KeyOrder
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.table.file_store_table import FileStoreTable

_SIDE = "_SIDE"
_BEFORE, _AFTER = 0, 1
_BITS = {4: pa.int32(), 8: pa.int64()}


@dataclass(frozen=True, slots=True)
class Differences:
    """The rows that differ between two sides, by their places in key order.

    Attributes:
        batch: rows of both sides, one or two a key, with the column `_SIDE`.
        order: the places in the batch, in the order of keys.
        added: keys of the second side alone.
        changed: rows of the second side with other values than those of the first.
        replaced: those of the first side, in the same order.
        gone: keys of the first side alone.
    """

    batch: pa.RecordBatch
    order: Indices
    added: Indices
    changed: Indices
    replaced: Indices
    gone: Indices

    def rows(self, *, keep_deletes: bool) -> pa.RecordBatch:
        """In key order: added and changed rows; rows that are gone, as -D."""
        gone = self.gone if keep_deletes else self.gone[:0]
        chosen = np.concatenate((self.added, self.changed, gone))
        is_gone = np.zeros(len(chosen), np.bool_)
        is_gone[len(chosen) - len(gone) :] = True
        by_key = np.argsort(chosen, kind="stable")
        found = self.batch.take(pa.array(self.order[chosen[by_key]]))
        kinds = found.column(VALUE_KIND).to_numpy().copy()
        kinds[is_gone[by_key]] = int(RowKind.DELETE)
        place = found.schema.get_field_index(VALUE_KIND)
        kind = found.schema.field(place)
        return found.set_column(place, kind, pa.array(kinds, pa.int8())).drop_columns([_SIDE])


@dataclass(frozen=True, slots=True)
class DiffRead:
    """Compares versions of buckets.

    Attributes:
        keep_deletes: also return rows that are gone, as -D with their old values.
    """

    table: FileStoreTable
    keep_deletes: bool

    def read(
        self, bucket: BucketId, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]
    ) -> Iterator[pa.RecordBatch]:
        """Key-value batches of added and changed rows, in key order.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        access = self.table.bucket_files(*bucket)
        read = changed_files(self.table.key_of, before, after)
        sides = [
            merged_rows(self.table, access, [file for file in files if file in read])
            for files in (before, after)
        ]
        for found in differences(self.table.layout(), *sides):
            rows = found.rows(keep_deletes=self.keep_deletes)
            if rows.num_rows:
                yield rows


def changed_files(
    key_of: KeyOrder, before: Sequence[DataFileMeta], after: Sequence[DataFileMeta]
) -> set[DataFileMeta]:
    """The files of sections in which some file belongs to one version alone."""
    of_one = set(before) ^ set(after)
    sections = partition_into_sections([*before, *(of_one & set(after))], key_of)
    found = [{file for run in section for file in run.files} for section in sections]
    return set().union(*(files for files in found if files & of_one))


def merged_rows(
    table: FileStoreTable,
    access: KeyValueFileReader,
    files: Sequence[DataFileMeta],
    *,
    keep_deletes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Key-value batches of the newest row of each key, in key order.

    Args:
        keep_deletes: also return the newest row of a key when it is a delete.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    layout, function = table.layout(), table.merge_function
    for section in partition_into_sections(files, table.key_of):
        for batch in merged_section(section, layout, function, access):
            yield batch if keep_deletes else without_deletes(batch)


def differences(
    layout: KeyValueLayout, before: Iterator[pa.RecordBatch], after: Iterator[pa.RecordBatch]
) -> Iterator[Differences]:
    """Compares two sides, each in key order with one row a key; the result is in key order."""
    # Rows of one key are in any order: the column names their side.
    layout = replace(
        layout, schema=layout.schema.append(pa.field(_SIDE, pa.int8())), sequence_fields=()
    )
    sides = [_marked(before, _BEFORE), _marked(after, _AFTER)]
    for window in merge_windows(sides, layout):
        yield _differing(window, layout)


def _marked(batches: Iterator[pa.RecordBatch], side: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        mark = pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows)
        yield batch.append_column(_SIDE, mark)


def _differing(window: MergeWindow, layout: KeyValueLayout) -> Differences:
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
    return Differences(
        batch=batch,
        order=order,
        added=np.flatnonzero(alone & is_after),
        changed=newer[differ],
        replaced=older[differ],
        gone=np.flatnonzero(alone & ~is_after),
    )


def _same(
    batch: pa.RecordBatch, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """(pairs,) bool: whether both rows of a pair have the same values."""
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
    """Floats as their bits: NaN equals NaN, and -0.0 differs from 0.0."""
    if pa.types.is_floating(column.type):
        return column.view(_BITS[column.type.byte_width])
    return column
