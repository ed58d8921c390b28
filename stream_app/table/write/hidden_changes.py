"""Reads and writes the hidden changes of one bucket, for a table with a history.

The bucket's writer calls it (`mergetree.write.history_versions`). The changes are index files of
a separate type, so a snapshot, a tag and a rollback have the hidden changes of their versions. An
epoch with hidden changes adds a file, and merges it with the files that are not much larger. So a
bucket has few files, and a change is rewritten few times. Reads are cached, because a file never
changes.

Spark's AUTO CDC keeps these changes in an auxiliary table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.errors import CorruptFileError
from stream_app.fileio.recent_files import RecentFiles
from stream_app.mergetree.key_value_batch import (
    integer_view,
    merge_order,
    rows_at,
    with_sequence_number,
)
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys, rows_with_keys
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from stream_app.model.files.index_file_meta import (
    HIDDEN_CHANGES,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.options.merge_options import HISTORY_LATE_CHANGES
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.index_manifests import index_manifest

_PREFIX = "hidden"
"""The prefix of the files' names, ``hidden-SCHEMA-NUMBER-…``; the number orders the files."""
_CACHED_BYTES_MAX = 256 << 20
"""Bytes of rows that a worker caches."""
_INT64_MIN = -(1 << 63)
RECENT_HIDDEN: RecentFiles[HiddenRows] = RecentFiles(
    _CACHED_BYTES_MAX, lambda file: file.rows.nbytes
)


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """The rows of a file.

    Attributes:
        newest_start: the latest start among the rows, as its column's integer.
    """

    rows: pa.RecordBatch
    newest_start: int


@dataclass(slots=True, kw_only=True)
class HiddenChangesOfBucket:
    """The hidden changes of one bucket, in files that its index names.

    Implements `mergetree.file_access.HiddenChanges`.

    Attributes:
        late_ms: how much older than the newest change a merged file's changes may be.
    """

    table: FileStoreTable
    partition: bytes
    bucket: int
    history_columns: HistoryColumns
    late_ms: int
    late_change_count: int = field(init=False, default=0)
    _added_batches: list[pa.RecordBatch] = field(init=False, default_factory=list)
    _entries: Sequence[IndexManifestEntry] | None = field(init=False, default=None)

    @staticmethod
    def of_table(
        table: FileStoreTable, partition: bytes, bucket: int
    ) -> HiddenChangesOfBucket | None:
        """Return a bucket's hidden changes; None if the table keeps none.

        Changes that are ordered by offsets are never late.
        """
        history_columns = table.schema.history
        late_ms = table.options[HISTORY_LATE_CHANGES]
        if history_columns is None or not late_ms or history_columns.sequence == "offset":
            return None
        return HiddenChangesOfBucket(
            table=table,
            partition=partition,
            bucket=bucket,
            history_columns=history_columns,
            late_ms=late_ms,
        )

    def count_late_changes(self, starts: pa.Array) -> None:
        """Count the starts that are too old for a hidden change; none are without index files."""
        if files := [self._file(entry) for entry in self._bucket_entries()]:
            oldest_start = self._oldest_start(max(file.newest_start for file in files), starts.type)
            is_late = pc.less(integer_view(starts), oldest_start)
            self.late_change_count += int(pc.sum(is_late).as_py() or 0)

    def find(self, keys: pa.RecordBatch, start_min: int | None) -> RowsOfKeys:
        """See `HiddenChanges.find`.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        indices: list[Int64s] = [np.empty(0, np.int64)]
        row_batches = [self.table.layout().no_rows]
        files = [self._file(entry) for entry in self._bucket_entries()]
        file_rows = (
            file.rows for file in files if start_min is None or file.newest_start >= start_min
        )
        for rows in (*file_rows, *self._numbered_rows()):
            key_indices, row_indices = rows_with_keys(keys, rows, keys.schema.names)
            indices.append(key_indices)
            row_batches.append(rows_at(rows, row_indices))
        return RowsOfKeys(np.concatenate(indices), pa.concat_batches(row_batches))

    def add(self, rows: pa.RecordBatch) -> None:
        """Gather the changes in memory, until `finish` writes them."""
        self._added_batches.append(rows)

    def finish(self) -> tuple[IndexManifestEntry, ...]:
        """Write the added changes, merged with those of small index files, which they replace."""
        if not self._added_batches:
            return ()
        entries = self._bucket_entries()
        new_rows = self._numbered_rows()
        row_count = sum(rows.num_rows for rows in new_rows)
        old_counts = [entry.index_file.row_count for entry in entries]
        merged_indices = files_to_merge(old_counts, row_count)
        old_rows = [self._file(entries[index]).rows for index in merged_indices]
        new_entries = self._write(
            self._newest_changes([*old_rows, *new_rows]), self._next_file_number + len(new_rows) - 1
        )
        self._added_batches = []
        self._entries = [
            *(entry for index, entry in enumerate(entries) if index not in merged_indices),
            *new_entries,
        ]
        return (*(entries[index].as_delete() for index in merged_indices), *new_entries)

    def _newest_changes(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return the newest change of each start, in order, without changes that are too old."""
        rows = pa.concat_batches(batches)
        order, is_last = merge_order(rows, self.table.layout())
        rows = rows_at(rows, order[is_last])
        starts = rows.column(self.history_columns.valid_from)
        oldest_start = self._oldest_start(pc.max(integer_view(starts)).as_py(), starts.type)
        return rows.filter(pc.greater_equal(integer_view(starts), oldest_start))

    def _oldest_start(self, newest_start: int, start_type: pa.DataType) -> int:
        """Return the start of the oldest change that a merge keeps beside the newest one."""
        return max(newest_start - self.late_ms * _per_ms(start_type), _INT64_MIN)

    @property
    def _next_file_number(self) -> int:
        file_numbers = (_numbers_in_name(self._path(entry))[1] for entry in self._bucket_entries())
        return 1 + max(file_numbers, default=-1)

    def _numbered_rows(self) -> list[pa.RecordBatch]:
        """Return the added rows with sequence numbers greater than those in the files."""
        file_number = self._next_file_number
        return [
            with_sequence_number(rows, file_number + index)
            for index, rows in enumerate(self._added_batches)
        ]

    def _bucket_entries(self) -> Sequence[IndexManifestEntry]:
        """Return the bucket's index files in the latest snapshot, which has all earlier epochs."""
        if self._entries is None:
            latest_snapshot = None if self.table.is_emptied else self.table.snapshots.latest()
            manifest = index_manifest(
                self.table, latest_snapshot.index_manifest if latest_snapshot else None
            )
            bucket_id = BucketId(self.partition, self.bucket)
            self._entries = [
                entry
                for entry in manifest.entries
                if entry.holds_hidden_changes and entry.bucket_id == bucket_id
            ]
        return self._entries

    def _file(self, entry: IndexManifestEntry) -> HiddenRows:
        path = self._path(entry)
        # Rows are in the table's schema, which may change while this process runs.
        key = f"{path} {self.table.schema.schema_id}"
        return RECENT_HIDDEN.get(key, lambda: self._read(path, entry))

    def _path(self, entry: IndexManifestEntry) -> str:
        return self.table.paths.index_file(self.partition, self.bucket, entry.index_file)

    def _read(self, path: str, entry: IndexManifestEntry) -> HiddenRows:
        reader = self.table.bucket_files(self.partition, self.bucket).reader
        rows = pa.concat_batches(
            list(reader.read(path, _as_data_file(entry.index_file, *_numbers_in_name(path))))
        )
        starts = integer_view(rows.column(self.history_columns.valid_from))
        return HiddenRows(rows, pc.max(starts).as_py())

    def _write(self, rows: pa.RecordBatch, file_number: int) -> list[IndexManifestEntry]:
        """Write rows to index files, which `file_number` orders, and return their ADD entries."""
        name = f"{_PREFIX}-{self.table.schema.schema_id}-{file_number}-"
        bucket_files = self.table.bucket_files(self.partition, self.bucket)
        folder = self.table.paths.index_folder_of(self.partition, self.bucket)
        writer = replace(bucket_files, folder=folder).index_writer(name)
        try:
            writer.write(rows)
            new_files = writer.close()
        except BaseException:
            writer.abort()
            raise
        return [
            IndexManifestEntry(
                kind=FileKind.ADD,
                partition=self.partition,
                bucket=self.bucket,
                index_file=IndexFileMeta(
                    index_type=HIDDEN_CHANGES,
                    file_name=file.file_name,
                    file_size=file.file_size,
                    row_count=file.row_count,
                ),
            )
            for file in new_files
        ]


def files_to_merge(row_counts: Sequence[int], row_count: int) -> list[int]:
    """Return the indices of the files with which added rows are merged.

    These are the smaller files, as long as the next one has at most twice the rows so far.
    """
    indices: list[int] = []
    for index in sorted(range(len(row_counts)), key=row_counts.__getitem__):
        if row_counts[index] > 2 * row_count:
            break
        indices.append(index)
        row_count += row_counts[index]
    return indices


def _numbers_in_name(path: str) -> tuple[int, int]:
    """Return the schema's id and the file number in a file's name.

    Raises:
        CorruptFileError: stream_app does not give such a name.
    """
    match path.rpartition("/")[2].split("-")[:3]:
        case [prefix, schema_id, file_number] if (
            prefix == _PREFIX and schema_id.isdecimal() and file_number.isdecimal()
        ):
            return int(schema_id), int(file_number)
    raise CorruptFileError(
        f"the index file of type {HIDDEN_CHANGES} does not have the name that stream_app gives it",
        where=path,
        fix="roll the table back to a tag",
    )


def _as_data_file(file: IndexFileMeta, schema_id: int, file_number: int) -> DataFileMeta:
    """Describe an index file as a data file, whose reader can then read it."""
    return DataFileMeta(
        file_name=file.file_name,
        file_size=file.file_size,
        row_count=file.row_count,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=file_number,
        schema_id=schema_id,
        level=0,
    )


def _per_ms(timestamp_type: pa.DataType) -> int:
    """Return the units of a timestamp in a millisecond; its precision is at least 3."""
    return {"ms": 1, "us": 1000, "ns": 1_000_000}[timestamp_type.unit]
