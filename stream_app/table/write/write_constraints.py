"""Computes constraints on a table's new rows: sequence numbers, bucket counts, columns.

`table.job.table_state` owns the constraints, and passes each manifest entry that it reads
to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.errors import UnsupportedTableError
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_counts import counts_after
from stream_app.table.versions.compact_refusals import CompactableFileCheck
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.live_file_counts import LiveFileCounts


@dataclass(slots=True)
class WriteConstraints:
    """Constraints that follow from a table's files.

    Attributes:
        next_sequence_number: a number greater than any in a file; 0 without files.
        live_counts: the counts of the table's live files and bytes.
        bucket_counts: partition → its number of buckets, if that differs from the table's. A change
            replaces the object.
    """

    table: FileStoreTable
    next_sequence_number: int = 0
    live_counts: LiveFileCounts = field(default_factory=LiveFileCounts)
    bucket_counts: Mapping[bytes, int] = field(init=False, default_factory=dict)
    _compactable_check: CompactableFileCheck | None = field(init=False)

    def __post_init__(self) -> None:
        self._compactable_check = CompactableFileCheck(self.table)

    def accept_all_files(self) -> None:
        """Accept files that this process cannot compact from this call on."""
        self._compactable_check = None

    def read_live_files(self, snapshot: Snapshot | None) -> Sequence[ManifestEntry]:
        """Read all live files, unless new rows do not depend on them, because there may be many.

        In that case the compaction planner detects files that cannot be compacted.

        Returns:
            The files that were read.
        """
        if not self.table.schema.kind_traits.has_buckets:
            return ()
        entries = FileStoreScan(self.table).live(snapshot)
        self.live_counts.begin(entries)
        self._apply_entries(entries)
        return entries

    def follow_other_writers(self, entries: Collection[ManifestEntry]) -> None:
        """Apply the files that other writers added and removed.

        Raises:
            UnsupportedTableError: a file cannot be compacted, or its columns differ from the opened
                table's.
        """
        self._apply_entries(entries)

    def _apply_entries(self, entries: Collection[ManifestEntry]) -> None:
        for entry in entries:
            self.add(entry.file)
            if entry.kind is FileKind.ADD and self._compactable_check is not None:
                self._compactable_check.check(entry.file)
        if self.table.kind_traits.has_bucket_number:
            table_count = self.table.options.bucket
            self.bucket_counts = counts_after(self.bucket_counts, entries, table_count)

    def add(self, file: DataFileMeta) -> None:
        """Add a file of this writer."""
        self.next_sequence_number = max(self.next_sequence_number, file.max_sequence_number + 1)

    def check_bucket_counts(self, partitions: set[bytes]) -> None:
        """Check that partitions have the table's number of buckets, if its kind requires that.

        Raises:
            UnsupportedTableError: a partition has another number of buckets.
        """
        if not self.table.kind_traits.looks_up_partition:
            return
        for partition in partitions & self.bucket_counts.keys():
            raise UnsupportedTableError(
                f"the partition has {self.bucket_counts[partition]} buckets, but the option "
                f"'bucket' is {self.table.options.bucket}: a key would be in two buckets",
                where=self.table.paths.partition_folder(partition),
                fix="let Paimon rescale the partition (INSERT OVERWRITE), then restart the job",
            )
