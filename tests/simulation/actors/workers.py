"""The processes that work on the table: jobs with their checkpoints, a compactor, a reader.

Each action runs production code in a thread of its own. This module lists
what it may raise after a fault; anything else is a finding.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.errors import (
    CheckpointError,
    CommitConflictError,
    CommitError,
    CompactionError,
    LateCommitError,
    OutdatedRowsError,
)
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.bucket_hash import bucket_of
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, SOURCE_END_PROPERTY
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_assigner, table_write
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.table_write import TableWrite
from tests.simulation.faults import InjectedError
from tests.simulation.model.merging import has_nulls, kinds_of, whole_again
from tests.simulation.model.promises import demand
from tests.simulation.scenario import Change, Verb
from tests.simulation.scheduler import CrashError, Process
from tests.simulation.seeds import OLD_PARTITION, YOUNG_PARTITION
from tests.simulation.simulated_files import SimulatedFileIO
from tests.simulation.world import World
from tests.support.tables.small_table import KINDS

TASK_ATTEMPTS = 2
KEYS = 6
NULLS = 0.3
"""How often a value is null, where that means something."""


@dataclass
class Cluster:
    """Runs compactions, each as a process of its own.

    Attributes:
        findings: errors that no fault explains.
    """

    world: World
    table: FileStoreTable
    driver: Process
    findings: list[BaseException]

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        future: Future[BucketChange] = Future()
        process = self.world.process(f"{self.driver.name}/compaction", self.driver)
        table = seen_by(self.table, self.world, process)

        def work() -> None:
            try:
                future.set_result(compact_bucket(table, request))
            except CrashError:
                future.set_exception(OSError("the executor is lost"))
            except Exception as error:
                if not is_of_a_fault(error) and self._is_whole(request):
                    self.findings.append(error)
                future.set_exception(error)

        self.world.scheduler.spawn(process, work)
        return future

    def _is_whole(self, request: CompactRequest) -> bool:
        """Return whether the table still has all files to compact; else expiry may take one."""
        table = replace(self.table, file_io=self.world.files)
        live = FileStoreScan(table).live(table.snapshots.latest())
        names = {entry.file.file_name for entry in live}
        return names >= {file.file_name for file in request.unit.files}


@dataclass
class Job:
    """A job with a checkpoint that outlives its processes.

    When the table goes back behind what the checkpoint has finished, the job gets a new one, and
    begins where the table ends.

    Attributes:
        user: the identity of the checkpoint.
        plans: changes of each epoch that a checkpoint has planned, by its user.
        is_cut: the table has gone back behind what the checkpoint has finished.
        may_be_stopped: a process may have known what has gone.
        came_late: a process was held up until its number was free again, and left its files.
        finished_epoch: the last epoch of which the checkpoint knows that it is done; -1: none.
        commits_epochs: else it compacts only.
        emptying: epochs behind a TRUNCATE, by user and number.
        zombie: a process of its own that is believed dead in this round, and works on.
    """

    world: World
    table: FileStoreTable
    name: str
    first_key: int = 0
    commits_epochs: bool = True
    user: str = field(init=False)
    plans: dict[str, list[list[Change]]] = field(default_factory=dict)
    is_cut: bool = False
    may_be_stopped: bool = False
    finished_epoch: int = -1
    came_late: bool = False
    emptying: set[tuple[str, int]] = field(default_factory=set)
    findings: list[BaseException] = field(default_factory=list)
    commit: StreamTableCommit | None = None
    process: Process = field(default_factory=lambda: Process("none", is_killed=True))
    zombie: Process | None = None
    _values: int = 0
    _deleted_keys: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._take_checkpoint([])

    @property
    def epochs(self) -> list[list[Change]]:
        """Return the epochs that the checkpoint has planned."""
        return self.plans[self.user]

    def plan(self, rng: random.Random, count: int) -> None:
        """Fix what the next epoch is, unless one is pending."""
        if self.finished_epoch == len(self.epochs) - 1:
            self.epochs.append([self._change(rng) for _ in range(count)])

    def opened(self) -> StreamTableCommit:
        """The process's committer, after a restart a new one."""
        if self.commit is None or self.process.is_dead:
            self.process = self.world.process(self.name)
            self.may_be_stopped &= self.zombie is not None
            table = seen_by(self.table, self.world, self.process)
            cluster = Cluster(self.world, table, self.process, self.findings)
            only_compacts = None if self.commits_epochs else BATCH_COMMIT_IDENTIFIER
            self.commit, finished_epoch = None, self.finished_epoch
            commit = StreamTableCommit(table, self.user, cluster, only_compacts)
            if self.commits_epochs and self._is_behind(commit, finished_epoch):
                commit = StreamTableCommit(table, self.user, cluster)
            self.commit = commit
        return self.commit

    def kill(self) -> None:
        """The process and all that it began is gone."""
        self.process.is_killed = True
        self.commit = None

    def do_epochs(self, rng: random.Random, counts: Sequence[int], verb: Verb = Verb.EPOCH) -> None:
        """Do what is pending, and then an epoch for each count, in a process that lives."""
        commit = self.opened()
        for _ in range(len(self.epochs) - self.finished_epoch - 1):
            self.attempt(self.process, commit)
        for count in counts:
            self.plan(rng, count)
            if verb is Verb.EMPTYING:
                self.emptying.add((self.user, len(self.epochs) - 1))
            self.attempt(self.process, commit)

    def attempt(self, process: Process, commit: StreamTableCommit) -> None:
        """Do the pending epoch, as `epochs.rounds.epoch_committer` does."""
        epoch = self.finished_epoch + 1
        if epoch == len(self.epochs) or commit.state.commit_user not in ("compactor", self.user):
            return
        if not commit.state.is_committed(epoch):
            first, truncates = commit.follow_and_wait(), (self.user, epoch) in self.emptying
            has_index = not self.table.kind_traits.has_bucket_number
            basis = NO_BASIS if truncates and has_index else commit.bucket_state.basis
            messages = self._write(process, self.epochs[epoch], first, basis, truncates=truncates)
            commit.commit_epoch(
                epoch,
                messages,
                properties={SOURCE_END_PROPERTY: str(epoch)},
                truncates=truncates,
                basis=basis,
            )
        if commit.state.commit_user == self.user:
            self.finished_epoch = max(self.finished_epoch, epoch)

    def survives(self, error: BaseException | None, rng: random.Random) -> None:
        """See to it that an error may be; decide whether the process goes on after it."""
        if error is None:
            return
        is_over = isinstance(error, (CrashError, CommitConflictError, CheckpointError))
        if is_over or rng.random() < 0.5:
            self.kill()
        if not isinstance(error, CrashError) and not self._may_be(error):
            self.findings.append(error)

    def _may_be(self, error: BaseException) -> bool:
        if isinstance(error, LateCommitError):
            self.came_late = True
            return True
        if isinstance(error, CheckpointError):
            return self.may_be_stopped
        # A partition was rescaled: the next process routes the epoch's rows by the new number.
        ends = CommitError | CompactionError | OutdatedRowsError
        return is_of_a_fault(error) or isinstance(error, ends)

    def _is_behind(self, commit: StreamTableCommit, finished_epoch: int) -> bool:
        """Return whether the checkpoint is useless to `epoch_committer`; if so, replace it."""
        last = -1 if commit.last_identifier is None else commit.last_identifier
        if last in (finished_epoch, finished_epoch + 1):
            return False
        demand(
            self.is_cut and last < finished_epoch,
            f"{self.user} finished {finished_epoch}, table has {last}",
        )
        # Without a checkpoint the table alone tells where its version ends.
        end = "-1" if commit.state.last_source_end is None else commit.state.last_source_end
        demand(end == str(last), f"epoch {last} of {self.user} ends at {end}")
        self._take_checkpoint(self.epochs[last + 1 :])
        return True

    def _take_checkpoint(self, epochs: list[list[Change]]) -> None:
        self.user = f"{self.name}-{len(self.plans)}" if self.plans else self.name
        self.plans[self.user] = epochs
        self.finished_epoch, self.is_cut = -1, False

    def _write(
        self,
        process: Process,
        changes: Sequence[Change],
        first: int,
        basis: BucketBasis,
        *,
        truncates: bool,
    ) -> list[BucketChange]:
        """Write in a task, which is tried again when it fails."""
        for attempt in range(TASK_ATTEMPTS):
            task = self.world.process(f"{self.name}/task", process)
            table = replace(seen_by(self.table, self.world, task), is_emptied=truncates)
            try:
                with writing(table, first, basis) as write:
                    for bucket, rows in by_bucket(table, changes, basis):
                        write.write(bucket, rows)
                    return write.prepare_commit()
            except CrashError:
                if process.is_dead or attempt == TASK_ATTEMPTS - 1:
                    process.is_killed = True
                    raise
            except InjectedError:
                if attempt == TASK_ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _change(self, rng: random.Random) -> Change:
        self._values += 1
        options, keys = self.table.schema.options, self.table.schema.primary_keys
        row = {
            "k": self.first_key + rng.randrange(KEYS),
            "v": self.first_key * 1_000_000 + self._values,
            "p": rng.choice([OLD_PARTITION, YOUNG_PARTITION]),
            # Files differ in size, so that compactions pick some of them.
            "t": rng.choice(["", "", rng.randbytes(1000).hex()]),
        }
        kind = rng.choice(kinds_of(options, has_key=bool(keys)))
        if has_nulls(options):
            row |= {name: None for name in ("v", "t") if rng.random() < NULLS}
            whole_again(kind, row, self._deleted_keys)
        return kind, row


def seen_by(table: FileStoreTable, world: World, process: Process) -> FileStoreTable:
    """The table with the files of a process."""
    return replace(table, file_io=SimulatedFileIO(world, process))


def writing(table: FileStoreTable, first: int, basis: BucketBasis) -> TableWrite:
    """The writer of an epoch's rows, from a sequence number on."""
    return table_write(table, next_sequence_number=first, basis=basis)


def is_of_a_fault(error: BaseException | None) -> bool:
    """Return whether an injected error has led to this one."""
    while error is not None:
        if isinstance(error, InjectedError):
            return True
        error = error.__cause__ or error.__context__
    return False


def has_fault(error: BaseException) -> bool:
    """Return whether a fault explains an error: the process died, or an operation failed."""
    return isinstance(error, CrashError) or is_of_a_fault(error)


def by_bucket(
    table: FileStoreTable, changes: Sequence[Change], basis: BucketBasis
) -> list[tuple[BucketId, pa.RecordBatch]]:
    """Changes as batches, bucket by bucket, in their order.

    Args:
        basis: by which they find their buckets.
    """
    if not changes:
        return []
    schema = table.schema
    kinds = pa.array([int(KINDS[kind]) for kind, _ in changes], pa.int8())
    rows = pa.RecordBatch.from_pylist([row for _, row in changes], arrow_schema(schema.fields))
    batch = rows.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds)
    traits = schema.kind_traits
    if (
        traits.indexes_hashes
        or traits.crosses_partitions
        or traits.postpones
        or basis.bucket_counts
    ):
        assigned_buckets = bucket_assigner(table, basis).assign(batch)
        return [(BucketId(partition, bucket), part) for partition, bucket, part in assigned_buckets]
    buckets = [0] * len(changes)
    if traits.has_buckets:
        keys = [rows.column(name) for name in schema.bucket_keys]
        types = schema.fields.project(schema.bucket_keys).types
        buckets = bucket_of(keys, types, table.options.bucket).tolist()
    parts = [rows.column(name) for name in schema.partition_keys]
    places: dict[BucketId, list[int]] = {}
    for place, bucket in enumerate(buckets):
        partition = serialize_arrow_row(parts, schema.partition_type.types, place)
        places.setdefault(BucketId(partition, bucket), []).append(place)
    return [(place, batch.take(pa.array(indices))) for place, indices in places.items()]
