"""Writes a source's changes into files of its own, and compares these with a table.

The changes go through the writer of the table's tasks into a temporary folder. The check merges and
compares both sides bucket by bucket: memory is a write buffer, and a batch for each sorted run.

Only tables with a primary key are compared: the newest row of each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.merge_tree_writer import MergeTreeWriter
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.row_comparison import FORGOTTEN_DELETES, RowDifferences, compared
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.tasks import bucket_writer
from stream_app.table.read.diff_read import merged_rows
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.old_rows import TableRows

_SCRATCH_OPTIONS = {"changelog-producer": "none"}


@dataclass(slots=True)
class SourceCheck:
    """Takes in the changes of a source in their order, then compares.

    Attributes:
        folder: an empty one on local disk, which the caller deletes.
        index: name of the index manifest of the snapshot that is compared, by which keys have their
            buckets; None: there is no index.
        refused: changes that leave out a value which the source has not sent before; see
            `WrittenFiles.refused`.
    """

    table: FileStoreTable
    folder: str
    index: str | None = None
    refused: list[pa.RecordBatch] = field(default_factory=list)
    _files: dict[BucketId, list[DataFileMeta]] = field(default_factory=lambda: defaultdict(list))
    _next_sequence_number: int = 0

    def add(self, buckets: Iterable[tuple[bytes, int, pa.RecordBatch]]) -> None:
        """Take in changes (`_VALUE_KIND` and the table's columns) by partition and bucket."""
        most = 0
        for partition, bucket, rows in buckets:
            writer = bucket_writer(
                self._scratch(), partition, bucket, next_sequence_number=self._next_sequence_number
            )
            assert isinstance(writer, MergeTreeWriter), "only tables with a key are compared"
            files = self._files[partition, bucket]
            writer.old_rows = TableRows.of_files(self._scratch(), partition, bucket, files)
            writer.write(rows)
            written = writer.prepare_commit()
            files += written.data
            self.refused += written.refused
            most = max(most, rows.num_rows)
        self._next_sequence_number += most

    def empty(self) -> None:
        """The source has deleted all of its rows."""
        self._files.clear()
        self.refused.clear()

    @property
    def buckets(self) -> Collection[BucketId]:
        """The buckets with a change of the source."""
        return self._files.keys()

    def expected(self, bucket: BucketId, *, keep_deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """The newest row of each key of the source; see `diff_read.merged_rows`."""
        scratch, files = self._scratch(), self._files[bucket]
        access = scratch.bucket_files(*bucket)
        return merged_rows(scratch, access, files, keep_deletes=keep_deletes)

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """A finding for each bucket of the snapshot that differs from the source.

        Raises:
            CorruptFileError: a file of the table cannot be read.
        """
        live = self._live(snapshot)
        for bucket in sorted(self._files.keys() | live.keys()):
            table = self.table
            differ = compared(
                table,
                self.expected(bucket),
                merged_rows(table, table.bucket_files(*bucket), live[bucket]),
            )
            if differ is not None:
                yield from self._findings(bucket, differ)

    def repeated(self, snapshot: Snapshot, names: Collection[str]) -> Iterator[Finding]:
        """Whether rows of the snapshot share a key of the source, whose columns are `names`.

        Keeps these columns of all rows in memory, unless the table's key separates them.
        """
        schema = self.table.schema
        if not names or set(names) >= set(schema.primary_keys):
            return
        if not set(names) <= set(schema.fields.names):
            return
        keys = [
            rows.select(list(names))
            for bucket, files in self._live(snapshot).items()
            for rows in merged_rows(self.table, self.table.bucket_files(*bucket), files)
        ]
        if not keys:
            return
        counts = pa.Table.from_batches(keys).group_by(list(names)).aggregate([([], "count_all")])
        counts = counts.filter(pc.field("count_all") > 1).sort_by("count_all")
        if counts.num_rows:
            yield self._repeated(counts, names)

    def _repeated(self, counts: pa.Table, names: Collection[str]) -> Finding:
        surplus = pc.sum(counts["count_all"]).as_py() - counts.num_rows
        key = counts.select(list(names)).slice(0, 1).to_pylist()[0]
        example = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        return Finding(
            kind=FindingKind.SOURCE,
            what=f"{counts.num_rows} keys of the source ({', '.join(names)}) have several rows in "
            f"the table, {surplus} too many, such as {example}",
            where=self.table.location,
            fix="the messages' key does not hold the table's primary key: set REPLICA IDENTITY "
            "FULL, or make the source's key the table's; then let a job with a new checkpoint "
            "make the table anew",
        )

    def _live(self, snapshot: Snapshot) -> dict[BucketId, list[DataFileMeta]]:
        live: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for entry in FileStoreScan(self.table).live(snapshot):
            live[entry.partition, entry.bucket].append(entry.file)
        return live

    def _findings(self, bucket: BucketId, differ: RowDifferences) -> Iterator[Finding]:
        where, unexpected = self.table.paths.bucket(*bucket), differ.unexpected
        if self.table.schema.sequence_fields and unexpected:
            yield Finding(
                kind=FindingKind.NOT_COMPARED,
                what=f"{unexpected} rows of the table are not in the source, and whether they "
                f"should be cannot be told: {FORGOTTEN_DELETES}",
                where=where,
                fix="read the rows, and ask the source whether it has them",
            )
            unexpected = 0
        if not differ.missing + differ.wrong + unexpected:
            return
        yield Finding(
            kind=FindingKind.SOURCE,
            what=f"{differ.missing} rows of the source are not in the table, {differ.wrong} have "
            f"other values there, and {unexpected} of the table are not in the source, such "
            f"as {differ.example}",
            where=where,
            fix="see whether another writer changed the table, or the topic has lost records; "
            "to make the table anew, drop its rows and let a job with a new checkpoint read "
            "the topic from its beginning",
        )

    def _scratch(self) -> FileStoreTable:
        options = {**self.table.schema.options, **_SCRATCH_OPTIONS}
        return replace(
            self.table, location=self.folder, schema=replace(self.table.schema, options=options)
        )
