"""Reads the rows of a split: merges sorted runs, and reads other files as they are.

Source: Paimon `operation/MergeFileSplitRead.java`, `RawFileSplitRead.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.data_file_reader import FilteredRowsReader
from stream_app.filestore.data.joined_files_reader import JoinedFilesReader
from stream_app.filestore.data.part_filter import ConditionPartFilter
from stream_app.filestore.data.stats_filter import StatsFilter
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import Section, partition_into_sections
from stream_app.mergetree.merged_section import (
    is_ordered_by_age,
    merged_section,
    without_deletes,
)
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.data_split import DataSplit
from stream_app.model.files.joined_files import group_joined_files
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.planning.read.split_generator import (
    are_merged_by_vectors,
    needs_no_merge,
    section_files,
)
from stream_app.table.conditions.index_pruning import ColumnAndKind, index_pruning
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import SYSTEM_COLUMNS, FileStoreTable
from stream_app.table.merge_errors import merge_errors
from stream_app.table.read.selection import Selection
from stream_app.table.versions.read_refusals import check_readable


@dataclass(slots=True, eq=False)
class SplitRead:
    """A reader of a table's columns. The condition tests only the newest row of each key.

    Attributes:
        shows_row_kinds: whether to show row kinds, and deletes that no compaction has removed, as
            Paimon's audit log does.
        selection: gives each batch its requested rows and columns. `Selection` explains `columns`.
        watch: receives each batch before the condition is applied; an error of it ends the read.
    """

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    row_filter: RowFilter | None = None
    shows_row_kinds: bool = False
    watch: Callable[[pa.RecordBatch], None] | None = None
    selection: Selection = field(init=False, repr=False)
    _unknown_indexes: set[ColumnAndKind] = field(init=False, default_factory=set, repr=False)

    def __post_init__(self) -> None:
        check_readable(self.table, merges_rows=True)
        self.selection = Selection(self.table, self.columns, self.row_filter, self.shows_row_kinds)

    def read(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, without empty batches.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        read_batches = (
            self._read_merged if self.table.kind_traits.merges_by_key else self._read_appended
        )
        with merge_errors(self.table.paths.bucket_folder(split.partition, split.bucket)):
            for batch in read_batches(split):
                if self.watch is not None:
                    self.watch(batch)
                matching_rows = self.selection.select(batch)
                if matching_rows.num_rows:
                    yield matching_rows

    def _read_appended(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        bucket_files = self._bucket_files(
            split, self._vectors(split), self._part_filter(merges_rows=False)
        )
        if self.table.schema.joins_files:
            for group in group_joined_files(split.files):
                if len(group.files) > 1 or [*self._files_matching_indexes(split, group.files)]:
                    yield from JoinedFilesReader(bucket_files).read(group)
            return
        for file in self._files_matching_indexes(split, split.files):
            yield from bucket_files.read(file)

    def _read_merged(self, split: DataSplit) -> Iterator[pa.RecordBatch]:
        """Yield a split's rows; only files whose keys may overlap are merged."""
        raw_parts = self._part_filter(merges_rows=False)
        merged_parts = self._part_filter(merges_rows=True)
        vectors = self._vectors(split)
        for section in partition_into_sections(split.files, self.table.key_of):
            files = section_files(section)
            system_columns = self._system_columns(section)
            if needs_no_merge(files) or (
                self.table.merges_by_vectors and are_merged_by_vectors(files)
            ):
                bucket_files = self._bucket_files(split, vectors, raw_parts, system_columns)
                for file in self._files_matching_indexes(split, files):
                    yield from bucket_files.read(file)
                continue
            merge_reader = self._reader_of_wanted_keys(
                self._bucket_files(split, vectors, merged_parts, system_columns)
            )
            layout = self.table.layout(self._columns_to_read(), system_columns=system_columns)
            for batch in merged_section(section, layout, self.table.merge_function, merge_reader):
                yield batch if self.shows_row_kinds else without_deletes(batch)

    def _files_matching_indexes(
        self, split: DataSplit, files: Iterable[DataFileMeta]
    ) -> Iterator[DataFileMeta]:
        """Yield the files in which a row may match, according to the index files beside them."""
        indexes = index_pruning(self.table, self.row_filter, self._unknown_indexes)
        for file in files:
            if indexes is None or indexes.is_worth_reading(
                BucketId(split.partition, split.bucket), file
            ):
                yield file

    def _bucket_files(
        self,
        split: DataSplit,
        vectors: BucketVectors,
        part_filter: ConditionPartFilter | None,
        system_columns: Container[str] = SYSTEM_COLUMNS,
    ) -> BucketFiles:
        bucket_files = self.table.bucket_files(
            split.partition,
            split.bucket,
            columns=self._columns_to_read(),
            system_columns=system_columns,
            part_filter=part_filter,
        )
        return replace(bucket_files, vectors=vectors)

    def _system_columns(self, section: Section) -> set[str]:
        """Return the system columns that the merge needs; others would dominate narrow reads."""
        system_columns = set()
        if self.table.schema.sequence_fields or not is_ordered_by_age(section):
            system_columns.add(SEQUENCE_NUMBER)
        if self.shows_row_kinds or any(file.may_have_deletes for file in section_files(section)):
            system_columns.add(VALUE_KIND)
        return system_columns

    def _reader_of_wanted_keys(self, file_reader: KeyValueFileReader) -> KeyValueFileReader:
        """Return a reader without the rows of keys that a condition on the key excludes."""
        if self.row_filter is None or self.watch is not None:
            return file_reader
        if not set(self.row_filter.columns) <= set(self.table.schema.primary_keys):
            return file_reader
        return FilteredRowsReader(file_reader, self.row_filter.expression)

    def _part_filter(self, *, merges_rows: bool) -> ConditionPartFilter | None:
        if self.row_filter is None:
            return None
        schema = self.table.schema
        columns = set(self.row_filter.columns)
        if merges_rows:
            columns &= set(schema.trimmed_primary_keys)
        stats_filter = StatsFilter(
            self.row_filter.expression, schema.fields.project(self.row_filter.columns)
        )
        return ConditionPartFilter(stats_filter, frozenset(columns)) if columns else None

    def _vectors(self, split: DataSplit) -> BucketVectors:
        names = {file.file_name for file in split.files}
        return self.table.deletion_vector_files.read_bucket(split.index_entries, names)

    def _columns_to_read(self) -> RowType:
        """Return the requested columns and those that the merge needs, in the table's order."""
        schema = self.table.schema
        if self.columns is None:
            return schema.fields
        needed_names = {
            *self.selection.needed_columns,
            *schema.trimmed_primary_keys,
            *schema.sequence_fields,
        }
        needed_names |= schema.merge_rules.needed_columns(needed_names)
        return schema.fields.project([name for name in schema.fields.names if name in needed_names])
