"""Finds a table's rows of some keys, for the writer of one bucket.

The newest snapshot tells them. An epoch is written when the one before is committed, so nothing of
the job is missing there. A compaction that is published meanwhile moves rows between files, and
changes none; files of the snapshot stay until it expires.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.errors import CorruptFileError
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.lookup_reader import bucket_lookup


@dataclass(slots=True)
class OldRowsOfTable:
    """Implements `mergetree.file_access.OldRows`; reads manifests when it is first asked."""

    table: FileStoreTable
    partition: bytes
    bucket: int
    _snapshot: Snapshot | None = None
    _files: list[DataFileMeta] | None = None
    _vectors: BucketVectors = field(default_factory=dict)

    @staticmethod
    def of_files(
        table: FileStoreTable, partition: bytes, bucket: int, files: Iterable[DataFileMeta]
    ) -> OldRowsOfTable:
        """Rows of files that no snapshot names."""
        return OldRowsOfTable(table, partition, bucket, _files=list(files))

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], newer: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        """See `OldRows.find`.

        Raises:
            CorruptFileError: a file of the newest snapshot cannot be read.
        """
        if self._files is None and self.table.is_emptied:
            self._files = []
        if self._files is None:
            self._read(self.table.snapshots.latest())
        while True:
            assert self._files is not None, "they have been read"
            lookup = bucket_lookup(self.table, self.partition, self.bucket, columns, self._vectors)
            try:
                return lookup.rows(keys, [*self._files, *newer])
            except CorruptFileError:
                # The snapshot may have expired since.
                latest = self.table.snapshots.latest()
                if latest == self._snapshot:
                    raise
                self._read(latest)

    def _read(self, snapshot: Snapshot | None) -> None:
        buckets = [(self.partition, self.bucket)]
        entries = FileStoreScan(self.table).live(snapshot, buckets)
        self._snapshot, self._files = snapshot, [entry.file for entry in entries]
        if self.table.merges_by_vectors and snapshot is not None:
            vectors = deletion_vectors(self.table, snapshot, buckets)
            self._vectors = vectors.get(buckets[0], {})
