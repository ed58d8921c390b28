"""The rows of a snapshot: sorted runs merged while they are read.

Without a primary key there is nothing to merge: files are read one after another.

Source: seed document 003, Paimon `operation/MergeFileSplitRead.java`, `RawFileSplitRead.java`,
`table/source/AppendOnlySplitGenerator.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import UsageError
from stream_app.filestore.deletion_vector_files import BucketVectors
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.deletion_vector import live_rows
from stream_app.mergetree.compact.compact_rewriter import merged_section, without_deletes
from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.model.core_options import unknown_key
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.data_type import RowType
from stream_app.model.snapshot import Snapshot
from stream_app.table.bucket_pruning import BucketPruning
from stream_app.table.deletion_vectors import deletion_vectors
from stream_app.table.file_store_scan import BucketId, FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.readable import check_readable


@dataclass(frozen=True, slots=True)
class MergeRead:
    """Reads columns of a table; a filter sees only the newest row of each key.

    Attributes:
        columns: names, in the order wanted; None for all.
        where: keeps rows; may use columns that are not among `columns`.
        where_columns: the columns that `where` uses.
        pruning: buckets in which no row can pass `where`; their files are not opened.
    """

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    where: pc.Expression | None = None
    where_columns: tuple[str, ...] = ()
    pruning: BucketPruning | None = None

    def __post_init__(self) -> None:
        check_readable(self.table, merges=True)
        names = self.table.schema.fields.names
        unknown = [
            name for name in (*(self.columns or ()), *self.where_columns) if name not in names
        ]
        if unknown:
            raise UsageError(
                "; ".join(unknown_key("column", name, names) for name in unknown),
                where=self.table.location,
                fix=f"the table has {', '.join(names)}",
            )

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of what is read."""
        fields = self.table.schema.fields
        return arrow_schema(fields if self.columns is None else fields.project(self.columns))

    def read(self, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
        """The rows of a snapshot, bucket by bucket; none without a snapshot.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        buckets: dict[BucketId, list[DataFileMeta]] = {}
        for entry in FileStoreScan(self.table).live(snapshot):
            if self.pruning is not None and not self.pruning.may_hold(entry):
                continue
            buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        vectors: dict[BucketId, BucketVectors] = {}
        if snapshot is not None and not self.table.schema.has_primary_key:
            vectors = deletion_vectors(self.table, snapshot, buckets.keys())
        for bucket, files in buckets.items():
            for batch in self._bucket(bucket, files, vectors.get(bucket, {})):
                chosen = self._choose(batch)
                if chosen.num_rows:
                    yield chosen

    def _bucket(
        self, bucket: BucketId, files: Sequence[DataFileMeta], vectors: BucketVectors
    ) -> Iterator[pa.RecordBatch]:
        columns = self._read_columns()
        access = self.table.bucket_files(*bucket, columns=columns)
        if not self.table.schema.has_primary_key:
            for file in in_order_of_arrival(files):
                batches, vector = access.read(file), vectors.get(file.file_name)
                yield from batches if vector is None else live_rows(batches, vector)
            return
        layout = self.table.layout(columns)
        for section in partition_into_sections(files, self.table.key_of):
            if len(section) == 1 and not any(file.may_have_deletes for file in section[0].files):
                for file in section[0].files:
                    yield from access.read(file)
                continue
            for batch in merged_section(section, layout, self.table.merge_function, access):
                yield without_deletes(batch)

    def _read_columns(self) -> RowType:
        """What must be read: what is wanted, and what merging needs, in the table's order."""
        schema = self.table.schema
        if self.columns is None:
            return schema.fields
        needed = {
            *self.columns,
            *self.where_columns,
            *schema.trimmed_primary_keys,
            *schema.sequence_fields,
        }
        return schema.fields.project([name for name in schema.fields.names if name in needed])

    def _choose(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.where is not None:
            batch = batch.filter(self.where)
        schema = self.schema
        return pa.RecordBatch.from_arrays(
            [batch.column(name) for name in schema.names], schema=schema
        )


def in_order_of_arrival(files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    """Files of a bucket without keys as they were written, as far as their numbers tell."""
    return sorted(files, key=lambda file: file.min_sequence_number)
