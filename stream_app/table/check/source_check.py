"""Writes a source's changes into temporary files, and compares their rows with those of a table.

The changes go through the writer of the table's tasks into a temporary folder. The check merges and
compares both sides bucket by bucket: memory is a write buffer, and a batch for each sorted run.

Only tables with a primary key are compared: the newest row of each key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.model.bucket_id import BucketId
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import Snapshot
from stream_app.table.check.compared_rows import (
    FORGOTTEN_DELETES,
    ComparedRows,
    RowDifferences,
    RowsOnDisk,
    SnapshotRows,
    compare_rows,
    compared_table,
    rows_by_key,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import bucket_assigner
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.write.bucket_assigner import BucketAssigner


@dataclass(slots=True)
class SourceCheck:
    """A check that collects the changes of a source in order, then compares them with a table.

    Attributes:
        folder: an empty folder on local disk, which the caller deletes.
        basis: the index or bucket counts of the compared snapshot.
        compared_table: the result of `compared_rows.compared_table`, whose key and buckets both
            sides share.
        source_rows: the changes that were collected.
    """

    table: FileStoreTable
    folder: str
    basis: BucketBasis = NO_BASIS
    compared_table: FileStoreTable = field(init=False)
    source_rows: RowsOnDisk = field(init=False)

    def __post_init__(self) -> None:
        self.compared_table = compared_table(self.table)
        self.source_rows = RowsOnDisk(self.compared_table, f"{self.folder}/source")

    @property
    def assigner(self) -> BucketAssigner:
        """The assigner of changes to the buckets of `source`."""
        return bucket_assigner(
            self.compared_table, self.basis if self.compared_table is self.table else NO_BASIS
        )

    def stored_rows(
        self, snapshot: Snapshot | None, left_out_keys: pa.RecordBatch | None = None
    ) -> ComparedRows:
        """Return the table's rows in the buckets of `compared_table`.

        Args:
            left_out_keys: keys whose rows are left out; only used if `compared_table` is another
                table.

        Raises:
            CorruptFileError: a file of the table cannot be read.
        """
        rows = SnapshotRows.of_snapshot(self.table, snapshot)
        if self.compared_table is self.table:
            return rows
        return rows_by_key(rows, self.compared_table, f"{self.folder}/table", left_out_keys)

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield a finding for each bucket of the snapshot that differs from the source.

        Raises:
            CorruptFileError: a file of the table cannot be read.
        """
        stored_rows = self.stored_rows(snapshot)
        for bucket_id in sorted({*self.source_rows.buckets, *stored_rows.buckets}):
            differences = compare_rows(
                self.compared_table, self.source_rows.rows(bucket_id), stored_rows.rows(bucket_id)
            )
            if differences is not None:
                yield from self._difference_findings(bucket_id, differences)

    def repeated_key_findings(
        self, snapshot: Snapshot, names: Collection[str]
    ) -> Iterator[Finding]:
        """Yield a finding if rows of the snapshot share a source key in the columns `names`.

        It holds these columns of all rows in memory, unless they contain the table's primary key.
        """
        schema = self.table.schema
        if not names or set(names) >= set(schema.primary_keys):
            return
        if not set(names) <= set(schema.fields.names):
            return
        stored_rows: ComparedRows = SnapshotRows.of_snapshot(self.table, snapshot)
        if self.table.kind_traits.postpones:
            stored_rows = self.stored_rows(snapshot)
        keys = [
            rows.select(list(names))
            for bucket_id in stored_rows.buckets
            for rows in stored_rows.rows(bucket_id)
        ]
        if not keys:
            return
        counts = pa.Table.from_batches(keys).group_by(list(names)).aggregate([([], "count_all")])
        counts = counts.filter(pc.field("count_all") > 1).sort_by("count_all")
        if counts.num_rows:
            yield self._repeated_key_finding(counts, names)

    def _repeated_key_finding(self, counts: pa.Table, names: Collection[str]) -> Finding:
        surplus_count = pc.sum(counts["count_all"]).as_py() - counts.num_rows
        key = counts.select(list(names)).slice(0, 1).to_pylist()[0]
        example = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        return Finding(
            kind=FindingKind.SOURCE,
            problem=f"{counts.num_rows} keys of the source ({', '.join(names)}) have several rows "
            f"in the table, {surplus_count} too many, such as {example}",
            where=self.table.location,
            fix="the messages' key does not hold the table's primary key: set REPLICA IDENTITY "
            "FULL, or make the source's key the table's; then let a job with a new checkpoint "
            "rebuild the table",
        )

    def _difference_findings(
        self, bucket_id: BucketId, differences: RowDifferences
    ) -> Iterator[Finding]:
        """Yield the findings about one bucket's differences from the source."""
        is_own = self.compared_table is self.table
        where = self.table.paths.bucket_folder(*bucket_id) if is_own else self.table.location
        unexpected_count = differences.unexpected_count
        if self.table.schema.sequence_fields and unexpected_count:
            yield Finding(
                kind=FindingKind.NOT_COMPARED,
                problem=f"{unexpected_count} rows of the table are not in the source, and may "
                f"or may not belong there: {FORGOTTEN_DELETES}",
                where=where,
                fix="read the rows, and ask the source whether it has them",
            )
            unexpected_count = 0
        if not differences.missing_count + differences.wrong_count + unexpected_count:
            return
        yield Finding(
            kind=FindingKind.SOURCE,
            problem=f"{differences.missing_count} rows of the source are not in the table, "
            f"{differences.wrong_count} have other values there, and {unexpected_count} of the "
            f"table are not in the source, such as {differences.example}",
            where=where,
            fix="see whether another writer changed the table, or the topic has lost records; "
            "to rebuild the table, drop its rows and let a job with a new checkpoint read "
            "the topic from its beginning",
        )
