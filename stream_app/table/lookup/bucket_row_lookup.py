"""Looks up a table's rows by key, for the writer of one bucket.

It reads the latest snapshot. An epoch is written after the previous one is committed, so the
snapshot has all of the job's rows. A concurrent compaction moves rows between files but changes
none, and the snapshot's files stay until it expires.

Source: Paimon `mergetree/LookupLevels.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from stream_app.errors import CorruptFileError
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.lookup.key_lookup import KeyLookup, RowsOfKeys
from stream_app.mergetree.lookup.version_lookup import VersionLookup
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.lookup.lookup_reader import bucket_lookup, version_lookup
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan


class BucketRowLookup:
    """A lookup of a bucket's rows, which reads manifests on first use.

    Implements `mergetree.file_access.OldRowLookup`.
    """

    def __init__(
        self,
        table: FileStoreTable,
        partition: bytes,
        bucket: int,
        files: Iterable[DataFileMeta] | None = None,
    ) -> None:
        """Look up rows of one bucket.

        Args:
            files: the files to read, if no snapshot names them yet; None: the latest snapshot's.
        """
        self.table = table
        self.partition = partition
        self.bucket = bucket
        self._snapshot: Snapshot | None = None
        if files is None and table.is_emptied:
            files = ()
        # None until the first lookup has read the manifests.
        self._files = None if files is None else list(files)
        self._vectors: BucketVectors = {}

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], new_files: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        """See `OldRowLookup.find`.

        Raises:
            CorruptFileError: a file of the latest snapshot cannot be read.
        """
        files = self._files
        if files is None:
            files = self._read_files(self.table.snapshots.latest())
        while True:
            try:
                return self._lookup(columns).rows(keys, [*files, *new_files])
            except CorruptFileError:
                # The snapshot may have expired meanwhile.
                latest_snapshot = self.table.snapshots.latest()
                if latest_snapshot == self._snapshot:
                    raise
                files = self._read_files(latest_snapshot)

    def _lookup(self, columns: Sequence[str]) -> KeyLookup | VersionLookup:
        bucket = self.partition, self.bucket
        if self.table.schema.history is not None:
            return version_lookup(self.table, *bucket, self._vectors)
        return bucket_lookup(self.table, *bucket, columns, self._vectors)

    def _read_files(self, snapshot: Snapshot | None) -> list[DataFileMeta]:
        """Read the bucket's live files and deletion vectors, and return the files."""
        buckets = [BucketId(self.partition, self.bucket)]
        entries = FileStoreScan(self.table).live(snapshot, buckets)
        self._snapshot = snapshot
        self._files = files = [entry.file for entry in entries]
        if self.table.merges_by_vectors and snapshot is not None:
            vectors = deletion_vectors(self.table, snapshot, buckets)
            self._vectors = vectors.get(buckets[0], {})
        return files
