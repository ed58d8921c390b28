"""The changes that each snapshot brought, with their row kinds.

With ``changelog-producer = none``, and without a primary key, these are the new files of APPEND
snapshots, as they were written: without the old rows. Else these are the changelog files;
``input`` has them in APPEND snapshots, the producers of other engines in COMPACT ones.

Source: Paimon `table/source/snapshot/DeltaFollowUpScanner.java`, `ChangelogFollowUpScanner.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.manifest_entry import FileKind, ManifestEntry
from stream_app.model.row_kind import RowKind
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.table_schema import VALUE_KIND
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.readable import check_readable

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ChangelogRead:
    """Reads changes; within a bucket in the order of key and, within a key, of age.

    Without a primary key all are +I, in the order in which they came.
    """

    table: FileStoreTable

    def __post_init__(self) -> None:
        check_readable(self.table, merges=False)

    @property
    def schema(self) -> pa.Schema:
        """`_VALUE_KIND` (int8) and then the table's columns."""
        kind = pa.field(VALUE_KIND, pa.int8(), nullable=False)
        return pa.schema([kind, *arrow_schema(self.table.schema.fields)])

    def snapshots(
        self,
        start: int | None,
        end: int | None,
        *,
        follow: bool,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[Snapshot]:
        """Snapshots from `start` (None: the earliest) to `end` (None: the latest of now).

        Args:
            follow: go on when the latest is reached, until `end` or `stopped`.

        Raises:
            UsageError: a snapshot has expired, or `start` does not exist.
        """
        manager = self.table.snapshots
        earliest, latest = manager.earliest_id(), manager.latest_id()
        following = start if start is not None else (earliest or 1)
        if not follow:
            if start is not None and latest is not None and start > latest:
                raise UsageError(
                    f"snapshot {start} does not exist yet, the latest is {latest}",
                    where=self.table.location,
                    fix="give an earlier one, or wait for it with --follow",
                )
            end = (latest or 0) if end is None else min(end, latest or 0)
        while end is None or following <= end:
            try:
                yield manager.snapshot(following)
                following += 1
            except FileNotFoundError:
                self._check_still_to_come(following)
                if stopped():
                    return
                self.table.clock.sleep(POLL_SECONDS)

    def _check_still_to_come(self, following: int) -> None:
        """A snapshot that is not there must be the next one, not one that is gone."""
        manager = self.table.snapshots
        latest, earliest = manager.latest_id(), manager.earliest_id()
        if latest is None or earliest is None:
            return
        if following < earliest and not manager.exists(following):
            raise UsageError(
                f"snapshot {following} has expired",
                where=self.table.location,
                fix=f"begin with {earliest}, the earliest that is left",
            )
        if latest + 1 < following:
            raise UsageError(
                f"snapshot {following} is ahead of the table, whose latest snapshot is {latest}",
                where=self.table.location,
                fix=f"begin with {latest + 1} or earlier; a table that was rolled back or made "
                "anew takes its numbers again",
            )

    def changes(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        """The changes of one snapshot.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        has_key = self.table.schema.has_primary_key
        for entry in self._entries(snapshot):
            access = self.table.bucket_files(entry.partition, entry.bucket)
            for batch in access.read(entry.file):
                kinds = batch.columns[1:2] if has_key else [_inserts(batch.num_rows)]
                columns = batch.columns[2:] if has_key else batch.columns
                yield pa.RecordBatch.from_arrays([*kinds, *columns], schema=self.schema)

    def _entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        scan = FileStoreScan(self.table)
        if self.table.schema.options.get("changelog-producer", "none").lower() != "none":
            return scan.changelog(snapshot)
        if snapshot.commit_kind is not CommitKind.APPEND:
            return []
        return [entry for entry in scan.delta(snapshot) if entry.kind is FileKind.ADD]


def _inserts(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), count)
