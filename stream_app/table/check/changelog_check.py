"""Replays the changelog of a table with a primary key, and compares the result with its rows.

The changes of a bucket are sorted runs, so a replay is the merge that a compaction does. The
comparison is a second merge: memory is a batch for each open run. The check skips files that are on
both sides when no change touches their keys.

``changelog-producer`` decides what the changes are, and which rows they lead to:

* ``none``: the files of APPEND snapshots, merged by the table's own rule. So this mode checks the
  compactions.
* ``input``: changelog files, by the same rule.
* ``lookup``, ``full-compaction``: changelog files of compactions. They lead to the rows of the
  levels that such a compaction reaches. A -D has the sequence number of the deleted row, so the
  order of snapshots and files decides.

Source: Paimon `mergetree/MergeTreeWriter.java`,
`mergetree/compact/LookupChangelogMergeFunctionWrapper.java`,
`mergetree/compact/FullChangelogMergeFunctionWrapper.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.mergetree.key_value_batch import KeyValueLayout, batches_of_whole_keys
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merged_section import merged_section, without_deletes
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.changelog_replay import BucketReplay, ChangelogReplay
from stream_app.table.check.compared_rows import (
    FORGOTTEN_DELETES,
    NUMBERS_GO_BACK,
    RowDifferences,
    compare_rows,
)
from stream_app.table.check.metadata_check import Progress
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.diff_read import changed_files, merged_rows
from stream_app.table.versions.deletion_vectors import deletion_vectors

_FILE_ROWS_MAX = 1 << 32
"""A number of rows that no file reaches.

The number of a change is that of its file times this one, plus that of its row.
"""
_LOST_ROWS_FIX = (
    "a compaction has lost or altered rows: roll the table back to a snapshot or tag before it "
    "(stream-app rollback-to), and let the job write the later changes again"
)
_DISAGREEMENT_FIX = (
    "the table or its changelog has lost changes: compare the rows with the source (--conf, "
    "--source-kafka). If the table is right, its followers begin again with all rows "
    "(latest-full); else roll it back to a snapshot at which both agree (stream-app rollback-to)"
)


@dataclass(frozen=True)
class ChangelogCheck:
    """A comparison of a changelog replay's rows with those of the latest snapshot.

    Attributes:
        uncompared_rows: texts about rows that could not be compared, with the reason. They grow
            while the caller iterates over `findings`.
    """

    changelog_replay: ChangelogReplay
    progress: Progress
    uncompared_rows: set[str] = field(default_factory=set)

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each bucket that differs.

        Raises:
            CorruptFileError: a file cannot be read; the caller reports that as another finding.
        """
        for bucket_replay in self.changelog_replay.buckets(self.progress):
            differences = self._bucket_differences(bucket_replay)
            if differences is not None:
                yield self._difference_finding(bucket_replay.bucket_id, differences)

    @property
    def _table(self) -> FileStoreTable:
        return self.changelog_replay.table

    def _bucket_differences(self, bucket_replay: BucketReplay) -> RowDifferences | None:
        compared_files = {
            *bucket_replay.base_files,
            *bucket_replay.change_files,
            *bucket_replay.last_files,
        }
        if not self._table.merges_by_vectors:  # deletion vectors change a file's rows
            replayed_files = [*bucket_replay.base_files, *bucket_replay.change_files]
            compared_files = changed_files(
                self._table.key_of, replayed_files, bucket_replay.last_files
            )
        table_rows = merged_rows(
            self._table,
            self._file_reader(self.changelog_replay.last_snapshot, bucket_replay.bucket_id),
            [file for file in bucket_replay.last_files if file in compared_files],
        )
        return compare_rows(
            self._table,
            self._as_recorded(self._replay_changes(bucket_replay, compared_files)),
            self._as_recorded(table_rows),
            reports_unexpected=not self._may_forget_deletes(bucket_replay),
        )

    def _as_recorded(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows as a compaction's changelog records them, so single rows are merged too.

        A compaction that only upgrades a file does not merge its rows, but its changelog has them
        merged. So a group of columns whose sequence field is null has values in the file and none
        in the changelog; Paimon writes the same.
        """
        if self.changelog_replay.is_by_sequence_number:
            return rows
        layout = self._table.layout()
        merge_function = self._table.merge_function
        return (
            merge_function.merge(window, layout, merges_single_rows=True)
            for window in merge_windows([rows], layout)
        )

    def _may_forget_deletes(self, bucket_replay: BucketReplay) -> bool:
        """Return whether a correct table may have rows that a replay of its changes lacks."""
        if self.changelog_replay.may_forget_deletes:
            self.uncompared_rows.add(FORGOTTEN_DELETES)
            return True
        if self.changelog_replay.is_by_sequence_number and bucket_replay.numbers_go_back:
            self.uncompared_rows.add(NUMBERS_GO_BACK)
            return True
        return False

    def _replay_changes(
        self, bucket_replay: BucketReplay, compared_files: set[DataFileMeta]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that result from the changes of the compared files, in key order."""
        layout, merge_function = self._merge_rule()
        is_by_number = self.changelog_replay.is_by_sequence_number
        file_numbers = {
            file.file_name: file_number
            for file_number, file in enumerate(bucket_replay.change_files, 1)
        }
        file_reader = _ChangeFileReader(
            self._table.bucket_files(*bucket_replay.bucket_id),
            layout.key_names,
            None if is_by_number else file_numbers,
        )
        # With a sequence field, a delete in the base may be newer than a later change.
        rows = merged_rows(
            self._table,
            self._file_reader(self.changelog_replay.base_snapshot, bucket_replay.bucket_id),
            [file for file in bucket_replay.base_files if file in compared_files],
            keeps_deletes=True,
        )
        if not is_by_number:
            rows = (_with_sequence_numbers(batch, 0) for batch in rows)
        changes = [file for file in bucket_replay.change_files if file in compared_files]
        changed_rows = (
            batch
            for section in partition_into_sections(changes, self._table.key_of)
            for batch in merged_section(section, layout, merge_function, file_reader)
        )
        for window in merge_windows([rows, changed_rows], layout):
            yield without_deletes(merge_function.merge(window, layout))

    def _merge_rule(self) -> tuple[KeyValueLayout, MergeFunction]:
        """Return the layout that orders the changes of a key, and the function that merges them."""
        if self.changelog_replay.is_by_sequence_number:
            return self._table.layout(), self._table.merge_function
        return replace(self._table.layout(), sequence_fields=()), Deduplicate()

    def _file_reader(self, snapshot: Snapshot | None, bucket_id: BucketId) -> KeyValueFileReader:
        bucket_files = self._table.bucket_files(*bucket_id)
        if snapshot is None or not self._table.merges_by_vectors:
            return bucket_files
        return replace(bucket_files, vectors=self._vectors[snapshot.snapshot_id].get(bucket_id, {}))

    @cached_property
    def _vectors(self) -> dict[int, dict[BucketId, BucketVectors]]:
        snapshots = (self.changelog_replay.base_snapshot, self.changelog_replay.last_snapshot)
        return {
            snapshot.snapshot_id: deletion_vectors(self._table, snapshot)
            for snapshot in snapshots
            if snapshot is not None
        }

    def _difference_finding(self, bucket_id: BucketId, differences: RowDifferences) -> Finding:
        return Finding(
            kind=FindingKind.CHANGELOG,
            problem=f"{differences.missing_count} rows to which the changes lead are not in the "
            f"table, {differences.wrong_count} have other values there, and to "
            f"{differences.unexpected_count} rows of the table no change leads, such as "
            f"{differences.example}",
            where=self._table.paths.bucket_folder(*bucket_id),
            fix=_LOST_ROWS_FIX
            if not self.changelog_replay.producer.writes_changelog
            else _DISAGREEMENT_FIX,
        )


@dataclass(frozen=True, slots=True)
class _ChangeFileReader:
    """A reader of files of changes, in batches that split no key.

    Attributes:
        file_numbers: file name → its number in time, from which rows get new sequence numbers.
            None if rows keep their numbers.
    """

    file_reader: KeyValueFileReader
    key_names: tuple[str, ...]
    file_numbers: Mapping[str, int] | None

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        batches = self.file_reader.read(file)
        if self.file_numbers is not None:
            batches = _number_in_order(batches, self.file_numbers[file.file_name] * _FILE_ROWS_MAX)
        return batches_of_whole_keys(batches, self.key_names)


def _number_in_order(
    batches: Iterator[pa.RecordBatch], first_sequence_number: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _with_sequence_numbers(
            batch, np.arange(first_sequence_number, first_sequence_number + batch.num_rows)
        )
        first_sequence_number += batch.num_rows


def _with_sequence_numbers(
    batch: pa.RecordBatch, sequence_numbers: int | npt.NDArray[np.int64]
) -> pa.RecordBatch:
    index = batch.schema.get_field_index(SEQUENCE_NUMBER)
    column = pa.array(np.broadcast_to(np.asarray(sequence_numbers, np.int64), batch.num_rows))
    return batch.set_column(index, batch.schema.field(index), column)
