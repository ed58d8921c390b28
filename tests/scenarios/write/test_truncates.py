"""A TRUNCATE of the source empties the table, and later rows stay, whatever crashes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.stages.epoch_plan import TableMessages
from stream_app.errors import WrongSourceError
from stream_app.model.snapshot import CommitKind
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TOPICS, TRUNCATE, TwoTables, reports
from tests.support.suite.strides import Strides
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
HOURS = 4 * 3600
EITHER_POLICY = pytest.mark.parametrize("holds_tables", [False, True])


def two_tables(folder: Path) -> TwoTables:
    tables = TwoTables(folder)
    tables.send(
        [{"k": number % 7, "v": f"first {number}"} for number in range(20)],
        [{"day": f"day {number % 2}", "n": number} for number in range(9)],
    )
    return tables


def run(committer: EpochCommitter[Parts], tables: TwoTables, epoch: int, **bad_values: Any) -> None:
    """An epoch, read by two tasks; what stops the job is raised as it is."""
    runner = committer.round_runner.epoch_runner
    assert isinstance(runner, EpochHere)
    runner.topics = [
        part for number in range(epoch + 1) for part in tables.messages(number).to_batches()
    ]
    [messages] = tables.messages(epoch, **bad_values).combine_chunks().to_batches()
    half = messages.num_rows // 2
    try:
        committer.process_epoch([messages.slice(0, half), messages.slice(half)], epoch)
    except RuntimeError:
        assert committer.failure is not None
        raise committer.failure from None


def kinds(tables: TwoTables, table: int) -> list[CommitKind]:
    return [snapshot.commit_kind for snapshot in check_chain(tables.tables[table])]


def assert_right(tables: TwoTables) -> None:
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)


@EITHER_POLICY
def test_rows_before_a_truncate_go_and_rows_behind_it_stay(
    tmp_path: Path, holds_tables: bool
) -> None:
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere(), holds_tables=holds_tables)
    run(committer, tables, 0)
    tables.send(
        [*({"k": k, "v": "gone"} for k in range(30)), TRUNCATE, {"k": 3, "v": "new"}],
        [{"day": "day 1", "n": 50}, TRUNCATE, {"day": "day 2", "n": 51}],
    )
    run(committer, tables, 1)
    assert_right(tables)
    for table in (0, 1):
        assert CommitKind.OVERWRITE in kinds(tables, table)
        assert reports(committer, table)[-1].counts.change_count == 1
    assert [report.counts.message_count for report in reports(committer, 0)] == [20, 32]
    for epoch in range(2, 7):
        tables.send([{"k": k, "v": f"{epoch}"} for k in range(4)], [{"day": "day 2", "n": epoch}])
        run(committer, tables, epoch)
    assert_right(tables)
    committer.compact_due()
    assert_right(tables)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([TRUNCATE], id="alone"),
        pytest.param([{"k": 1, "v": "x"}, TRUNCATE], id="last"),
        pytest.param([TRUNCATE, {"k": 1, "v": "x"}], id="first"),
        pytest.param(
            [{"k": 1, "v": "x"}, TRUNCATE, {"k": 2, "v": "x"}, TRUNCATE, {"k": 3, "v": "x"}],
            id="twice",
        ),
    ],
)
@EITHER_POLICY
def test_a_truncate_may_stand_anywhere_in_an_epoch(
    tmp_path: Path, rows: list[dict[str, Any]], holds_tables: bool
) -> None:
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere(), holds_tables=holds_tables)
    run(committer, tables, 0)
    tables.send(rows, [])
    run(committer, tables, 1)
    assert_right(tables)
    tables.send([{"k": 9, "v": "y"}], [])
    run(tables.started(EpochHere(), holds_tables=holds_tables), tables, 2)
    assert_right(tables)


def test_a_table_that_is_emptied_in_its_first_epoch(tmp_path: Path) -> None:
    tables = TwoTables(tmp_path)
    tables.send([{"k": 1, "v": "x"}, TRUNCATE, {"k": 2, "v": "y"}], [TRUNCATE])
    run(tables.started(EpochHere()), tables, 0)
    assert_right(tables)
    assert CommitKind.OVERWRITE not in kinds(tables, 0)
    tables.send([{"k": 3, "v": "z"}], [])
    run(tables.started(EpochHere()), tables, 1)
    assert_right(tables)


@pytest.mark.parametrize("mode", ["before", "after"])
@EITHER_POLICY
def test_wherever_the_job_ends_the_next_one_finishes(
    tmp_path: Path, mode: Mode, holds_tables: bool, strides: Strides
) -> None:
    """A file operation of the epoch ends the job. A job that dies after an
    operation leaves the same files as one that dies before the next.
    """
    for operation in strides.operations(2):
        tables = two_tables(tmp_path / str(operation))
        run(tables.started(EpochHere(), holds_tables=holds_tables), tables, 0)
        tables.send(
            [{"k": 3, "v": "gone"}, TRUNCATE, {"k": 4, "v": "new"}],
            [{"day": "day 1", "n": 50}, TRUNCATE, {"day": "day 2", "n": 51}],
        )
        fault = Fault(operation, mode, stays_dead=True)
        files = FaultyFileIO(fault=fault)
        with contextlib.suppress(Exception):
            run(tables.started(EpochHere(), file_io=files, holds_tables=holds_tables), tables, 1)
        again = tables.started(EpochHere(), holds_tables=holds_tables)
        run(again, tables, 1)
        tables.tables[0].clock.sleep(HOURS)
        again.compact_due()
        assert_right(tables)
        assert kinds(tables, 0).count(CommitKind.OVERWRITE) == 1, "no epoch is emptied twice"
        if not fault.has_struck:
            break
    assert operation > 40


def test_a_held_table_catches_up_over_a_truncate(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    fault = Fault(0, "before", stays_dead=True)
    files = (FaultyFileIO(fault=fault), None)
    committer = tables.started(EpochHere(), holds_tables=True, file_io=files)
    run(committer, tables, 0)
    tables.send([{"k": 3, "v": "gone"}, TRUNCATE, {"k": 4, "v": "new"}], [])
    run(committer, tables, 1)
    assert "a" in tables.state().held_tables
    fault.number = -1  # the disk is well again
    tables.tables[0].clock.sleep(HOURS)
    committer.while_idle()
    assert tables.state().held_tables == {}
    assert_right(tables)


def test_bad_records_before_a_truncate_are_not_a_loss(tmp_path: Path) -> None:
    """The TRUNCATE would delete their rows, and a replay would restore them."""
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere())
    run(committer, tables, 0)
    tables.send([{"k": "no number", "v": "x"}, TRUNCATE, {"k": "none either", "v": "y"}], [])
    run(committer, tables, 1)
    [file] = (tmp_path / "bad-a").glob("*.jsonl")
    assert [json.loads(line)["offset"] for line in file.read_text().splitlines()] == [22]
    assert read_rows(tables.tables[0]) == []


@dataclass(frozen=True)
class Shards:
    """Implements `MessageSplitter`: rows of the first topic are of these source tables."""

    names: tuple[str, ...]

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        topic = messages.column("topic")[0].as_py()
        yield TableMessages(
            TOPICS.index(topic), messages, self.names if topic == "a" else ("us.other",)
        )


def test_a_truncate_of_a_shard_holds_its_table_back_alone(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere(), holds_tables=True)
    committer.round_runner.settings = committer.round_runner.settings.with_splitter(
        Shards(("eu.t", "us.t"))
    )
    run(committer, tables, 0)
    # A later process knows it, though the epoch has rows of one source table only.
    later = tables.started(EpochHere(), holds_tables=True)
    later.round_runner.settings = later.round_runner.settings.with_splitter(Shards(("us.t",)))
    tables.send([TRUNCATE, {"k": 50, "v": "held"}], [TRUNCATE, {"day": "one", "n": 50}])
    run(later, tables, 1)
    waiting = tables.state().held_tables
    assert list(waiting) == ["a"]
    assert "the table has rows of 2 source tables: eu.t, us.t" in waiting["a"].reason
    assert by_content(read_rows(tables.tables[0])) == by_content(
        {row["k"]: row for row in tables.sent[0]["a"]}.values()
    )


def test_a_truncate_in_a_topic_of_several_partitions_stops_the_job(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    committer = tables.started(EpochHere())
    run(committer, tables, 0)
    epoch = tables.send([TRUNCATE], [])
    folder = tables.checkpoint()
    ends = {"a": {"0": 21, "1": 7}, "b": {"0": 9}}
    folder.file_io.overwrite(
        folder.path(f"offsets/{epoch}"), f"v1\n{{}}\n{json.dumps(ends)}".encode()
    )
    with pytest.raises(WrongSourceError, match="its topic has 2 partitions") as error:
        run(committer, tables, epoch)
    assert error.value.where == "topic a, partition 0, offset 20"
    assert len(read_rows(tables.tables[0])) == 7
