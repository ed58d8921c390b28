"""A replay stores quarantined records once, in source order, and never over a newer change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.app.ops.replay.record_replay import RecordReplay, ReplayOutcome
from stream_app.cdc.change_batch import bad_records_with_reasons
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import StepPlace
from stream_app.cdc.pipeline_steps.insert_only_step import InsertOnlyStep
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import SystemClock
from stream_app.errors import CommitConflictError, UnsupportedTableError, UsageError
from stream_app.fileio.store_registry import file_io_of
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.quarantine.quarantine_folder import (
    RecordFilter,
    RecordMark,
    RecordOutcome,
    open_quarantine,
)
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import create_or_open
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.messages.debezium_messages import a_format, event, messages

COLUMNS = "id BIGINT NOT NULL, v STRING"
EVERYTHING = RecordFilter()
Change = tuple[int, str | None]
"""A key and its value; None: a delete."""


def message(change: Change) -> str:
    key, value = change
    image = {"id": key, "v": value}
    op = {"before": image, "op": "d"} if value is None else {"after": image, "op": "c"}
    return json.dumps(op)


class Bench:
    """A topic of one partition, its table, and what the table's job has quarantined."""

    def __init__(self, folder: Path, changes: list[Change], keys: tuple[str, ...] = ("id",),
                 options: Mapping[str, str] | None = None) -> None:  # fmt: skip
        self.changes = changes
        self.first_offset = 0
        schema = new_table_schema(
            columns=parse_columns(COLUMNS),
            primary_keys=keys,
            partition_keys=(),
            options={"bucket": "1" if keys else "-1", **(options or {})},
            time_ms=0,
        )
        self.table = create_or_open(str(folder / "db.db" / "t"), schema, SystemClock())
        self.quarantine = open_quarantine(str(folder / "quarantine"), {})
        self.writer = QuarantineWriter(JobFolder(*file_io_of(str(folder / "quarantine"), {})), None)
        message_format = a_format(COLUMNS, keys)
        self.message_format: MessageFormat = message_format
        if not keys:
            last = InsertOnlyStep(quarantines_non_inserts=True, ignores_deletes=False)
            self.message_format = message_format.with_steps({StepPlace.INSERTS_ONLY: last})

    def batch(self) -> pa.RecordBatch:
        return messages(*map(message, self.changes))

    def take(self, bad_indices: set[int], user: str = "job", epoch: int = 0) -> None:
        """The job's epoch: it takes the topic, and sets the records at some offsets aside."""
        batch = self.batch()
        reasons = {
            offset: "column 'v' (INT): \"x\" is not a value of that type" for offset in bad_indices
        }
        self.writer.write(epoch, pa.Table.from_batches([bad_records_with_reasons(batch, reasons)]))
        good = [offset for offset in range(len(self.changes)) if offset not in bad_indices]
        rows = self.message_format.decode(batch.take(pa.array(good, pa.int64()))).changes.rows
        append = SingleAppend.begin(self.table, user)
        changes = append.write(rows) if rows.num_rows else []
        append.commit(changes, {SOURCE_END_PROPERTY: json.dumps({"t": {"0": len(self.changes)}})})

    def read(self, where: KafkaPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
        assert where == ("t", 0)
        for offset in range(start, end, 2):
            yield self.batch().slice(offset, min(2, end - offset))

    def replay(
        self, record_filter: RecordFilter = EVERYTHING, *, dry_run: bool = False
    ) -> ReplayOutcome:
        return self.a_replay().run(record_filter, dry_run=dry_run)

    def a_replay(self) -> RecordReplay:
        return RecordReplay(
            quarantine=self.quarantine,
            table=self.table,
            job_commit_user="job",
            message_format=self.message_format,
            unfiltered_format=self.message_format,
            read_range=self.read,
        )

    def rows(self) -> list[tuple[int, str]]:
        rows = PaimonTable(self.table).read().read_all().to_pylist()
        return sorted((row["id"], row["v"]) for row in rows)

    def snapshots(self) -> int:
        return self.table.snapshots.latest_id() or 0


def state(changes: list[Change]) -> list[tuple[int, str]]:
    return sorted((key, value) for key, value in dict(changes).items() if value is not None)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 3), st.none() | st.sampled_from("ab")), min_size=1),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_any_records_in_any_order_give_the_newest_change_of_each_row(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Change], data: st.DataObject
) -> None:
    bench = Bench(tmp_path_factory.mktemp("replay"), changes)
    bad_indices = data.draw(st.sets(st.integers(0, len(changes) - 1)))
    bench.take(bad_indices)
    applied_offsets = [offset for offset in range(len(changes)) if offset not in bad_indices]
    waiting = set(bad_indices)
    while waiting:
        first = data.draw(st.sampled_from(sorted(waiting)))
        last = data.draw(st.integers(first, len(changes)))
        bench.replay(RecordFilter(offsets=(first, last)))
        now = {offset for offset in waiting if first <= offset <= last}
        waiting -= now
        applied_offsets = sorted([*applied_offsets, *now])
        assert bench.rows() == state([changes[offset] for offset in applied_offsets])
    snapshots = bench.snapshots()
    assert not bench.replay().replayed_records
    assert bench.snapshots() == snapshots


def test_a_replay_reports_the_fate_of_each_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "old"), (2, "two"), (1, "new"), (3, "three")])
    bench.take({0, 1, 3})
    dry = bench.replay(dry_run=True)
    assert (len(dry.replayed_records), dry.change_count, dry.snapshot) == (2, 2, None)
    assert bench.rows() == [(1, "new")]

    outcome = bench.replay()
    assert [record.offset for record in outcome.replayed_records] == [1, 3]
    assert [record.offset for record in outcome.overtaken_records] == [0]
    assert outcome.snapshot is not None
    assert outcome.snapshot.snapshot_id == bench.snapshots() == 2
    assert bench.rows() == [(1, "new"), (2, "two"), (3, "three")]


def test_a_deleted_row_does_not_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a"), (1, None), (2, "b")])
    bench.take({0})
    assert [record.offset for record in bench.replay().overtaken_records] == [0]
    assert bench.rows() == [(2, "b")]


@pytest.mark.parametrize("keys", [("id",), ()])
def test_a_truncate_s_rows_do_not_come_back(tmp_path: Path, keys: tuple[str, ...]) -> None:
    bench = Bench(tmp_path, [(1, "a"), (2, "b"), (3, "c"), (4, "d")], keys=keys)
    bench.take({0, 3})

    def read(where: KafkaPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
        for batch in bench.read(where, start, end):
            offsets = batch.column("offset").to_pylist()
            values = [
                event("t") if offset == 2 else message(bench.changes[offset]) for offset in offsets
            ]
            yield batch.set_column(
                batch.schema.get_field_index("value"), "value", messages(*values).column("value")
            )

    message_format = a_format(COLUMNS, keys, options={"truncate": "apply"})
    outcome = replace(
        bench.a_replay(),
        read_range=read,
        unfiltered_format=message_format,
        empties_on_truncate=True,
    ).run(EVERYTHING, dry_run=False)
    assert [record.offset for record in outcome.overtaken_records] == [0]
    assert [record.offset for record in outcome.replayed_records] == [3]


def test_a_crash_before_the_commit_leaves_the_records_waiting(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")])
    bench.take({0})
    (record,) = bench.quarantine.unresolved_records(())
    record_mark = RecordMark(
        name="1",
        user="replay-1",
        records=(record.identity,),
        outcomes=(RecordOutcome.REPLAYED,),
        snapshot=None,
    )
    bench.quarantine.write_mark(record_mark)
    assert len(bench.replay().replayed_records) == 1
    assert bench.rows() == [(1, "a")]
    assert not bench.replay().replayed_records


def test_a_crash_behind_the_commit_replays_nothing_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")], keys=())
    bench.take({0})
    outcome = bench.replay()
    (mark,) = bench.quarantine.marks()
    assert outcome.snapshot is not None
    assert mark.snapshot == outcome.snapshot.snapshot_id
    bench.quarantine.write_mark(replace(mark, snapshot=None))  # as the crash leaves it

    assert not bench.replay().replayed_records
    assert bench.rows() == [(1, "a")]
    # Now the mark tells it, whatever the table forgets.
    assert bench.quarantine.unresolved_records(committed_users=()) == []


def test_rows_of_others_that_come_meanwhile_begin_the_replay_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")])
    bench.take({0})
    read, calls = bench.read, []

    def read_while_the_job_commits(
        where: KafkaPartition, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        calls.append(end)
        if len(calls) == 1:
            bench.changes.append((1, "newer"))
            bench.take({0})
        return read(where, start, end)

    outcome = replace(bench.a_replay(), read_range=read_while_the_job_commits).run(
        EVERYTHING, dry_run=False
    )
    assert calls == [1, 2]
    assert len(outcome.overtaken_records) == 1
    assert bench.rows() == [(1, "newer")]


def test_a_job_that_commits_without_a_pause_is_given_way_to(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")])
    bench.take({0})

    def read(where: KafkaPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
        bench.take({0})
        return bench.read(where, start, end)

    with pytest.raises(CommitConflictError, match="others have written since snapshot"):
        replace(bench.a_replay(), read_range=read).run(EVERYTHING, dry_run=False)
    assert bench.rows() == []


def test_an_epoch_does_not_stand_on_a_replay_that_came_since_it_began(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")])
    bench.take({0})
    job = StreamTableCommit(bench.table, "job", CompactInCaller(bench.table))
    job.follow_and_wait()
    bench.replay()
    with pytest.raises(CommitConflictError, match="has replayed records of the quarantine"):
        job.commit_epoch(1, [])
    job.follow_and_wait()
    job.commit_epoch(1, [])


def test_records_of_an_epoch_that_is_not_in_the_table_are_the_jobs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")])
    bench.take({0})
    bench.changes.append((2, "b"))
    reasons = {1: "is not JSON"}
    bench.writer.write(1, pa.Table.from_batches([bad_records_with_reasons(bench.batch(), reasons)]))
    outcome = bench.replay()
    assert [record.offset for record in outcome.early_records] == [1]
    assert bench.rows() == [(1, "a")]


def test_records_of_rewritten_epochs_are_left_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a"), (2, "b")])
    bench.take({0})
    bench.take({1})  # the same epoch with other settings: the table has the first record
    outcome = bench.replay()
    assert [record.offset for record in outcome.old_records] == [0]
    assert [record.offset for record in outcome.replayed_records] == [1]


def test_a_record_that_is_still_bad_goes_on_waiting(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a"), (2, "b")])
    bench.take({0, 1})
    bench.message_format = a_format("id BIGINT NOT NULL, v STRING NOT NULL")
    file = tmp_path / "quarantine" / "epoch-0.jsonl"
    file.write_text(file.read_text().replace('\\"v\\": \\"b\\"', '\\"v\\": null'))
    outcome = bench.replay()
    assert [(line.offset, reason) for line, reason in outcome.bad_records] == [
        (1, "NOT NULL column 'v' is null")
    ]
    assert [record.offset for record in bench.quarantine.unresolved_records(())] == [1]


def test_a_message_behind_that_cannot_be_read_stops_the_replay(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a"), (2, "b")])
    bench.take({0})
    whole = bench.batch()

    def read(*_: object) -> Iterator[pa.RecordBatch]:
        values = pa.array([b"no json"] * 2, pa.binary())
        yield whole.set_column(whole.schema.get_field_index("value"), "value", values).slice(1)

    with pytest.raises(UsageError, match="a message after the record cannot be decoded"):
        replace(bench.a_replay(), read_range=read).run(EVERYTHING, dry_run=False)


def test_tables_whose_rows_the_source_alone_does_not_order_are_refused(tmp_path: Path) -> None:
    options = {"sequence.field": "v"}
    with pytest.raises(UnsupportedTableError, match=r"with sequence\.field = v"):
        Bench(tmp_path, [(1, "a")], options=options).replay()


def test_two_jobs_of_a_table_without_a_key_are_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [(1, "a")], keys=())
    bench.take({0})
    bench.take(set(), user="another")
    with pytest.raises(UnsupportedTableError, match="2 jobs have written the table"):
        bench.replay()
