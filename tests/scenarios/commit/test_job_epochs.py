"""Jobs of one table find their last epoch after any number of commits and expiries."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CommitConflictError, CorruptFileError
from stream_app.model.job_epoch import EPOCHS_PROPERTY
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, SOURCE_END_PROPERTY, CommitKind
from stream_app.planning.commit.job_epochs import KEPT_MS
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.files.overtaken_file_io import OvertakenFileIO
from tests.support.files.plain_object import plain_object
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.tables.small_table import SteppingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


@dataclass
class Jobs:
    """A table without a key, where a row that is written twice is there twice, and two jobs."""

    table: FileStoreTable
    first: TableWriter = field(init=False)
    second: TableWriter = field(init=False)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        self.first = TableWriter(self.table, user="first")
        self.second = TableWriter(self.table, user="second")

    def write(self, job: TableWriter, epochs: int = 1) -> None:
        for _ in range(epochs):
            job.write([("+I", {"k": self.rng.randrange(9), "v": job.user})])

    def expire(self, keep: int = 1) -> int:
        """Expire all but the latest so many; how many snapshots are left."""
        expire = ExpireSnapshots(self.table)
        config = expire_config(self.table.options, num_max=keep, num_min=keep)
        expire.execute(expire.plan(config))
        return len(self.table.snapshots.ids())

    def users(self) -> set[str]:
        return {snapshot.commit_user for snapshot in self.table.snapshots.backwards()}

    def assert_rows(self) -> None:
        rows = [*self.first.model.rows(), *self.second.model.rows()]
        assert by_content(read_rows(self.table)) == by_content(rows)


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    options: dict[str, Any] = {"compaction__min__file_num": 2, "snapshot__expire__limit": 1000}
    return Jobs(small_table(tmp_path / "db.db" / "t", "k INT, v STRING", **options).table)


def write_much(jobs: Jobs) -> None:
    jobs.write(jobs.second, 5)


def only_compact(jobs: Jobs) -> None:
    """A job that only compacts, after another engine's rows."""
    compactor = StreamTableCommit(
        jobs.table, "compactor", CompactInCaller(jobs.table), BATCH_COMMIT_IDENTIFIER
    )
    while compactor.compact_fully():
        pass


def commit_as_others_do(jobs: Jobs) -> None:
    """Snapshots of an engine that knows nothing of our properties."""
    jobs.write(jobs.second)
    for _ in range(3):
        a_foreign_snapshot(jobs.table)
    jobs.write(jobs.second)
    a_foreign_snapshot(jobs.table)


def a_foreign_snapshot(table: FileStoreTable) -> None:
    snapshot = committer(table, "flink").drop_partitions([b"no such partition"], 1)
    edit(table, snapshot.snapshot_id, lambda document: document.pop("properties"))


def committer(table: FileStoreTable, user: str) -> FileStoreCommit:
    return FileStoreCommit(table, CommitHistory(table, user, table.snapshots.latest()))


def edit(table: FileStoreTable, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    file = Path(table.location, "snapshot", f"snapshot-{number}")
    document = plain_object(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("meanwhile", [write_much, only_compact, commit_as_others_do])
def test_a_job_that_was_away_does_not_write_its_pending_epoch_again(
    jobs: Jobs, meanwhile: Callable[[Jobs], None]
) -> None:
    """Its checkpoint lacks the end of its last epoch, and all its snapshots have expired."""
    for _ in range(2):
        jobs.write(jobs.first, 3)
        meanwhile(jobs)
        # What other engines have committed since tells nothing, so one of ours stays before it.
        assert jobs.expire() == (2 if meanwhile is commit_as_others_do else 1)
        assert "first" not in jobs.users()
        jobs.first.restart()
        assert jobs.first.attempt(jobs.first.epoch - 1) is None
        jobs.assert_rows()
    jobs.write(jobs.first)
    jobs.assert_rows()


def test_where_an_epoch_ends_is_known_when_its_snapshot_has_expired(jobs: Jobs) -> None:
    job = StreamTableCommit(jobs.table, "third", CompactInCaller(jobs.table))
    job.follow_and_wait()
    job.commit_epoch(0, [], properties={SOURCE_END_PROPERTY: "the end"})
    write_much(jobs)
    assert jobs.expire() == 1
    again = StreamTableCommit(jobs.table, "third", CompactInCaller(jobs.table))
    assert job.state.last_source_end == again.state.last_source_end == "the end"


def test_a_commit_that_lost_a_race_copies_the_winners_record_of_jobs(jobs: Jobs) -> None:
    jobs.first.restart(OvertakenFileIO(before=[lambda: jobs.write(jobs.second, 2)]))
    jobs.write(jobs.first)
    assert jobs.table.snapshots.latest().commit_user == "first"  # type: ignore[union-attr]
    assert jobs.expire() == 1
    for job in (jobs.first, jobs.second):
        job.restart()
        assert job.commit.last_identifier == job.epoch - 1
    jobs.assert_rows()


def test_a_twin_is_found_when_its_snapshots_have_expired(jobs: Jobs) -> None:
    jobs.write(jobs.first, 2)
    alive = TableWriter(jobs.table, user="first")
    alive.model.changes += jobs.first.model.changes
    jobs.write(jobs.first)  # in another process: its twin does not know
    jobs.write(jobs.second, 2)
    assert jobs.expire() == 1
    with pytest.raises(CommitConflictError, match="another process works with the same checkpoint"):
        jobs.write(alive)
    jobs.assert_rows()


def test_a_job_that_is_gone_for_good_keeps_nothing(jobs: Jobs) -> None:
    """The table may have no other job of ours that commits and hands on the epochs of this one."""
    clock = jobs.table.clock
    assert isinstance(clock, SteppingClock)
    jobs.write(jobs.first, 2)
    for _ in range(3):
        a_foreign_snapshot(jobs.table)
    assert jobs.expire() == 4
    clock.millis += KEPT_MS
    assert jobs.expire() == 4, "nobody else has seen that so much time has passed"
    a_foreign_snapshot(jobs.table)
    assert jobs.expire() == 1
    a_foreign_snapshot(jobs.table)
    jobs.write(jobs.second)
    assert set(newest_epochs(jobs.table.snapshots)) == {"second"}


def test_a_clock_that_is_ahead_for_one_commit_does_not_make_the_table_forget(jobs: Jobs) -> None:
    clock = jobs.table.clock
    assert isinstance(clock, SteppingClock)
    jobs.write(jobs.first, 2)
    jobs.write(jobs.second)
    clock.millis += 2 * KEPT_MS
    jobs.write(jobs.second)
    clock.millis -= 2 * KEPT_MS
    jobs.write(jobs.second)
    assert jobs.expire() == 1
    jobs.first.restart()
    assert jobs.first.attempt(jobs.first.epoch - 1) is None
    jobs.assert_rows()


def test_a_table_of_an_older_version(jobs: Jobs) -> None:
    """The older version's epochs name their own job only, and its compactions name none."""
    jobs.write(jobs.first, 3)
    latest_of_first = next(
        snapshot.snapshot_id
        for snapshot in jobs.table.snapshots.backwards()
        if snapshot.commit_kind is CommitKind.APPEND
    )
    jobs.write(jobs.second, 3)
    a_foreign_snapshot(jobs.table)
    for number in jobs.table.snapshots.ids():
        snapshot = jobs.table.snapshots.snapshot(number)
        end = {SOURCE_END_PROPERTY: f"end of {number}"}
        properties = end if snapshot.commit_kind is CommitKind.APPEND else None
        edit(jobs.table, number, partial(dict.update, properties=properties))
    jobs.expire()
    assert jobs.table.snapshots.earliest_id() == latest_of_first
    jobs.second.restart()
    assert jobs.second.attempt(2) is None
    jobs.write(jobs.second)
    assert jobs.expire() == 1
    jobs.first.restart()
    assert jobs.first.commit.state.last_source_end == f"end of {latest_of_first}"
    assert jobs.first.attempt(2) is None
    jobs.assert_rows()


def test_after_a_rollback_the_table_knows_what_is_in_it(jobs: Jobs) -> None:
    jobs.write(jobs.first, 2)
    jobs.write(jobs.second, 2)
    create_tag(jobs.table, tag := new_tag(jobs.table, "t"))
    jobs.write(jobs.first, 2)
    jobs.write(jobs.second, 2)
    assert jobs.expire() == 1
    roll_back(jobs.table, plan_rollback(jobs.table, tag.snapshot), resets_consumers=False)
    for job in (jobs.first, jobs.second):
        job.restart()
        assert job.commit.last_identifier == 1


def test_of_many_snapshots_few_are_read(jobs: Jobs) -> None:
    """A commit and an expiry read few, even if no job has ever committed an epoch."""
    for _ in range(20):
        a_foreign_snapshot(jobs.table)
    committer(jobs.table, "one").truncate(BATCH_COMMIT_IDENTIFIER)
    file_io = CountingFileIO()
    table = replace(jobs.table, file_io=file_io)
    committer(table, "two").truncate(BATCH_COMMIT_IDENTIFIER)
    ExpireSnapshots(table).plan(expire_config(table.options, num_max=21, num_min=21))
    read = {name for name in file_io.read if name.startswith("snapshot-")}
    assert len(read) <= 4


def test_a_property_that_cannot_be_read_stops_all_jobs_that_need_it(jobs: Jobs) -> None:
    jobs.write(jobs.first, 2)
    number = jobs.table.snapshots.latest_id()
    assert number is not None
    edit(jobs.table, number, lambda document: document["properties"].update({EPOCHS_PROPERTY: "["}))
    with pytest.raises(
        CorruptFileError, match=r"cannot read a snapshot's stream_app\.epochs"
    ) as raised:
        jobs.write(jobs.second)  # the first one has made the snapshot, and knows what it tells
    assert raised.value.where == f"snapshot {number}"
    before = jobs.table.snapshots.ids()
    with pytest.raises(CorruptFileError):
        jobs.expire()
    assert jobs.table.snapshots.ids() == before
