"""Writes random epochs into a table by a whole job in one process, with a dict as the model.

`TableWriter` writes, commits and compacts as the streaming job does. `Model` knows the rows and
every change; `check_chain` holds each snapshot against the rules of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from stream_app.fileio.file_io import FileIO
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.options.merge_options import IGNORE_DELETE
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import EpochOutcome, StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from tests.support.judges.normal_rows import Row, normal_rows, normal_value
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import Change, SteppingClock, write_changes
from tests.support.tables.snapshot_chain import check_chain

KIND_TEXTS = ("+I", "-U", "+U", "-D")


@dataclass
class CompactInThreads:
    """An executor that compacts in threads; the first `failures` compactions of a bucket raise."""

    table: FileStoreTable
    failures: int = 0
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    requests: list[CompactRequest] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.requests.append(request)
        tries = sum(
            1 for earlier_request in self.requests if earlier_request.bucket == request.bucket
        )
        return self.threads.submit(self._run, request, fails=tries <= self.failures)

    def _run(self, request: CompactRequest, *, fails: bool) -> BucketChange:
        if fails:
            raise OSError("no executor is left")
        return compact_bucket(self.table, request)


@dataclass
class CompactInCaller:
    """An executor that compacts at once; a failure is the future's, as on a cluster."""

    table: FileStoreTable
    requests: list[CompactRequest] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.requests.append(request)
        future: Future[BucketChange] = Future()
        try:
            future.set_result(compact_bucket(self.table, request))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class CompactLater:
    """An executor that compacts when the test asks for it."""

    table: FileStoreTable
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.waiting.append((request, Future()))
        return self.waiting[-1][1]

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for request, future in waiting:
            future.set_result(compact_bucket(self.table, request))


@dataclass
class Model:
    """The rows and changes that a table must hold after some epochs.

    Attributes:
        keys, sequence: names of the key's and the sequence columns.
        changes: those of each epoch, in order.
    """

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    ignore_delete: bool = False
    changes: list[list[Change]] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """Return the newest row of each key; a tie of the sequence columns is won by the later row.

        Without keys every row that was added.
        """
        if not self.keys:
            adds = [row for epoch in self.changes for kind, row in epoch if kind in ("+I", "+U")]
            return [normal_value(dict(row)) for row in adds]
        newest: dict[tuple[Any, ...], tuple[Any, str, Row]] = {}
        for epoch in self.changes:
            for kind, row in epoch:
                if self.ignore_delete and kind in ("-U", "-D"):
                    continue
                key = tuple(row[name] for name in self.keys)
                # Nulls come first.
                rank = tuple((row[name] is not None, row[name]) for name in self.sequence)
                if key not in newest or rank >= newest[key][0]:
                    newest[key] = (rank, kind, dict(row))
        return [normal_value(row) for _, kind, row in newest.values() if kind in ("+I", "+U")]


@dataclass
class WorkingClock(SteppingClock):
    """A clock with which a writer that waits for a compaction gets the result of `work`."""

    work: Callable[[], object] = field(kw_only=True)

    def wait_for_any(
        self, futures: Collection[Future[Any]], timeout_s: float | None = None
    ) -> None:
        self.work()


@dataclass
class TableWriter:
    """A writer of epochs of changes, which works as a job does.

    Attributes:
        make_executor: makes the compactions' executor, again after each restart.
    """

    table: FileStoreTable
    make_executor: Callable[[FileStoreTable], CompactExecutor] = CompactInCaller
    user: str = "writer"
    model: Model = field(init=False)
    commit: StreamTableCommit = field(init=False)
    executor: CompactExecutor = field(init=False)

    def __post_init__(self) -> None:
        schema = self.table.schema
        ignores = self.table.options[IGNORE_DELETE]
        self.model = Model(schema.primary_keys, schema.sequence_fields, ignores)
        self.restart()

    def restart(self, file_io: FileIO | None = None) -> None:
        """Start a new process with the same checkpoint."""
        if file_io is None:
            # A local one may have been made to fail by the test; others are as they were.
            is_local = isinstance(self.table.file_io, LocalFileIO)
            file_io = LocalFileIO() if is_local else self.table.file_io
        self.table = replace(self.table, file_io=file_io)
        self.executor = self.make_executor(self.table)
        self.commit = StreamTableCommit(self.table, self.user, self.executor)

    @property
    def epoch(self) -> int:
        """The number of the next epoch."""
        return len(self.model.changes)

    def write(self, changes: Sequence[Change]) -> EpochOutcome | None:
        """Write one epoch; return None if the table has it already."""
        self.model.changes.append(list(changes))
        return self.attempt(self.epoch - 1)

    def attempt(self, epoch: int) -> EpochOutcome | None:
        """Process an epoch of the model (again)."""
        if self.commit.state.is_committed(epoch):
            return None
        first = self.commit.follow_and_wait()
        changes, basis = self.model.changes[epoch], self.commit.bucket_state.basis
        bucket_changes = write_changes(self.table, changes, first, basis) if changes else []
        return self.commit.commit_epoch(epoch, bucket_changes, basis=basis)

    def replay(self) -> None:
        """Restart, and process all missing epochs."""
        self.restart()
        for epoch in range(self.epoch):
            self.attempt(epoch)


def read_rows(table: FileStoreTable) -> list[Row]:
    """Return the latest snapshot's rows."""
    read = MergeRead(table)
    return normal_rows(
        pa.Table.from_batches(read.read(table.snapshots.latest()), schema=read.schema)
    )


def by_content(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts in an order that depends on nothing else."""
    return sorted(repr(sorted(row.items())) for row in rows)


def read_changes(table: FileStoreTable) -> dict[int, list[tuple[str, Row]]]:
    """Return changes by commit identifier, in reading order."""
    by_epoch: dict[int, list[tuple[str, Row]]] = {}
    for batch in PaimonTable(table).changelog(snapshot=1):
        rows = normal_rows(pa.Table.from_batches([batch.rows]))
        changes = [(row.pop("rowkind"), row) for row in rows]
        identifier = table.snapshots.snapshot(batch.snapshot_id).commit_identifier
        by_epoch.setdefault(identifier, []).extend(changes)
    return by_epoch


def assert_table_is(writer: TableWriter) -> None:
    """Check that rows, changes and metadata are what the model says."""
    table, model = writer.table, writer.model
    assert by_content(read_rows(table)) == by_content(model.rows())
    if table.options.writes_changelog:
        by_epoch = read_changes(table)
        for epoch, changes in enumerate(model.changes):
            assert_same_changes(by_epoch.pop(epoch, []), changes, model)
        assert by_epoch == {}, "changes of epochs that were never written"
    check_chain(table)


def assert_same_changes(read: Sequence[Change], written: Sequence[Change], model: Model) -> None:
    """Check that each change is there once, in the key's order or that of the sequence columns."""
    expected = [
        (kind, normal_value(dict(row)))
        for kind, row in written
        if not (model.ignore_delete and kind in ("-U", "-D"))
    ]
    if model.sequence:
        assert by_content([{"": kind, **row} for kind, row in read]) == by_content(
            [{"": kind, **row} for kind, row in expected]
        )
        return
    assert _by_key(read, model.keys) == _by_key(expected, model.keys)


def _by_key(changes: Sequence[Change], keys: Sequence[str]) -> dict[str, list[Change]]:
    grouped_changes: dict[str, list[Change]] = {}
    for kind, row in changes:
        grouped_changes.setdefault(repr([row[name] for name in keys]), []).append((kind, row))
    return grouped_changes
