"""A process dies, or the file system fails once, at each operation of an epoch in turn.

Whatever was half done: the next process finds the table whole and repeats the missing epochs, and
the table holds each change once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stream_app.errors import CommitConflictError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.table.opening import create_or_open
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError, Mode
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, assert_table_is
from tests.support.suite.strides import Strides
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")
OPTIONS = {
    "bucket": "2",
    "changelog-producer": "input",
    "num-sorted-run.compaction-trigger": "2",
    "manifest.merge-min-count": "3",
}


def a_writer(folder: Path) -> TableWriter:
    schema = new_table_schema(
        columns=parse_columns("k INT, v STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options=OPTIONS,
        time_ms=TIME_MS,
    )
    return TableWriter(create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock()))


def two_epochs(writer: TableWriter, seed: int) -> RandomChanges:
    changes = RandomChanges(writer.table.schema, random.Random(seed), key_count=8)
    for _ in range(2):
        writer.write(changes.epoch(6))
    return changes


def one_more(writer: TableWriter, fault: Fault) -> None:
    """An epoch that also commits a compaction and merges manifests, and what comes after it."""
    writer.restart(FaultyFileIO(fault=fault))
    # The table is restored when a bucket is touched: this epoch compacts, the next one commits it.
    for epoch in range(2, writer.epoch):
        writer.attempt(epoch)
    writer.commit.compact_due()


def operations(folder: Path) -> list[str]:
    writer, fault = a_writer(folder), Fault()
    changes = two_epochs(writer, 1)
    writer.model.changes += [changes.epoch(6), changes.epoch(6)]
    one_more(writer, fault)
    return fault.done


def test_the_epochs_do_all_that_can_fail(tmp_path: Path) -> None:
    kinds = [line.split("-")[0] for line in operations(tmp_path)]
    for operation in (
        "open data",
        "open changelog",
        "sync data",
        "write manifest",
        "create snapshot",
    ):
        assert operation in kinds
    assert kinds.count("create snapshot") >= 4
    assert len(kinds) > 40


@pytest.mark.parametrize("mode", ["after", "half"])
def test_a_writer_that_dies_at_any_operation_is_followed_by_one_that_finishes(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    """Dying before an operation leaves the same as dying after the one before it."""
    count = len(operations(tmp_path / "whole"))
    for operation in filter(strides.has, range(count)):
        writer = a_writer(tmp_path / str(operation))
        changes = two_epochs(writer, 1)
        writer.model.changes += [changes.epoch(6), changes.epoch(6)]
        fault = Fault(number=operation, mode=mode, stays_dead=True)
        try:
            one_more(writer, fault)
        except InjectedError:
            assert fault.has_struck
        writer.replay()
        assert_table_is(writer)
        writer.write(changes.epoch(6))
        writer.commit.compact_due()
        assert_table_is(writer)


@pytest.mark.parametrize("mode", ["before", "after", "half"])
def test_a_process_that_lives_on_after_a_failure_does_no_harm(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    """The process may repeat the epoch, or find it in the table; in that case it must stop."""
    count = len(operations(tmp_path / "whole"))
    for operation in filter(strides.has, range(count)):
        writer = a_writer(tmp_path / str(operation))
        changes = two_epochs(writer, 1)
        writer.model.changes += [changes.epoch(6), changes.epoch(6)]
        fault = Fault(number=operation, mode=mode)
        writer.restart(FaultyFileIO(fault=fault))
        for epoch in (2, 3):
            try:
                writer.attempt(epoch)
            except InjectedError:
                try:
                    writer.attempt(epoch)
                except CommitConflictError:
                    writer.restart()
                    assert writer.attempt(epoch) is None
        try:
            writer.commit.compact_due()
        except InjectedError:
            writer.commit.compact_due()
        assert fault.has_struck
        assert_table_is(writer)


@dataclass(frozen=True)
class ForgetfulFileIO(LocalFileIO):
    """Makes the snapshot of a number, answers with an error, and cannot read it at once."""

    snapshot: int = 0
    looks: list[str] = field(default_factory=list)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        is_created = LocalFileIO.create_if_absent(self, path, data)
        if path.endswith(f"snapshot-{self.snapshot}"):
            raise OSError("the answer was lost")
        return is_created

    def read_bytes(self, path: str) -> bytes:
        if path.endswith(f"snapshot-{self.snapshot}") and not self.looks:
            self.looks.append(path)
            raise OSError("no answer")
        return LocalFileIO.read_bytes(self, path)


def test_an_epoch_that_is_there_though_making_it_failed_is_not_written_again(
    tmp_path: Path,
) -> None:
    writer = a_writer(tmp_path)
    changes = two_epochs(writer, 1)
    latest = writer.table.snapshots.latest_id()
    assert latest is not None
    writer.restart(ForgetfulFileIO(snapshot=latest + 1))
    writer.model.changes.append(changes.epoch(6))
    with pytest.raises(OSError, match="no answer"):
        writer.attempt(2)
    with pytest.raises(CommitConflictError, match="though making it seemed to fail") as raised:
        writer.attempt(2)
    assert f"snapshot {latest + 1} (APPEND, identifier 2) for commit user" in raised.value.problem
    writer.restart()
    assert writer.attempt(2) is None
    assert_table_is(writer)


@pytest.mark.parametrize("attempt_kind", ["an epoch", "an idle commit"])
def test_files_of_a_compaction_that_may_be_committed_are_kept(
    tmp_path: Path, attempt_kind: str
) -> None:
    writer = a_writer(tmp_path)
    changes = two_epochs(writer, 3)
    writer.commit.compact_due()
    latest = writer.table.snapshots.latest_id()
    assert latest is not None
    compact = latest + (3 if attempt_kind == "an epoch" else 2)
    writer.restart(ForgetfulFileIO(snapshot=compact))
    writer.write(changes.epoch(6))
    assert writer.commit.coordinator.metrics().unfinished_count == 0
    writer.model.changes.append(changes.epoch(6))
    with pytest.raises(OSError, match="no answer"):
        writer.attempt(3) if attempt_kind == "an epoch" else writer.commit.commit_idle()
    assert writer.table.snapshots.snapshot(compact).commit_kind is CommitKind.COMPACT
    assert writer.commit.state.is_committed(3) is (attempt_kind == "an epoch")
    if attempt_kind == "an idle commit":
        writer.attempt(3)
    writer.commit.compact_due()
    assert_table_is(writer)
