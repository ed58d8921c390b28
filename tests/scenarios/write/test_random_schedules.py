"""A job's table equals a dict, whatever happens to the job's compactions.

Epochs of inserts, updates and deletes in several buckets; compactions that end in any order, fail
or are lost; another writer that appends and compacts, also in the middle of our commits; restarts.
After every step the table is what the dict says and its levels are right; at the end no file is on
the disk that no snapshot names, but those that the design leaves behind.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stream_app.errors import CompactionError
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.table.compact.compaction_failures import FAILURES_MAX
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError
from tests.support.files.overtaken_file_io import OvertakenFileIO
from tests.support.jobs.table_writer import WorkingClock, read_rows
from tests.support.suite.strides import Strides
from tests.support.tables.small_table import CompactHere, small_table, write_changes
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")
EXAMPLES, STEPS = 45, 30
KEYS = st.integers(0, 11)
CHANGES = st.lists(st.tuples(st.sampled_from(["+I", "+I", "-D"]), KEYS), max_size=8)
HOWS = st.sampled_from(["at once", "half way", "after all"])


@dataclass
class CompactOnDemand:
    """Compactions end when and how the test says.

    Attributes:
        left_behind: names of files whose compaction was lost, so that nobody deletes them.
        uncommitted_names: of those that ended since the last commit.
    """

    table: FileStoreTable
    left_behind: set[str]
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)
    failures: dict[BucketId, int] = field(default_factory=dict)
    uncommitted_names: set[str] = field(default_factory=set)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        bucket = request.bucket_id
        assert all(bucket != request.bucket_id for request, _ in self.waiting)
        check_deletes_may_go(self.table, request)
        self.waiting.append((request, Future()))
        return self.waiting[-1][1]

    def end(self, number: int) -> None:
        request, future = self.waiting.pop(number)
        try:
            future.set_result(compact_bucket(self.table, request))
            self.uncommitted_names |= {file.file_name for file in future.result().written_files}
            self.failures.pop(request.bucket_id, None)
        except Exception as error:  # as on a cluster: the future's
            future.set_exception(error)
            self._count_failure(request)

    def fail(self, number: int, how: str) -> None:
        request, future = self.waiting.pop(number)
        if how == "half way":
            broken = FaultyFileIO(fault=Fault(number=1))
            # One that has nothing to write has nothing to fail at.
            with contextlib.suppress(InjectedError):
                compact_bucket(replace(self.table, file_io=broken), request)
        elif how == "after all":
            self.lose(request)
        future.set_exception(OSError("no executor is left"))
        self._count_failure(request)

    def lose(self, request: CompactRequest) -> None:
        """End the compaction without a report to the job."""
        result = compact_bucket(self.table, request)
        self.left_behind |= {file.file_name for file in result.written_files}

    def _count_failure(self, request: CompactRequest) -> None:
        bucket = request.bucket_id
        self.failures[bucket] = self.failures.get(bucket, 0) + 1


def live_files(table: FileStoreTable) -> dict[BucketId, list[DataFileMeta]]:
    files: dict[BucketId, list[DataFileMeta]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        files.setdefault(entry.bucket_id, []).append(entry.file)
    return files


def check_deletes_may_go(table: FileStoreTable, request: CompactRequest) -> None:
    """Check that the rest is newer than all compacted files if the compaction drops deletes."""
    taken = {(file.level, file.file_name) for file in request.unit.files}
    live = live_files(table).get(request.bucket_id, [])
    if not request.drops_deletes or not taken <= {(file.level, file.file_name) for file in live}:
        return  # decided before another writer changed the bucket: it will not be committed
    newest = max(file.max_sequence_number for file in request.unit.files)
    remaining_files = [file for file in live if (file.level, file.file_name) not in taken]
    assert all(file.min_sequence_number > newest for file in remaining_files)


class Job(RuleBasedStateMachine):
    """Our job, its table, another writer, and what the table must hold."""

    executor: CompactOnDemand

    @initialize(
        buckets=st.integers(1, 3),
        trigger=st.integers(1, 4),
        options=st.fixed_dictionaries(
            {},
            optional={
                "num_levels": st.integers(2, 4),
                "target_file_size": st.just("200 b"),
                "compaction__max_size_amplification_percent": st.sampled_from([0, 50, 10_000]),
                "compaction__size_ratio": st.sampled_from([0, 100]),
                "compaction__force_rewrite_all_files": st.just("true"),
                "compaction__incremental_size_threshold": st.just("6 kb"),
            },
        ),
    )
    def begin(self, buckets: int, trigger: int, options: dict[str, Any]) -> None:
        self.folder = TemporaryDirectory(prefix="stream_app-test-")
        options |= {"bucket": buckets, "num_sorted_run__compaction_trigger": trigger}
        path = f"{self.folder.name}/db.db/t"
        self.table = small_table(path, "k INT, v INT", ("k",), **options).table
        self.overtaken = OvertakenFileIO()
        self.left_behind: set[str] = set()
        self.rows: dict[int, int] = {}
        self.value = self.epoch = self.rival_epoch = 0
        eager = self.table.with_options({"num-sorted-run.compaction-trigger": "1"})
        self.rival = StreamTableCommit(eager, "rival", CompactHere(eager))
        self.restart()

    @rule()
    def restart(self) -> None:
        """End running compactions unheard, and drop finished ones uncommitted."""
        if hasattr(self, "executor"):
            self.left_behind |= self.executor.uncommitted_names
            for request, _ in self.executor.waiting[1:]:
                self.executor.lose(request)
        clock = WorkingClock(work=self.end_one)
        table = replace(self.table, file_io=self.overtaken, clock=clock)
        self.executor = CompactOnDemand(table, self.left_behind)
        self.commit = StreamTableCommit(table, "job", self.executor)

    def end_one(self) -> None:
        """A writer that waits for a compaction gets one."""
        if self.executor.waiting:
            self.executor.end(0)

    @rule(changes=CHANGES, overtaken=st.sampled_from(["", "", "writing", "1st", "2nd"]))
    def write(self, changes: list[tuple[str, int]], overtaken: str) -> None:
        """An epoch; the other writer may compact before one of its snapshots."""
        before, is_known = self.runs(), self.commit.last_identifier is not None
        first = self.commit.follow_and_wait()
        rows = self.rows_of(changes)
        bucket_changes = write_changes(self.table, rows, first) if rows else []
        if overtaken == "writing":
            self.rival.compact_due()
        elif overtaken:
            quiet = [lambda: None] * (overtaken == "2nd")
            self.overtaken.before[:] = [self.rival.compact_due, *quiet]
        try:
            self.commit.commit_epoch(self.epoch, bucket_changes)
        except CompactionError:
            # The epoch is not in the table; the next process does it again.
            assert max(self.executor.failures.values()) >= FAILURES_MAX
            self.restart()
            bucket_changes = (
                write_changes(self.table, rows, self.commit.follow_and_wait()) if rows else []
            )
            self.commit.commit_epoch(self.epoch, bucket_changes)
        self.executor.uncommitted_names.clear()
        self.overtaken.before.clear()
        self.epoch += 1
        self.take_in(changes, rows)
        stop = self.table.options.stop_trigger
        for bucket, count in self.runs().items():
            # A job that has not committed yet has no number under which it could compact.
            most = stop if is_known else max(stop, before.get(bucket, 0))
            assert count <= most + 1

    @rule(changes=CHANGES, compacts=st.booleans())
    def another_writes(self, changes: list[tuple[str, int]], compacts: bool) -> None:
        first = self.rival.follow_and_wait()
        rows = self.rows_of(changes)
        bucket_changes = write_changes(self.table, rows, first) if rows else []
        self.rival.commit_epoch(self.rival_epoch, bucket_changes)
        self.rival_epoch += 1
        self.take_in(changes, rows)
        if compacts:
            self.rival.compact_due()

    def is_compacting(self) -> bool:
        return hasattr(self, "executor") and bool(self.executor.waiting)

    @precondition(is_compacting)
    @rule(data=st.data())
    def a_compaction_ends(self, data: st.DataObject) -> None:
        self.executor.end(data.draw(st.integers(0, len(self.executor.waiting) - 1)))

    @precondition(is_compacting)
    @rule(data=st.data(), how=HOWS)
    def a_compaction_fails(self, data: st.DataObject, how: str) -> None:
        self.executor.fail(data.draw(st.integers(0, len(self.executor.waiting) - 1)), how)

    @rule()
    def idle(self) -> None:
        self.commit.commit_idle()
        self.executor.uncommitted_names.clear()

    @invariant()
    def the_table_is_what_was_written(self) -> None:
        rows = read_rows(self.table)
        assert {row["k"]: row["v"] for row in rows} == self.rows
        assert len(rows) == len(self.rows)

    @invariant()
    def levels_are_right(self) -> None:
        for (partition, bucket), files in live_files(self.table).items():
            access = self.table.bucket_files(partition, bucket)
            for level in {file.level for file in files} - {0}:
                run = sorted(
                    (file for file in files if file.level == level),
                    key=lambda file: self.table.key_of(file.min_key),
                )
                ends = [
                    (self.table.key_of(file.min_key), self.table.key_of(file.max_key))
                    for file in run
                ]
                assert all(left[1] < right[0] for left, right in pairwise(ends))
                keys = [
                    key
                    for file in run
                    for batch in access.read(file)
                    for key in batch.column("k").to_pylist()
                ]
                assert len(set(keys)) == len(keys), "a key twice in a level"
                if level == self.table.options.num_levels - 1:
                    assert not any(file.delete_row_count for file in run)

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        self.rival.compact_due()
        self.commit.compact_due()
        self.the_table_is_what_was_written()
        self.levels_are_right()
        check_chain(self.table)
        named_files = files_that_snapshots_name(self.table)
        assert named_files <= files_on_disk(self.table, "data-") <= named_files | self.left_behind
        self.folder.cleanup()

    def rows_of(self, changes: list[tuple[str, int]]) -> list[tuple[str, dict[str, int]]]:
        self.value += len(changes)
        return [
            (kind, {"k": key, "v": self.value - number})
            for number, (kind, key) in enumerate(changes)
        ]

    def take_in(
        self, changes: list[tuple[str, int]], rows: list[tuple[str, dict[str, int]]]
    ) -> None:
        for (kind, key), (_, row) in zip(changes, rows, strict=True):
            if kind == "-D":
                self.rows.pop(key, None)
            else:
                self.rows[key] = row["v"]

    def runs(self) -> dict[BucketId, int]:
        return {
            bucket: len({file.level or file.file_name for file in files})
            for bucket, files in live_files(self.table).items()
        }


@pytest.mark.slow
def test_rows_are_right_whatever_happens_to_compactions(strides: Strides) -> None:
    run_state_machine_as_test(
        Job,
        settings=settings(
            max_examples=EXAMPLES // strides.length,
            # Making a failure shorter would take minutes, and its steps are few.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
