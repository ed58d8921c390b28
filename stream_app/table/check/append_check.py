"""Compares the rows of a table without a primary key with those that were appended.

Its changes are the files of APPEND snapshots, and compactions must keep their rows. Rows without a
key cannot be compared one by one. So each side gets a sum over the hashes of its rows, and files on
both sides are not read.

Source: none; the hash is that of Paimon's bucket function, over all columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from stream_app.format.bucket_hash import hash_columns
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.table.check.flat_columns import flat_columns
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.table_replay import TableReplay

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class _RowSum:
    """A multiset of rows: their number, and two sums that other rows hardly ever have."""

    rows: int = 0
    sum: int = 0
    squares: int = 0


@dataclass(frozen=True, slots=True)
class AppendCheck:
    """Compares the appended rows with the live ones."""

    replay: TableReplay
    progress: Progress

    def findings(self) -> Iterator[Finding]:
        """A finding for each bucket that differs.

        Raises:
            CorruptFileError: a file cannot be read, which is a finding of another kind.
        """
        for one in self.replay.buckets(self.progress):
            before, after = {*one.base, *one.changes}, set(one.last)
            taken_in, given = (
                self._sum(one.bucket, files) for files in (before - after, after - before)
            )
            if taken_in != given:
                yield self._finding(one.bucket, taken_in, given)

    def _sum(self, bucket: BucketId, files: Iterable[DataFileMeta]) -> _RowSum:
        table = self.replay.table
        access, types = table.bucket_files(*bucket), table.schema.fields.types
        rows = total = squares = 0
        for file in files:
            for batch in access.read(file):
                hashes = hash_columns(*flat_columns(batch.columns, types)).astype(np.uint64)
                rows += batch.num_rows
                total += int(hashes.sum())
                squares += int((hashes * hashes).sum())
        return _RowSum(rows, total % _MODULUS, squares % _MODULUS)

    def _finding(self, bucket: BucketId, taken_in: _RowSum, given: _RowSum) -> Finding:
        what = f"compactions took in {taken_in.rows} rows and gave {given.rows}"
        if taken_in.rows == given.rows:
            what = (
                f"compactions took in {taken_in.rows} rows and gave as many, which are not the same"
            )
        return Finding(
            kind=FindingKind.CHANGELOG,
            what=what,
            where=self.replay.table.paths.bucket(*bucket),
            fix="roll the table back to a snapshot or tag before the compaction (stream-app "
            "rollback-to), and let the job write what came since anew",
        )
