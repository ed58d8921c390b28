"""Provides a key share's index at a snapshot: built from the table, then advanced by snapshots.

An index is a function of the table at that snapshot, and is on the executor's local disk. Any
executor can build it. An executor without an index reads the keys of all files. An executor with an
older index reads the keys of files that were added since. Compactions move no key. If a snapshot in
between has expired, or has overwritten files, the index is rebuilt.

Source: Paimon `crosspartition/IndexBootstrap.java`, `crosspartition/GlobalIndexAssigner.java`
(there the index lives as long as the job, and is built at each start).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stream_app.errors import CorruptFileError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.options.bucket_options import (
    CROSS_PARTITION_UPSERT_BOOTSTRAP_PARALLELISM,
    CROSS_PARTITION_UPSERT_INDEX_TTL,
)
from stream_app.model.snapshot import KEY_SHARES_PROPERTY, CommitKind, Snapshot
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.planning.key_index.layer_chain import (
    LayerSnapshot,
    LayerSpan,
    lowest_merged_layer,
    newest_chain,
)
from stream_app.process.local_disk import kept_folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_index_builder import KeyIndexBuilder, layer_snapshot
from stream_app.table.key_index.key_layer import (
    BucketCodes,
    KeyLayer,
    Keys,
    codes_of_keys,
    layer_of,
    merged_layer,
)
from stream_app.table.key_index.key_layer_files import CodedBuckets, ShareFiles, locked_folder
from stream_app.table.key_index.table_key_reader import KeyFile, TableKeyReader
from stream_app.table.map_in_threads import map_in_threads
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan

_UNUSED_MAX_S = 7 * 86_400
"""The time without use after which an index is deleted."""
_COMMITS_WITH_KEYS = (CommitKind.APPEND, CommitKind.OVERWRITE)
"""The kinds of commits that may move keys; a compaction moves none."""


@dataclass(slots=True)
class KeyIndex:
    """The index of a key share at a snapshot, and after later calls of `move`."""

    layers: list[KeyLayer]
    coded_buckets: CodedBuckets

    def find(self, keys: Keys) -> BucketCodes:
        """Return the code of each key's bucket: int32 [n], negative for a key without a row."""
        return codes_of_keys(self.layers, keys)

    def move(self, keys: Keys, before: BucketCodes, after: BucketCodes) -> KeyLayer:
        """Move keys to other buckets, and return the layer that records the moves.

        Args:
            keys: distinct keys.
            before, after: the codes of the keys' buckets, or `GONE`.
        """
        layer = layer_of(keys, after)
        self.layers.append(layer)
        self.coded_buckets.count(before, -1)
        self.coded_buckets.count(after, 1)
        return layer


@dataclass(frozen=True, slots=True)
class KeyIndexes:
    """The indexes of one table on this machine.

    Attributes:
        folder: the folder of the table's indexes.
    """

    table: FileStoreTable
    rule: IndexRule
    folder: Path

    @classmethod
    def of_table(cls, table: FileStoreTable, rule: IndexRule) -> KeyIndexes:
        """Return the indexes of a table, in the folder for temporary files."""
        root = kept_folder("key-index")
        types = [str(table.schema.fields.field(name).data_type) for name in rule.keys]
        identity = [table.location, table.branch, *map(str, (rule.keys, types, rule.share_count))]
        identity += [str(rule.fills_buckets), str(rule.deletes_remove_rows)]
        name = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:24]
        return cls(table, rule, root / name)

    def index_at(self, share: int, snapshot_id: int) -> KeyIndex:
        """Return a key share's index at a snapshot; snapshot id 0 means a table without rows.

        Raises:
            CorruptFileError: a file of the table cannot be read.
            OSError: the local disk cannot be written.
        """
        target_snapshot = None if snapshot_id == 0 else self.table.snapshots.snapshot(snapshot_id)
        share_files = self._share_files(share)
        if target_snapshot is None:
            return KeyIndex([], CodedBuckets())
        self._delete_unused_indexes()
        with share_files.locked():
            key_index = self._open(share_files, target_snapshot)
            if key_index is None:
                share_files.delete_other_layers([])
                with locked_folder(self.folder):
                    self._key_index_builder(target_snapshot).build()
                key_index = self._open(share_files, target_snapshot, is_new=True)
                assert key_index is not None, "the index has just been built"
            return key_index

    def _share_files(self, share: int) -> ShareFiles:
        key_schema = arrow_schema(TableKeyReader(self.table, self.rule).key_type)
        return ShareFiles(self.folder, share, key_schema)

    def _key_index_builder(self, target_snapshot: Snapshot) -> KeyIndexBuilder:
        share_files = [self._share_files(share) for share in range(self.rule.share_count)]
        return KeyIndexBuilder(
            key_reader=TableKeyReader(
                self.table, self.rule, deletion_vectors(self.table, target_snapshot)
            ),
            snapshot=target_snapshot,
            folder=self.folder,
            share_files=share_files,
            threads=self._threads,
        )

    def _open(
        self, share_files: ShareFiles, target_snapshot: Snapshot, *, is_new: bool = False
    ) -> KeyIndex | None:
        """Open the index from the layers on disk; None if it must be rebuilt."""
        spans = share_files.spans()
        for version in sorted({span.end for span in spans}, reverse=True):
            if version.snapshot_id > target_snapshot.snapshot_id or not self._exists(
                version, target_snapshot
            ):
                continue
            chain = newest_chain(spans, [version])
            if not chain or (not is_new and self._is_too_old(share_files, chain[0])):
                continue
            try:
                key_index = KeyIndex(*share_files.read(chain))
                return self._advance(share_files, key_index, chain, target_snapshot)
            except (FileNotFoundError, CorruptFileError, pa.ArrowInvalid):
                continue  # a snapshot in between has expired, or a layer is damaged
        return None

    def _exists(self, version: LayerSnapshot, target_snapshot: Snapshot) -> bool:
        if version == layer_snapshot(target_snapshot):
            return True
        try:
            return version == layer_snapshot(self.table.snapshots.snapshot(version.snapshot_id))
        except (FileNotFoundError, CorruptFileError):
            return False

    def _is_too_old(self, share_files: ShareFiles, lowest_span: LayerSpan) -> bool:
        ttl_ms = self.table.options[CROSS_PARTITION_UPSERT_INDEX_TTL]
        return (
            ttl_ms is not None
            and share_files.age_ms(lowest_span, self.table.clock.now_ms()) > ttl_ms
        )

    def _advance(
        self,
        share_files: ShareFiles,
        key_index: KeyIndex,
        spans: Sequence[LayerSpan],
        target_snapshot: Snapshot,
    ) -> KeyIndex | None:
        """Advance the index to a later snapshot; None if it must be rebuilt.

        Raises:
            FileNotFoundError, CorruptFileError: a snapshot in between has expired.
        """
        start = spans[-1].end
        if start == layer_snapshot(target_snapshot):
            return key_index
        snapshots = self.table.snapshots
        snapshots_between = [
            snapshots.snapshot(snapshot_id)
            for snapshot_id in range(start.snapshot_id + 1, target_snapshot.snapshot_id)
        ]
        changing_snapshots = [
            snapshot
            for snapshot in (*snapshots_between, target_snapshot)
            if snapshot.commit_kind in _COMMITS_WITH_KEYS
        ]
        if any(snapshot.commit_kind is CommitKind.OVERWRITE for snapshot in changing_snapshots):
            return None
        keys, bucket_codes = self._changed_keys(share_files.share, key_index, changing_snapshots)
        layer = key_index.move(keys, key_index.find(keys), bucket_codes)
        self._write_layer(share_files, key_index, layer, spans, layer_snapshot(target_snapshot))
        return key_index

    def _changed_keys(
        self, share: int, key_index: KeyIndex, snapshots: Sequence[Snapshot]
    ) -> tuple[Keys, BucketCodes]:
        """Return the share's keys in the snapshots' added files, with their newest buckets."""
        key_reader = TableKeyReader(self.table, self.rule)
        scan = FileStoreScan(self.table)
        shares = {(snapshot.properties or {}).get(KEY_SHARES_PROPERTY) for snapshot in snapshots}
        follows_rule = shares == {str(self.rule.share_count)}
        added_files = [
            KeyFile(entry, key_index.coded_buckets.code(entry.bucket_id), snapshot_index)
            for snapshot_index, snapshot in enumerate(snapshots)
            for entry in scan.delta(snapshot)
            if entry.kind is FileKind.ADD
        ]
        needed_files = [
            file
            for file in added_files
            if self.rule.may_have_keys(
                share,
                file.entry.bucket,
                follows_rule=follows_rule,
                has_keys=key_index.coded_buckets.key_counts[file.bucket_code] > 0,
            )
        ]

        def read(file: KeyFile) -> list[pa.RecordBatch]:
            shared_keys = (key_reader.keys_by_share(file, rows) for rows in key_reader.read(file))
            return [
                keys
                for by_share in shared_keys
                for other_share, keys in by_share
                if other_share == share
            ]

        batches = itertools.chain.from_iterable(map_in_threads(self._threads, read, needed_files))
        rows = pa.concat_batches([key_reader.no_keys(), *batches])
        return key_reader.newest_buckets(rows, key_index.find)

    def _write_layer(
        self,
        share_files: ShareFiles,
        key_index: KeyIndex,
        layer: KeyLayer,
        spans: Sequence[LayerSpan],
        end: LayerSnapshot,
    ) -> None:
        """Write the newest layer, merged with lower layers that are small compared with it."""
        first_merged_index = lowest_merged_layer(
            [*(span.row_count for span in spans), len(layer.bucket_codes)]
        )
        start: LayerSnapshot | None = spans[-1].end
        if first_merged_index < len(spans):
            start = spans[first_merged_index].start
            layer = merged_layer(key_index.layers[first_merged_index:], is_lowest=start is None)
            key_index.layers[first_merged_index:] = [layer]
        written_span = share_files.write(layer, key_index.coded_buckets, start, end)
        share_files.delete_other_layers([*spans[:first_merged_index], written_span])

    @property
    def _threads(self) -> int:
        return self.table.options[CROSS_PARTITION_UPSERT_BOOTSTRAP_PARALLELISM]

    def _delete_unused_indexes(self) -> None:
        """Delete the indexes of tables to which no job on this machine writes any more."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{self.folder} belongs to another user")
        self.folder.touch()
        now_s = self.table.clock.now_ms() / 1000
        for folder in self.folder.parent.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another task has just deleted it
                if now_s - folder.stat().st_mtime > _UNUSED_MAX_S:
                    shutil.rmtree(folder, ignore_errors=True)
