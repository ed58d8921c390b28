"""A whole job restores the unchanged values (TOAST) that updates omit, epoch by epoch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, TableTraits
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import StoppingTables
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch
from stream_app.format.arrow_schema import arrow_schema
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.snapshot import CommitKind
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from tests.support.engines.begun_epoch import begin_epoch
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactLater,
    TableWriter,
    by_content,
    read_changes,
    read_rows,
)
from tests.support.jobs.two_table_job import Reports
from tests.support.tables.small_table import CompactHere, small_table
from tests.support.tables.snapshot_chain import check_chain

TOASTED = "__debezium_unavailable_value"
COLUMNS = "id BIGINT, body STRING NOT NULL, n INT"


@dataclass
class ToastJob:
    """A job whose source logs only keys of old rows."""

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    make_executor: type[CompactHere] | type[CompactLater] = CompactHere
    columns: str = COLUMNS
    executors: list[CompactExecutor] = field(default_factory=list)
    epochs: list[list[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        small = small_table(
            self.folder / "t", self.columns, ("id",), **{"bucket": 2, **self.options}
        )
        self.table = small.table
        self.committer = self.started()

    def started(self) -> EpochCommitter[Parts]:
        """A new process with the same checkpoint."""
        feed = TableFeed(
            name="t",
            table_job=TableJob(self.table, self._executor),
            make_pipeline=_pipeline_of,
            quarantine_writer=QuarantineWriter(
                JobFolder(str(self.folder / "bad"), self.table.file_io), None
            ),
            listener=Reports(),
        )
        tables = StoppingTables(
            [feed],
            epoch_log=EpochLog(self._checkpoint(), can_reread=True),
            state_file=JobStateFile(self._checkpoint()),
            now_ms=self.table.clock.now_ms,
        )
        settings = EpochSettings(task_count=2, block_bytes_max=2000)
        return EpochCommitter(
            RoundRunner(
                tables=tables, settings=settings, epoch_runner=EpochHere(), clock=self.table.clock
            )
        )

    def _executor(self, table: FileStoreTable) -> CompactExecutor:
        self.executors.append(self.make_executor(table))
        return self.executors[-1]

    def _checkpoint(self) -> JobFolder:
        return JobFolder(str(self.folder / "checkpoint"), self.table.file_io)

    def run(self, *values: bytes) -> None:
        """Write one epoch."""
        self.epochs.append(list(values))
        epoch = len(self.epochs) - 1
        start, end = ({"t": {"0": sum(map(len, those))}} for those in ([], self.epochs))
        begin_epoch(self._checkpoint(), epoch, start, end)
        self.repeat(epoch)

    def repeat(self, epoch: int) -> None:
        """An epoch, perhaps once more."""
        before = sum(map(len, self.epochs[:epoch]))
        rows = [
            {"topic": "t", "partition": 0, "offset": offset, "key": _key(value), "value": value}
            for offset, value in enumerate(self.epochs[epoch], before)
        ]
        whole = pa.RecordBatch.from_pylist(rows, MESSAGE_SCHEMA)
        try:
            self.committer.process_epoch(
                [whole.slice(0, 7), whole.slice(7)] if len(rows) > 7 else [whole], epoch
            )
        except RuntimeError:
            assert self.committer.failure is not None
            raise self.committer.failure from None

    def rows(self) -> list[str]:
        check_chain(self.table)
        return by_content(read_rows(self.table))

    def bad(self, epoch: int) -> list[dict[str, Any]]:
        """The quarantine's records of an epoch."""
        path = self.folder / "bad" / f"epoch-{epoch}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _pipeline_of(table: FileStoreTable) -> Pipeline:
    schema = table.schema
    return format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=schema.fields,
            arrow_schema=arrow_schema(schema.fields),
            primary_keys=schema.primary_keys,
            options={},
            keeps_update_before=schema.core_options.writes_changelog,
            traits=TableTraits(restored_columns=frozenset(("body", "n"))),
        ),
    )


def _key(value: bytes) -> bytes:
    event = json.loads(value)
    return json.dumps({"id": (event["after"] or event["before"])["id"]}).encode()


def change(op: str, id_: int, body: str = TOASTED, n: int = 0) -> bytes:
    """A message as Debezium sends it with REPLICA IDENTITY DEFAULT."""
    row = {"id": id_, "body": body, "n": n}
    if op == "d":
        return json.dumps({"before": {**row, "body": "", "n": 0}, "after": None, "op": op}).encode()
    return json.dumps({"before": None, "after": row, "op": op}).encode()


def a_row(id_: int, body: str, n: int) -> dict[str, Any]:
    return {"id": id_, "body": body, "n": n}


def test_a_value_of_an_earlier_epoch_and_of_the_same_one(tmp_path: Path) -> None:
    job = ToastJob(tmp_path)
    job.run(change("c", 1, "one"), change("c", 2, "two"))
    job.run(
        change("u", 1, n=5), change("c", 3, "three"), change("u", 3, n=6), change("u", 3, n=7),
        change("u", 2, "zwei"), change("u", 2, n=8),
    )  # fmt: skip
    assert job.rows() == by_content([a_row(1, "one", 5), a_row(2, "zwei", 8), a_row(3, "three", 7)])
    assert job.bad(1) == []


def test_columns_of_the_table_may_have_the_names_of_the_marks(tmp_path: Path) -> None:
    job = ToastJob(tmp_path, columns=f"{COLUMNS}, _UNCHANGED INT, _MESSAGE INT")
    reserved_values = {"_UNCHANGED": 1, "_MESSAGE": 2}
    for op, row in (("c", a_row(1, "one", 0)), ("u", a_row(1, TOASTED, 5))):
        job.run(
            json.dumps({"before": None, "after": {**row, **reserved_values}, "op": op}).encode()
        )
    assert job.rows() == by_content([{**a_row(1, "one", 5), **reserved_values}])


def test_the_changelog_has_whole_new_rows_and_no_old_ones(tmp_path: Path) -> None:
    """The source sends no before-image, so none is made up: `input` tells what the source told."""
    job = ToastJob(tmp_path, {"changelog_producer": "input", "bucket": 1})
    job.run(change("c", 1, "one"))
    job.run(change("u", 1, n=5), change("u", 1, "uno"), change("u", 1, n=6))
    assert read_changes(job.table)[1] == [
        ("+U", a_row(1, "one", 5)), ("+U", a_row(1, "uno", 0)), ("+U", a_row(1, "uno", 6)),
    ]  # fmt: skip


def test_a_row_that_the_table_never_had_goes_to_quarantine(tmp_path: Path) -> None:
    job = ToastJob(tmp_path)
    job.run(change("c", 1, "one"))
    value = change("u", 9, n=4)
    job.run(change("u", 1, n=3), value)
    assert job.rows() == by_content([a_row(1, "one", 3)])
    (record,) = job.bad(1)
    assert record["value"] == value.decode()
    assert record["key"] == '{"id": 9}'
    assert (record["topic"], record["partition"], record["offset"]) == ("t", 0, 2)
    assert record["reason"] == (
        "column 'body' is unchanged and its value was not sent, and its row is not in the table"
    )
    counts = job.committer.round_runner.totals
    assert (counts.message_count, counts.change_count, counts.bad_record_count) == (3, 2, 1)
    assert counts.kind_counts == (1, 0, 1, 0), "+I and +U, without the update that was refused"


def test_a_row_that_was_deleted_before_goes_to_quarantine(tmp_path: Path) -> None:
    job = ToastJob(tmp_path)
    job.run(change("c", 1, "one"), change("c", 2, "two"))
    job.run(change("d", 1), change("u", 1, n=3))
    job.run(change("u", 1, n=4), change("u", 2, n=5))
    assert job.rows() == by_content([a_row(2, "two", 5)])
    assert [record["reason"].rpartition(", and ")[2] for record in job.bad(1) + job.bad(2)] == [
        "its row was deleted", "its row is not in the table",
    ]  # fmt: skip


def test_an_epoch_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    job = ToastJob(tmp_path)
    job.run(change("c", 1, "one"))
    job.run(change("u", 1, n=3), change("u", 9, n=4))
    latest_snapshot = job.table.snapshots.latest()
    before = job.rows(), job.bad(1)
    job.committer = job.started()
    job.repeat(1)
    assert job.table.snapshots.latest() == latest_snapshot
    assert (job.rows(), job.bad(1)) == before


@pytest.mark.parametrize("by_vectors", [False, True])
def test_random_changes_beside_compactions_end_in_the_rows_of_the_source(
    tmp_path: Path, seed: int, by_vectors: bool
) -> None:
    """Compactions are published between any two epochs, in the very epoch that asks the table.

    With deletion vectors each epoch waits for its own: rows can be read when they are compacted.
    """
    options = {"num_sorted_run__compaction_trigger": 3, "deletion_vectors__enabled": by_vectors}
    make_executor = CompactHere if by_vectors else CompactLater
    job = ToastJob(tmp_path, options, make_executor=make_executor)
    random = np.random.default_rng(seed)
    source: dict[int, dict[str, Any]] = {}
    for epoch in range(12):
        values = []
        for number in range(int(random.integers(1, 25))):
            id_, n = int(random.integers(30)), epoch * 100 + number
            if id_ not in source:
                source[id_] = a_row(id_, f"body {n}", n)
                values.append(change("c", id_, f"body {n}", n))
            elif random.random() < 0.1:
                del source[id_]
                values.append(change("d", id_))
            elif random.random() < 0.7:
                source[id_]["n"] = n
                values.append(change("u", id_, n=n))
            else:
                source[id_] = a_row(id_, f"body {n}", n)
                values.append(change("u", id_, f"body {n}", n))
        job.run(*values)
        assert job.rows() == by_content(source.values())
        if random.random() < 0.5:
            for executor in job.executors:
                if isinstance(executor, CompactLater):
                    executor.run()
    kinds = {snapshot.commit_kind for snapshot in job.table.snapshots.backwards()}
    assert CommitKind.COMPACT in kinds


@pytest.mark.parametrize("commits", [1, 2])
def test_a_value_that_another_writer_changes_meanwhile_is_not_undone(
    tmp_path: Path, commits: int
) -> None:
    """The other writer commits during each round of the epoch in turn."""
    job = ToastJob(tmp_path)
    job.run(change("c", 1, "one"))
    other_writer = TableWriter(job.table, CompactInCaller, user="other")

    class Overtaken(EpochHere):
        writes = 0

        def route(self, epoch: int, messages: Parts, plan: EpochPlan) -> RoutedEpoch:
            routed_blocks = super().route(epoch, messages, plan)

            def write(newest: EpochPlan) -> EpochOutput:
                output = routed_blocks.write(newest)
                self.writes += 1
                if self.writes <= commits:
                    other_writer.write([("+U", a_row(1, f"theirs {self.writes}", 0))])
                return output

            return replace(routed_blocks, write=write)

    job.committer.round_runner.epoch_runner = Overtaken()
    job.run(change("u", 1, n=5))
    assert job.rows() == by_content([a_row(1, f"theirs {commits}", 5)])
