"""Builds the index of all key shares in one scan of a snapshot's keys.

The scan writes the keys to local disk, so that only one key share is in memory at a time.

Source: Paimon `crosspartition/IndexBootstrap.java`.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UnsupportedTableError
from stream_app.model.options.bucket_options import CROSS_PARTITION_UPSERT_INDEX_TTL
from stream_app.model.snapshot import Snapshot
from stream_app.planning.key_index.layer_chain import LayerSnapshot
from stream_app.table.key_index.key_layer import layer_of
from stream_app.table.key_index.key_layer_files import CodedBuckets, ShareFiles
from stream_app.table.key_index.table_key_reader import KeyFile, TableKeyReader
from stream_app.table.map_in_threads import map_in_threads
from stream_app.table.versions.file_store_scan import FileStoreScan

_SCRATCH_PREFIX = ".building-"


def layer_snapshot(snapshot: Snapshot) -> LayerSnapshot:
    """Return the number and the short name of a snapshot, as layers record them."""
    name = hashlib.sha256(snapshot.delta_manifest_list.encode()).hexdigest()[:12]
    return LayerSnapshot(snapshot.snapshot_id, name)


@dataclass(slots=True)
class KeysByShare:
    """The keys of files, by key share, on local disk."""

    key_reader: TableKeyReader
    folder: Path
    _writers: dict[int, pa.RecordBatchFileWriter] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def add(self, file: KeyFile) -> None:
        """Add the keys of a file; any thread may call it.

        Raises:
            CorruptFileError: the file cannot be read.
        """
        for rows in self.key_reader.read(file):
            for share, keys in self.key_reader.keys_by_share(file, rows):
                with self._lock:
                    if share not in self._writers:
                        path = str(self.folder / str(share))
                        self._writers[share] = pa.ipc.new_file(path, self.key_reader.keys_schema)
                    self._writers[share].write_batch(keys)

    def finish(self) -> None:
        """Close the files on local disk, after all keys were added."""
        for writer in self._writers.values():
            writer.close()

    def keys_of(self, share: int) -> list[pa.RecordBatch]:
        """Return the keys of a key share in as few batches as possible."""
        if share not in self._writers:
            return []
        with pa.memory_map(str(self.folder / str(share))) as source:
            return list(pa.ipc.open_file(source).read_all().combine_chunks().to_batches())


@dataclass(slots=True, kw_only=True)
class KeyIndexBuilder:
    """A builder of the index at one snapshot.

    Attributes:
        folder: the folder for the keys' temporary files.
        share_files: the files of each key share, by its number.
        threads: the number of files that are read at a time.
    """

    key_reader: TableKeyReader
    snapshot: Snapshot
    folder: Path
    share_files: Sequence[ShareFiles]
    threads: int

    def build(self) -> None:
        """Build the index of each key share that has no index of the snapshot.

        The caller holds the lock of the folder.

        Raises:
            CorruptFileError: a file of the snapshot cannot be read.
            UnsupportedTableError: a key share is too large.
        """
        end = layer_snapshot(self.snapshot)
        missing_shares = [
            share
            for share, files in enumerate(self.share_files)
            if all(span.end != end or span.start is not None for span in files.spans())
        ]
        if not missing_shares:
            return
        coded_buckets = CodedBuckets()
        for folder in self.folder.glob(f"{_SCRATCH_PREFIX}*"):  # remains of a killed process
            shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX, dir=self.folder) as name:
            keys_by_share = KeysByShare(self.key_reader, Path(name))
            map_in_threads(self.threads, keys_by_share.add, self._files(coded_buckets))
            keys_by_share.finish()
            for share in missing_shares:
                self._write_share(keys_by_share.keys_of(share), share, coded_buckets)

    def _files(self, coded_buckets: CodedBuckets) -> list[KeyFile]:
        """Return the files to read, without buckets whose files are all older than the TTL."""
        table = self.key_reader.table
        entries = FileStoreScan(table).live(self.snapshot)
        files = [KeyFile(entry, coded_buckets.code(entry.bucket_id)) for entry in entries]
        ttl_ms = table.options[CROSS_PARTITION_UPSERT_INDEX_TTL]
        if ttl_ms is None:
            return files
        oldest_time_ms = local_wall_clock_ms(table.clock) - ttl_ms
        young_codes = {
            file.bucket_code
            for file in files
            if (file.entry.file.creation_time_ms or 0) >= oldest_time_ms
        }
        return [file for file in files if file.bucket_code in young_codes]

    def _check_size(self, key_batches: Sequence[pa.RecordBatch]) -> None:
        """Check the size of a string column, which Arrow limits to 2 GiB."""
        if len(key_batches) > 1:
            raise UnsupportedTableError(
                f"the keys of one of {len(self.share_files)} shares of the index have more than 2 "
                "GiB",
                where=self.key_reader.table.location,
                fix="raise 'dynamic-bucket.assigner-parallelism'; with partition-lookup the table "
                "needs more buckets",
            )

    def _write_share(
        self, key_batches: Sequence[pa.RecordBatch], share: int, coded_buckets: CodedBuckets
    ) -> None:
        self._check_size(key_batches)
        rows = key_batches[0] if key_batches else self.key_reader.no_keys()
        keys, bucket_codes = self.key_reader.newest_buckets(rows)
        used_codes, share_codes = np.unique(bucket_codes, return_inverse=True)
        share_buckets = CodedBuckets()
        for code in used_codes.tolist():
            share_buckets.code(coded_buckets.ids[code])
        bucket_codes = share_codes.astype(np.int32)
        share_buckets.count(bucket_codes, 1)
        files = self.share_files[share]
        files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write(
            layer_of(keys, bucket_codes), share_buckets, None, layer_snapshot(self.snapshot)
        )
