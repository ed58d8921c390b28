"""A job of two tables of different kinds, fed by one micro-batch: topic a → orders, b → events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.cdc.pipeline_steps.insert_only_step import InsertOnlyStep
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobState, JobStateFile, state_or_empty
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import (
    EpochTables,
    IndependentTables,
    LoadingTables,
    StoppingTables,
)
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.epoch_plan import EpochSettings, TableMessages
from stream_app.epochs.stages.epoch_runner import EpochRunner
from stream_app.fileio.file_io import FileIO
from stream_app.format.arrow_schema import arrow_schema
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import IdleReport, TableJob
from tests.support.engines.begun_epoch import Ends, begin_epoch
from tests.support.tables.small_table import CompactHere, small_table

Row = dict[str, Any]
TOPICS = ("a", "b")
TRUNCATE: Row = {}
"""In the place of a row: the source empties its table."""


@dataclass(frozen=True)
class ByTopic:
    """A `MessageSplitter` that gives each topic to one table."""

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        topic = messages.column("topic")[0].as_py()
        yield TableMessages(TOPICS.index(topic), messages, (f"shop.{topic}",))


class EndedError(Exception):
    """The end of the job in the middle of an epoch."""


@dataclass
class Reports:
    """A `TableListener` that keeps its reports.

    Attributes:
        ends_at: the epoch behind whose commit to this table the job ends.
    """

    ends_at: int | None = None
    epochs: list[EpochReport] = field(default_factory=list)

    def on_open_table(self, table: FileStoreTable, topics: Collection[str]) -> None:
        """Do nothing: no test waits for it."""

    def on_epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)
        if report.epoch == self.ends_at and not report.is_skipped:
            raise EndedError

    def on_idle_commit(self, report: IdleReport) -> None:
        """Do nothing: no test waits for one."""


@dataclass
class TwoTables:
    """Two tables, and the rows that were sent to each.

    Attributes:
        query: the id of the streaming query.
        orders: options of the first table.
        accepts_repeats: see `TableJob`.
        sent: epoch by epoch, the rows of each topic.
    """

    folder: Path
    query: str = "the job"
    orders: Mapping[str, Any] = field(default_factory=lambda: {"bucket": 2})
    accepts_repeats: bool = False
    tables: list[FileStoreTable] = field(init=False)
    sent: list[Mapping[str, Sequence[Row]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        orders = small_table(
            self.folder / "orders", "k BIGINT, v STRING", ("k",),
            **{"changelog_producer": "input", **self.orders},
        )  # fmt: skip
        events = small_table(self.folder / "events", "day STRING, n BIGINT", (), ("day",))
        self.tables = [orders.table, events.table]

    def started(
        self,
        runner: EpochRunner[Any],
        *,
        file_io: FileIO | tuple[FileIO | None, FileIO | None] | None = None,
        ends_at: tuple[int | None, int | None] = (None, None),
        bad_records_max: int | None = None,
        tasks: int = 3,
        holds_tables: bool = False,
        checkpoint: FileIO | None = None,
        loads: int = 0,
    ) -> EpochCommitter[Any]:
        """Return the job in a new process with the same checkpoint.

        Args:
            file_io: of both tables, or of each.
            holds_tables: whether a table that fails is held back; the clock is the tables'.
            checkpoint: reads and writes what the job remembers.
            loads: the epochs of a first load.
        """
        feeds = []
        file_ios = file_io if isinstance(file_io, tuple) else (file_io, file_io)
        for number, (table, its_files) in enumerate(zip(self.tables, file_ios, strict=True)):
            own_table = table if its_files is None else replace(table, file_io=its_files)
            quarantine = JobFolder(
                str(self.folder / f"bad-{TOPICS[number]}"), self.tables[0].file_io
            )
            feed = TableFeed(
                name=TOPICS[number],
                table_job=TableJob(own_table, CompactHere, accepts_repeats=self.accepts_repeats),
                make_pipeline=_pipeline_of,
                quarantine_writer=QuarantineWriter(quarantine, bad_records_max),
                listener=Reports(ends_at[number]),
            )
            feeds.append(feed)
        clock = self.tables[0].clock
        policy: Callable[..., EpochTables] = IndependentTables if holds_tables else StoppingTables
        if loads:
            policy = partial(LoadingTables, load_epoch_count=loads)
        joined_policy = policy(
            feeds,
            epoch_log=EpochLog(self.checkpoint(), can_reread=True),
            state_file=JobStateFile(self.checkpoint(checkpoint)),
            now_ms=clock.now_ms,
        )
        settings = EpochSettings(
            task_count=tasks, splitter=ByTopic(), holds_tables=joined_policy.holds_tables
        )
        return EpochCommitter(
            RoundRunner(tables=joined_policy, settings=settings, epoch_runner=runner, clock=clock)
        )

    def state(self) -> JobState:
        """Return what the job remembers."""
        return state_or_empty(self.checkpoint())

    def checkpoint(self, files: FileIO | None = None) -> JobFolder:
        """Return the job's checkpoint, with Spark's part of it."""
        return JobFolder(str(self.folder / "checkpoint"), files or self.tables[0].file_io)

    def done(self, epoch: int) -> None:
        """Record the epoch as done, so that Spark continues behind it."""
        folder = self.checkpoint()
        folder.file_io.overwrite(folder.path(f"commits/{epoch}"), b"v1")

    def send(self, orders: Sequence[Row], events: Sequence[Row]) -> int:
        """Send rows of a new epoch; return its number."""
        self.sent.append({"a": orders, "b": events})
        epoch = len(self.sent) - 1
        begin_epoch(self.checkpoint(), epoch, self.ends(0), self.ends(epoch + 1), self.query)
        return epoch

    def ends(self, epochs: int) -> Ends:
        """Return the offsets behind that many epochs."""
        return {
            topic: {"0": sum(len(messages[topic]) for messages in self.sent[:epochs])}
            for topic in TOPICS
        }

    def messages(self, epoch: int, bad_values: Mapping[str, bytes] | None = None) -> pa.Table:
        """Return an epoch's messages in columns of `MESSAGE_SCHEMA`, topic by topic.

        Args:
            bad_values: a value for a topic that stands behind its others.
        """
        before = {
            topic: sum(len(messages[topic]) for messages in self.sent[:epoch]) for topic in TOPICS
        }
        rows = []
        for topic in TOPICS:
            values = [_value(row) for row in self.sent[epoch][topic]]
            values += [bad_values[topic]] if bad_values and topic in bad_values else []
            rows += [
                {"topic": topic, "partition": 0, "offset": offset, "key": b"key", "value": value}
                for offset, value in enumerate(values, before[topic])
            ]
        return pa.Table.from_pylist(rows, schema=MESSAGE_SCHEMA)

    def expected_rows(self) -> list[list[Row]]:
        """Return the rows of both tables after all epochs."""
        rows_by_topic = []
        for topic in TOPICS:
            rows = [row for messages in self.sent for row in messages[topic]]
            rows_by_topic.append(
                rows[max((n for n, row in enumerate(rows) if row == TRUNCATE), default=-1) + 1 :]
            )
        orders = {row["k"]: row for row in rows_by_topic[0]}
        return [[*orders.values()], rows_by_topic[1]]

    def data_files(self) -> list[Path]:
        """Return the data files on the disk, whether or not a snapshot names them."""
        return [path for path in self.folder.rglob("*.parquet") if "bucket-" in path.parent.name]


def reports(committer: EpochCommitter[Any], table: int) -> list[EpochReport]:
    """Return the reports of epochs that a table's listener got."""
    listener = committer.tables.feeds[table].listener
    assert isinstance(listener, Reports)
    return listener.epochs


def _pipeline_of(table: FileStoreTable) -> Pipeline:
    schema = table.schema
    setup = FormatSetup(
        columns=schema.fields,
        arrow_schema=arrow_schema(schema.fields),
        primary_keys=schema.primary_keys,
        options={"truncate": "apply"},
        keeps_update_before=schema.core_options.writes_changelog,
    )
    decode = format_pipeline("debezium-json", setup)
    if schema.primary_keys:
        return decode
    last = InsertOnlyStep(quarantines_non_inserts=True, ignores_deletes=False)
    return decode.with_steps({StepPlace.INSERTS_ONLY: last})


def _value(row: Row) -> bytes:
    after = {"after": None, "op": "t"} if row == TRUNCATE else {"after": row, "op": "c"}
    return json.dumps({"before": None, **after}).encode()
