"""Splits the rows of a partition's files into files of a new number of buckets.

The split merges nothing. A row with a key keeps its sequence number, kind and level. So the new LSM
trees have the same content. Rows that wait for a compaction still wait, and their changelog is
still to be written. Rows without a key keep their order.

Source: Paimon `flink/action/RescaleAction.java` writes merged rows to level 0 instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.filestore.data.rolling_file_writer import RollingFileWriter
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.merge_errors import merge_errors
from stream_app.table.write.bucket_assigner import key_buckets, rows_by_bucket


@dataclass(frozen=True, slots=True)
class BucketDivision:
    """A division of one partition's files into another number of buckets.

    Attributes:
        partition: the serialized partition.
        bucket_count: the new number of buckets.
        vectors: the deletion vectors of the old buckets, whose rows are omitted.
    """

    table: FileStoreTable
    partition: bytes
    bucket_count: int
    vectors: Mapping[BucketId, BucketVectors]

    def split(self, group: Sequence[ManifestEntry]) -> list[BucketChange]:
        """Write the rows of a group of `split_groups`; a failure deletes the new files.

        Args:
            group: files of one level.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        writers: dict[int, RollingFileWriter] = {}
        try:
            with merge_errors(self.table.paths.partition_folder(self.partition)):
                for bucket, rows in self._rows(group):
                    if bucket not in writers:
                        writers[bucket] = self._writer(bucket, group[0].file)
                    writers[bucket].write(rows)
                return [
                    BucketChange(
                        partition=self.partition,
                        bucket=bucket,
                        total_buckets=self.bucket_count,
                        added_files=writer.close(),
                    )
                    for bucket, writer in writers.items()
                ]
        except BaseException:
            for writer in writers.values():
                writer.abort()
            raise

    def _writer(self, bucket: int, old_file: DataFileMeta) -> RollingFileWriter:
        bucket_files = self.table.bucket_files(self.partition, bucket)
        if not self.table.kind_traits.merges_by_key:  # no row is new, so no checksum counts it
            return bucket_files.row_writer(first_sequence_number=0, file_source=FileSource.COMPACT)
        file_source = (
            FileSource.COMPACT if old_file.level else old_file.file_source or FileSource.APPEND
        )
        return bucket_files.data_writer(level=old_file.level, file_source=file_source)

    def _rows(self, group: Sequence[ManifestEntry]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows by new bucket, in key order, or without a key in the group's order."""
        schema = self.table.schema
        read_rows = self._merge_group if self.table.kind_traits.merges_by_key else self._read_run
        for rows in read_rows(group):
            buckets = key_buckets(rows, schema, self.bucket_count)
            for _, bucket, bucket_rows in rows_by_bucket(rows, schema, buckets, self.bucket_count):
                yield bucket, bucket_rows

    def _merge_group(self, group: Sequence[ManifestEntry]) -> Iterator[pa.RecordBatch]:
        layout = self.table.layout()
        key_of = self.table.key_of
        runs: dict[int, list[ManifestEntry]] = {}
        for entry in sorted(group, key=lambda entry: key_of(entry.file.min_key)):
            runs.setdefault(entry.bucket, []).append(entry)
        for window in merge_windows([self._read_run(run) for run in runs.values()], layout):
            rows = window.batch
            yield rows if window.order is None else layout.rows_at(rows, window.order)

    def _read_run(self, entries: Sequence[ManifestEntry]) -> Iterator[pa.RecordBatch]:
        for entry in entries:
            vectors = self.vectors.get(BucketId(self.partition, entry.bucket), {})
            bucket_files = self.table.bucket_files(self.partition, entry.bucket)
            yield from replace(bucket_files, vectors=vectors).read(entry.file)
