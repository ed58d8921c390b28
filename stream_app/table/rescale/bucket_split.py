"""Writes rows of a partition's files to the files of other buckets.

Nothing is merged: a row keeps its sequence number, its kind and its level. So the new buckets are
LSM trees that mean what the old ones meant. Rows that wait for a compaction go on waiting, and
their changelog is still to be written.

Source: Paimon `flink/action/RescaleAction.java` writes merged rows to level 0 instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.rolling_file_writer import RollingFileWriter
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import FileSource
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import merge_errors
from stream_app.table.write.bucket_assigner import key_buckets, rows_by_bucket


@dataclass(frozen=True, slots=True)
class BucketSplit:
    """Splits files of one partition.

    Attributes:
        partition: serialized.
        buckets: the new number.
        vectors: the deletion vectors of the old buckets; the rows that they mark are left out.
    """

    table: FileStoreTable
    partition: bytes
    buckets: int
    vectors: Mapping[BucketId, BucketVectors]

    def split(self, group: Sequence[ManifestEntry]) -> list[BucketChange]:
        """Write the rows of one of the groups of `split_groups`; on failure its files are deleted.

        Args:
            group: files of one level.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        level = group[0].file.level
        source = FileSource.COMPACT if level else group[0].file.file_source or FileSource.APPEND
        writers: dict[int, RollingFileWriter] = {}
        try:
            with merge_errors(self.table.paths.partition_folder(self.partition)):
                for bucket, rows in self._rows(group):
                    if bucket not in writers:
                        files = self.table.bucket_files(self.partition, bucket)
                        writers[bucket] = files.data_writer(level=level, source=source)
                    writers[bucket].write(rows)
                return [
                    BucketChange(
                        partition=self.partition,
                        bucket=bucket,
                        total_buckets=self.buckets,
                        added=writer.close(),
                    )
                    for bucket, writer in writers.items()
                ]
        except BaseException:
            for writer in writers.values():
                writer.abort()
            raise

    def _rows(self, group: Sequence[ManifestEntry]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows in key order, by their new bucket."""
        layout, schema = self.table.layout(), self.table.schema
        runs: dict[int, list[ManifestEntry]] = {}
        for entry in group:
            runs.setdefault(entry.bucket, []).append(entry)
        for window in merge_windows([self._run(*run) for run in runs.items()], layout):
            rows = window.batch
            if window.order is not None:
                rows = layout.rows_at(rows, window.order)
            buckets = key_buckets(rows, schema, self.buckets)
            for _, bucket, part in rows_by_bucket(rows, schema, buckets, self.buckets):
                yield bucket, part

    def _run(self, bucket: int, entries: list[ManifestEntry]) -> Iterator[pa.RecordBatch]:
        vectors = self.vectors.get((self.partition, bucket), {})
        files: BucketFiles = replace(
            self.table.bucket_files(self.partition, bucket), vectors=vectors
        )
        key_of = self.table.key_of
        for entry in sorted(entries, key=lambda one: key_of(one.file.min_key)):
            yield from files.read(entry.file)
