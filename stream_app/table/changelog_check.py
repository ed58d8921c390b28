"""Replays the whole changelog and compares what it leads to with the table.

The changelog files of a bucket are sorted runs of changes, so replaying them is the merge that a
compaction does, and comparing is a second one: memory is a batch for each run that is open.

Only ``changelog-producer = input`` is replayed: other producers keep no sequence numbers by which
changes of a key could be put in order. The changelog must be complete: from snapshot 1 on, without
overwrites and without rows that have expired.

Source: Paimon `mergetree/MergeTreeWriter.java` (changelog files of ``input``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.file_access import KeyValueFileAccess, KeyValueFileWriter
from stream_app.mergetree.key_value_batch import whole_keys
from stream_app.model.data_file_meta import DataFileMeta, FileSource
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.manifest_entry import FileKind, ManifestEntry
from stream_app.model.row_kind import RowKind
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.table_schema import VALUE_KIND
from stream_app.table.diff_read import DiffRead
from stream_app.table.file_store_scan import BucketId, FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.metadata_check import Progress


def why_not_complete(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> str | None:
    """Why the changelog cannot be replayed, in words; None when it can."""
    options = table.options
    if not table.schema.has_primary_key:
        return "a table without a primary key is its own changelog"
    if table.merges_by_vectors:
        return "rows of level 0 are not read before they are compacted"
    if not options.writes_changelog:
        return "changelog-producer is not input"
    if [snapshot.snapshot_id for snapshot in snapshots] != list(range(1, len(snapshots) + 1)):
        return "its first snapshots have expired"
    if options.optional_integer("record-level.expire-time") is not None:
        return "rows of the table expire"
    if any(snapshot.commit_kind is CommitKind.OVERWRITE for snapshot in snapshots):
        return "the table was overwritten, which no changelog tells"
    return None


@dataclass(frozen=True, slots=True)
class ChangelogCheck:
    """Compares the changes of all snapshots with the rows of the last one."""

    table: FileStoreTable
    progress: Progress

    def run(self, snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
        """A finding for each bucket that differs.

        Raises:
            CorruptFileError: a file cannot be read, which is a finding of another kind.
        """
        if not snapshots:
            return
        scan = FileStoreScan(self.table)
        changes: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        rows: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for snapshot in snapshots:
            _gather(scan.changelog(snapshot), changes)
        _gather(scan.live(snapshots[-1]), rows)
        buckets = sorted(changes.keys() | rows.keys())
        for place, bucket in enumerate(buckets):
            self.progress("buckets replayed", place, len(buckets))
            yield from self._bucket(bucket, changes[bucket], rows[bucket])
        self.progress("buckets replayed", len(buckets), len(buckets))

    def _bucket(
        self, bucket: BucketId, changes: Sequence[DataFileMeta], rows: Sequence[DataFileMeta]
    ) -> Iterator[Finding]:
        files = _BothFiles(
            self.table.bucket_files(*bucket),
            frozenset(file.file_name for file in changes),
            self.table.layout().key_names,
        )
        differ, gone, example = 0, 0, ""
        diff = DiffRead(self.table, keep_deletes=True)
        for batch in diff.read_from(files, changes, rows):
            kinds = batch.column(VALUE_KIND).to_numpy()
            missing = int((kinds == int(RowKind.DELETE)).sum())
            gone += missing
            differ += batch.num_rows - missing
            if not example:
                keys = batch.select(list(files.key_names)).slice(0, 1).to_pylist()[0]
                example = ", ".join(f"{name} = {value!r}" for name, value in keys.items())
        if differ or gone:
            yield Finding(
                kind=FindingKind.CHANGELOG,
                what=f"{gone} rows that the changelog leads to are not in the table, and {differ} "
                f"of the table are not what it leads to, such as {example}",
                where=self.table.paths.bucket(*bucket),
                fix="one of the two has lost changes: compare the rows with the source, and roll "
                "the table back to a snapshot at which both agree (stream-app rollback-to)",
            )


def _gather(
    entries: Sequence[ManifestEntry], by_bucket: dict[BucketId, list[DataFileMeta]]
) -> None:
    for entry in entries:
        if entry.kind is FileKind.ADD:
            by_bucket[entry.partition, entry.bucket].append(entry.file)


@dataclass(frozen=True, slots=True)
class _BothFiles:
    """Data files as they are; of changelog files, batches that part no key."""

    files: KeyValueFileAccess
    changelog: frozenset[str]
    key_names: tuple[str, ...]

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        batches = self.files.read(file)
        if file.file_name in self.changelog:
            return whole_keys(batches, self.key_names)
        return batches

    def data_writer(self, *, level: int, source: FileSource) -> KeyValueFileWriter:
        return self.files.data_writer(level=level, source=source)

    def changelog_writer(self) -> KeyValueFileWriter:
        return self.files.changelog_writer()

    def delete(self, file: DataFileMeta) -> None:
        self.files.delete(file)
