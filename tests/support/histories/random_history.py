"""Random histories of a table: appends, compactions, drops and overwrites by several users.

`RandomHistory` knows the rows that the table has after each operation, and the fields of each
snapshot. `recount` compares the metadata of files with the files.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from stream_app.format.binary_row import deserialize_row, serialize_row
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.tables.small_table import Change, write_changes

DAYS = ("mon", "tue", "wed")
HISTORY_COLUMNS = "dt STRING, k INT, v STRING"
HISTORY_KEYS = (("dt", "k"), ("dt",))
USERS = ("alice", "bob")


@dataclass
class RandomHistory:
    """A random history of one table.

    Attributes:
        rows: what the table must hold.
        watermark: the largest that was given so far.
    """

    table: FileStoreTable
    rng: random.Random
    rows: dict[tuple[str, int], str] = field(default_factory=dict)
    watermark: int | None = None
    _streams: dict[str, StreamTableCommit] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    _number: int = 0

    def step(self) -> str:
        """Do something at random; return its name."""
        steps = (self.append,) * 6 + (self.compact, self.restart, self.drop, self.overwrite)
        chosen = self.rng.choice([*steps, self.truncate] if self._number % 7 == 0 else steps)
        self._number += 1
        chosen()
        return chosen.__name__

    def append(self) -> None:
        """Commit an epoch of one of the users, with properties and sometimes a watermark."""
        user = self.rng.choice(USERS)
        stream = self._stream(user)
        changes = self._changes(DAYS)
        first = stream.follow_and_wait()
        bucket_changes = write_changes(self.table, changes, first) if changes else []
        watermark = self.rng.choice([None, self.rng.randrange(1000)])
        done = stream.commit_epoch(
            self._epochs[user], bucket_changes, properties={"by": user}, watermark=watermark
        )
        self._epochs[user] += 1
        self._note(watermark)
        assert all((snapshot.properties or {})["by"] == user for snapshot in done.snapshots[-1:])

    def compact(self) -> None:
        """Run a user's due compactions, or all that are possible."""
        stream = self._stream(self.rng.choice(USERS))
        if self.rng.random() < 0.5:
            stream.compact_due()
        elif stream.last_identifier is not None:
            stream.compact_fully()

    def restart(self) -> None:
        """Replace a user's process, whose running compactions are lost."""
        self._streams.pop(self.rng.choice(USERS), None)

    def drop(self) -> None:
        days = self.rng.sample(DAYS, self.rng.randint(1, 2))
        self._batch().drop_partitions([self._partition(d) for d in days], BATCH_COMMIT_IDENTIFIER)
        self._forget(days)

    def truncate(self) -> None:
        self._batch().truncate(BATCH_COMMIT_IDENTIFIER)
        self._forget(DAYS)

    def overwrite(self) -> None:
        """Replace all rows of some days, or of the whole table, by new ones."""
        days = self.rng.sample(DAYS, self.rng.randint(1, 3))
        is_whole = len(days) == len(DAYS) and self.rng.random() < 0.5
        self._forget(days)
        changes = self._changes(days)
        bucket_changes = [
            replace(change, changelog_files=())
            for change in (write_changes(self.table, changes, 0) if changes else [])
        ]
        committable = ManifestCommittable(
            identifier=BATCH_COMMIT_IDENTIFIER, changes=tuple(bucket_changes), watermark=7
        )
        partitions = None if is_whole else [self._partition(day) for day in days]
        self._batch().overwrite(committable, partitions)
        self._note(7)

    def found_rows(self, rows: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
        """Return the table's rows in the form of `rows`, after a check that none is there twice."""
        rows_by_key = {(row["dt"], row["k"]): row["v"] for row in rows}
        assert len(rows_by_key) == len(rows)
        return rows_by_key

    def _stream(self, user: str) -> StreamTableCommit:
        if user not in self._streams:
            executor = CompactInCaller(self.table)
            self._streams[user] = StreamTableCommit(self.table, user, executor)
            last = self._streams[user].last_identifier
            # None also when its snapshots have expired.
            assert last in (None, self._epochs.setdefault(user, 0) - 1)
        return self._streams[user]

    def _batch(self) -> FileStoreCommit:
        return FileStoreCommit(
            self.table, CommitHistory(self.table, "batch", self.table.snapshots.latest())
        )

    def _changes(self, days: tuple[str, ...] | list[str]) -> list[Change]:
        changes: list[Change] = []
        for _ in range(self.rng.randrange(8)):
            key = self.rng.choice(days), self.rng.randrange(6)
            value = f"{self._number}.{len(changes)}"
            kind = self.rng.choice(["+I", "+I", "-D"])
            changes.append((kind, {"dt": key[0], "k": key[1], "v": value}))
            if kind == "-D":
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        return changes

    def _forget(self, days: tuple[str, ...] | list[str]) -> None:
        for key in [key for key in self.rows if key[0] in days]:
            del self.rows[key]

    def _note(self, watermark: int | None) -> None:
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or 0)

    def _partition(self, day: str) -> bytes:
        return serialize_row([day], self.table.schema.partition_type.types)


def recount(table: FileStoreTable, snapshot: Snapshot) -> None:
    """Check that a snapshot and its manifests say what the files hold."""
    scan = FileStoreScan(table)
    live = [_recount_file(table, entry) for entry in scan.live(snapshot)]
    assert snapshot.total_record_count == sum(live)
    changelog = [_recount_file(table, entry) for entry in scan.changelog(snapshot)]
    assert (snapshot.changelog_record_count or 0) == sum(changelog)
    assert (snapshot.changelog_record_count is None) == (not changelog)


def _recount_file(table: FileStoreTable, entry: ManifestEntry) -> int:
    """Return the rows of a file, after a check of its metadata."""
    file = entry.file
    path = Path(table.paths.data_file(entry.partition, entry.bucket, file))
    assert path.stat().st_size == file.file_size
    rows = pq.ParquetFile(path).read()
    assert rows.num_rows == file.row_count
    kinds = rows.column("_VALUE_KIND")
    assert file.delete_row_count == sum(kind.as_py() in (1, 3) for kind in kinds)
    sequence = pc.min_max(rows.column("_SEQUENCE_NUMBER")).as_py()
    assert sequence == {"min": file.min_sequence_number, "max": file.max_sequence_number}
    keys = pc.min_max(rows.column("k")).as_py()
    types = table.schema.key_type.types
    assert deserialize_row(file.min_key, types) == (keys["min"],)
    assert deserialize_row(file.max_key, types) == (keys["max"],)
    values = pc.min_max(rows.column("v")).as_py()
    names = file.value_stats_cols or table.schema.fields.names
    value_types = [kind.as_nullable() for kind in table.schema.fields.project(tuple(names)).types]
    index = list(names).index("v")
    least = deserialize_row(file.value_stats.min_values, value_types)[index]
    most = deserialize_row(file.value_stats.max_values, value_types)[index]
    assert (least, most) == (values["min"], values["max"])
    return rows.num_rows
