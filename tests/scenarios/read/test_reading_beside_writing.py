"""Readers beside a writer, compactions and expiry get every version and change right.

A thread writes epochs; others read versions that they name, and follow the table from each start
with a consumer, which is killed and started again at random. What they see is held against what
was written.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import CorruptFileError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.planning.read.stream_start import StreamStart, stream_start
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    ChangelogBatch,
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import create_or_open
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import (
    CompactInThreads,
    Model,
    TableWriter,
    assert_same_changes,
    by_content,
)
from tests.support.judges.normal_rows import Row, normal_rows, normal_value
from tests.support.suite.polling import wait_until
from tests.support.tables.small_table import Change

pytestmark = pytest.mark.usefixtures("unsynced")
EPOCHS = 30
FULL = ("latest-full", "compacted-full", "from-snapshot-full")
STARTS = ("latest", "from-timestamp", "from-snapshot", *FULL)


def a_start(table: FileStoreTable, mode: str) -> StreamStart:
    latest = table.snapshots.latest()
    assert latest is not None
    if mode == "from-timestamp":
        return stream_start(mode, timestamp_ms=latest.time_ms + 1)
    by_snapshot = mode.startswith("from-snapshot")
    return stream_start(mode, snapshot_id=latest.snapshot_id if by_snapshot else None)


@dataclass
class History:
    """The rows and snapshots that the writer has made.

    Attributes:
        rows: after each epoch; known before the epoch is committed.
        epochs: by snapshot.
        appends: snapshots of APPEND.
    """

    rows: list[list[str]] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    appends: list[int] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Follower:
    """Follows the table under a consumer's name, and forgets what it was not yet to keep.

    Attributes:
        full: rows of the version that was read first, with its snapshot.
        changes: of each snapshot.
    """

    table: FileStoreTable
    mode: str
    history: History
    noise: random.Random
    full: tuple[int, list[Row]] | None = None
    changes: dict[int, list[Change]] = field(default_factory=dict)
    kills: int = 0

    def run(self) -> None:
        """Follow until the last snapshot."""
        while not self.history.is_over.is_set() or self.next_snapshot() <= max(self.history.epochs):
            self.follow_for(self.noise.randrange(1, 12))
            self.kills += 1

    def next_snapshot(self) -> int:
        return self.table.consumers.next_snapshot_id(self.mode) or 0

    def follow_for(self, batches: int) -> None:
        """Take some batches, then fall dead; ends as well when all that is written was taken."""
        next_id = self.table.consumers.next_snapshot_id(self.mode)
        if next_id is None:
            self.full = None
        self.changes = {n: rows for n, rows in self.changes.items() if next_id and n < next_id}
        how = FollowSettings(
            start=a_start(self.table, self.mode),
            follows=True,
            consumer_id=self.mode,
            poll_seconds=0.01,
        )
        over = self.history.is_over.is_set
        reader = changelog_batches(ChangelogFollow(StreamRead(self.table), how, over))
        for batch in islice(reader, batches):
            self.take(batch)
        reader.close()

    def take(self, batch: ChangelogBatch) -> None:
        rows = normal_rows(pa.Table.from_batches([batch.rows]))
        changes = [(row.pop("rowkind"), row) for row in rows]
        if not batch.is_full:
            self.changes.setdefault(batch.snapshot_id, []).extend(changes)
            return
        assert {kind for kind, _ in changes} <= {"+I", "+U"}
        of_before = self.full[1] if self.full and self.full[0] == batch.snapshot_id else []
        self.full = (batch.snapshot_id, of_before + [row for _, row in changes])


def read_versions(table: FileStoreTable, history: History, noise: random.Random) -> int:
    """Read versions by number until all is written; how many."""
    read = 0
    while not history.is_over.is_set() or not read:
        number = noise.choice(table.snapshots.ids() or [1])
        try:
            snapshot = table.snapshots.snapshot(number)
            rows = PaimonTable(table).read(snapshot=number, threads=noise.choice([1, 2])).read_all()
        except (UsageError, CorruptFileError, FileNotFoundError):
            # Only what expires may fail: files go before the snapshot that names them.
            path = Path(table.location, "snapshot", f"snapshot-{number}")
            wait_until(lambda: not path.exists())  # noqa: B023 - called at once
            continue
        assert by_content(normal_rows(rows)) == history.rows[snapshot.commit_identifier]
        read += 1
    return read


def check(follower: Follower, model: Model) -> None:
    """Each change of each snapshot was seen, and the full rows with them are the table."""
    history, mode = follower.history, follower.mode
    start = min(follower.changes)
    assert (follower.full is not None) == (mode in FULL), mode
    if follower.full is not None:
        number, rows = follower.full
        assert by_content(rows) == history.rows[history.epochs[number]], mode
        start = number + 1
    assert sorted(follower.changes) == [n for n in history.appends if n >= start], mode
    for number, changes in follower.changes.items():
        written = model.changes[history.epochs[number]]
        if follower.table.options.writes_changelog:
            assert_same_changes(changes, written, model)
        else:
            assert dict(_newest(changes)) == dict(_newest(written)), (mode, number)
    if follower.full is not None:
        state: dict[Any, Mapping[str, Any]] = {_key(row): row for row in follower.full[1]}
        for _, changes in sorted(follower.changes.items()):
            for kind, row in changes:
                if kind in ("+I", "+U"):
                    state[_key(row)] = row
                else:
                    state.pop(_key(row), None)
        assert by_content(list(state.values())) == history.rows[-1], mode


def _newest(changes: Iterable[Change]) -> Iterator[tuple[str, tuple[bool, Row | None]]]:
    """Yield for each key whether it has a row, and the row."""
    for kind, row in changes:
        is_there = kind in ("+I", "+U")
        yield _key(row), (is_there, normal_value(dict(row)) if is_there else None)


def _key(row: Mapping[str, Any]) -> str:
    return repr((row["p"], row["k"]))


@pytest.mark.parametrize("changelog", ["input", pytest.param("none", marks=pytest.mark.variant)])
def test_every_version_and_every_change(tmp_path: Path, seed: int, changelog: str) -> None:
    schema = new_table_schema(
        columns=parse_columns("p STRING, k INT, v STRING, n BIGINT"),
        primary_keys=("p", "k"),
        partition_keys=("p",),
        options={
            "bucket": "2",
            "changelog-producer": changelog,
            "num-sorted-run.compaction-trigger": "3",
            "snapshot.num-retained.min": "2",
            "snapshot.num-retained.max": "8",
            "snapshot.time-retained": "1 ms",
        },
        time_ms=1,
    )
    table = create_or_open(str(tmp_path / "db.db" / "t"), schema)
    writer = TableWriter(table, CompactInThreads)
    maintenance = TableMaintenance(table)
    changes = RandomChanges(schema, random.Random(seed))
    history = History()
    followers = [Follower(table, mode, history, random.Random(f"{seed}{mode}")) for mode in STARTS]

    def note_snapshots() -> None:
        latest = table.snapshots.latest_id() or 0
        for number in range(max(history.epochs, default=0) + 1, latest + 1):
            snapshot = table.snapshots.snapshot(number)
            history.epochs[number] = snapshot.commit_identifier
            if snapshot.commit_kind is CommitKind.APPEND:
                history.appends.append(number)

    def write(epoch: int) -> None:
        epochs = changes.epoch(30)
        # The model must know what will be in the table before a reader can see it.
        writer.model.changes.append(list(epochs))
        history.rows.append(by_content(writer.model.rows()))
        writer.attempt(epoch)
        note_snapshots()
        maintenance.after_commit()

    write(0)
    with ThreadPoolExecutor(len(followers) + 2) as pool:
        running = [pool.submit(follower.run) for follower in followers]
        readers = [
            pool.submit(read_versions, table, history, random.Random(seed + number))
            for number in range(2)
        ]
        try:
            for epoch in range(1, EPOCHS):
                write(epoch)
                time.sleep(0.01)
            writer.commit.compact_due()
            note_snapshots()
            maintenance.close()
        finally:
            history.is_over.set()
        assert all(reader.result() for reader in readers)
        for future in running:
            future.result()

    assert maintenance.metrics().snapshots_expired > 0
    for follower in followers:
        check(follower, writer.model)
    assert sum(follower.kills for follower in followers) > len(followers)
