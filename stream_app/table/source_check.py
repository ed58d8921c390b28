"""Writes what a source tells into files of its own, and compares these with a table.

The changes go through the writer of the table's tasks into a folder that is thrown away. The two
are merged and compared bucket by bucket: memory is a write buffer, and a batch a sorted run.

Only tables with a primary key are compared: the newest row of each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import Snapshot
from stream_app.table.diff_read import merged_rows
from stream_app.table.file_store_scan import BucketId, FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.row_comparison import RowDifferences, compared
from stream_app.table.write_bucket import bucket_writer, finish

_SCRATCH_OPTIONS = {"changelog-producer": "none"}


@dataclass(slots=True)
class SourceCheck:
    """Takes in the changes of a source in its order, then compares.

    Attributes:
        folder: an empty one on local disk, which the caller deletes.
    """

    table: FileStoreTable
    folder: str
    _files: dict[BucketId, list[DataFileMeta]] = field(default_factory=lambda: defaultdict(list))
    _next_sequence_number: int = 0

    def add(self, buckets: Iterable[tuple[bytes, int, pa.RecordBatch]]) -> None:
        """Take in changes (`_VALUE_KIND` and the table's columns) by partition and bucket."""
        most = 0
        for partition, bucket, rows in buckets:
            writer = bucket_writer(
                self._scratch(), partition, bucket, next_sequence_number=self._next_sequence_number
            )
            writer.write(rows)
            message = finish(writer, partition, bucket)
            self._files[partition, bucket] += message.new_files
            most = max(most, rows.num_rows)
        self._next_sequence_number += most

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """A finding for each bucket of the snapshot that is not what the source tells.

        Raises:
            CorruptFileError: a file of the table cannot be read.
        """
        live: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for entry in FileStoreScan(self.table).live(snapshot):
            live[entry.partition, entry.bucket].append(entry.file)
        for bucket in sorted(self._files.keys() | live.keys()):
            scratch, table = self._scratch(), self.table
            differ = compared(
                table,
                merged_rows(scratch, scratch.bucket_files(*bucket), self._files[bucket]),
                merged_rows(table, table.bucket_files(*bucket), live[bucket]),
                are_unexpected_told=not table.schema.sequence_fields,
            )
            if differ is not None:
                yield self._finding(bucket, differ)

    def _finding(self, bucket: BucketId, differ: RowDifferences) -> Finding:
        return Finding(
            kind=FindingKind.SOURCE,
            what=f"{differ.missing} rows of the source are not in the table, {differ.wrong} have "
            f"other values there, and {differ.unexpected} of the table are not in the source, such "
            f"as {differ.example}",
            where=self.table.paths.bucket(*bucket),
            fix="see whether another writer changed the table, or the topic has lost records; "
            "to make the table anew, drop its rows and let a job with a new checkpoint read "
            "the topic from its beginning",
        )

    def _scratch(self) -> FileStoreTable:
        options = {**self.table.schema.options, **_SCRATCH_OPTIONS}
        return replace(
            self.table, location=self.folder, schema=replace(self.table.schema, options=options)
        )
