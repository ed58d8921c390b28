"""A job cuts epochs between transactions, records the borders, and repeats them after a crash."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.opening.job_folder_access import open_folder
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.epochs.stream.whole_borders import WholeEpochCutter
from stream_app.errors import CheckpointError, StoppedError
from stream_app.kafka.client_options import client_options
from stream_app.kafka.offset_client import OffsetClient, OffsetEnd
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.kafka.transactions.transaction_reader import TransactionReader
from stream_app.model.job_epoch import Offsets
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.tables.small_table import StandingClock

pytestmark = pytest.mark.kafka


@dataclass
class Bank:
    """Topics of two tables and of their transactions."""

    broker: EmbeddedBroker
    name: str
    checkpoint: JobFolder
    clock: StandingClock = field(default_factory=StandingClock)
    number: int = 0

    @property
    def topics(self) -> list[str]:
        return [f"{self.name}.{table}" for table in ("a", "b", "transaction")]

    def send(self, table: str, *values: object) -> None:
        messages = [(None, json.dumps(value).encode()) for value in values]
        produce(self.broker, f"{self.name}.{table}", messages)

    def begin(self) -> None:
        self.number += 1
        self.send("transaction", {"status": "BEGIN", "id": f"{self.number}:0"})

    def change(self, table: str, *orders: int) -> None:
        before = self.commit(self.number - 1)
        source = {"connector": "postgresql", "name": self.name, "table": table}
        self.send(
            table,
            *(
                {
                    "op": "c",
                    "source": {**source, "sequence": f'["{before}","{before + order}"]'},
                    "transaction": {"id": f"{self.number}:{order}", "total_order": order},
                }
                for order in orders
            ),
        )

    def commit(self, number: int) -> int:
        """The position of a transaction's commit."""
        return number * 1000

    def end(self, **counts: int) -> None:
        collections = [
            {"data_collection": table, "event_count": count} for table, count in counts.items()
        ]
        name = f"{self.number}:{self.commit(self.number)}"
        marker = {"status": "END", "id": name, "ts_ms": self.number}
        self.send("transaction", {**marker, "data_collections": collections})

    def newest(self) -> Offsets:
        source = OffsetClient(dict(self.client), topics=self.topics)
        try:
            return source.offsets_at(OffsetEnd.NEWEST)
        finally:
            source.close()

    @property
    def client(self) -> tuple[tuple[str, str], ...]:
        return tuple(client_options(self.broker.bootstrap, {}, ()).options.items())

    def cutter(self, messages_max: int = 100, patience_s: float | None = 60.0) -> WholeEpochCutter:
        return WholeEpochCutter(
            reader=TransactionReader(
                reader_settings=ReaderSettings(client_settings=self.client),
                transactions_of=debezium_transactions,
                clock=self.clock,
            ),
            log=BorderLog(self.checkpoint),
            read_newest_offsets=self.newest,
            clock=self.clock,
            messages_max=messages_max,
            patience_s=patience_s,
        )

    def ends(self, a: int, b: int, transaction: int) -> Offsets:
        numbers = (a, b, transaction)
        return {topic: {"0": offset} for topic, offset in zip(self.topics, numbers, strict=True)}


@pytest.fixture
def bank(kafka_broker: EmbeddedBroker, tmp_path: Path) -> Bank:
    name = new_topic(kafka_broker)
    for table in ("a", "b", "transaction"):
        new_topic(kafka_broker, name=f"{name}.{table}")
    folder = open_folder(str(tmp_path), {}, lambda: pytest.fail("it takes no JVM"))
    return Bank(kafka_broker, name, folder)


def never() -> bool:
    return False


def test_a_half_transaction_waits_for_the_next_epoch(bank: Bank) -> None:
    bank.begin()
    bank.change("a", 1)
    bank.change("b", 2)
    bank.end(a=1, b=1)
    bank.begin()
    bank.change("a", 1)
    cutter = bank.cutter()
    first = cutter.choose_end(0, bank.ends(0, 0, 0), bank.newest(), never)
    assert first == bank.ends(1, 1, 2)
    border = BorderLog(bank.checkpoint).border(0)
    assert border is not None
    assert border.is_whole
    assert border.progress.positions[bank.name].transaction == "1:1000"
    assert cutter.choose_end(1, first, bank.newest(), never) == first, "nothing is whole yet"
    bank.change("b", 2)
    bank.end(a=1, b=1)
    second = cutter.choose_end(1, first, bank.newest(), never)
    assert second == bank.ends(2, 2, 4)
    cutter.close()
    # The same border comes of a run that reads the messages again.
    again = bank.cutter()
    assert again.choose_end(1, first, bank.newest(), never) == second
    border = BorderLog(bank.checkpoint).border(1)
    assert border is not None
    assert border.is_whole
    assert again.choose_end(2, second, bank.newest(), never) == second
    again.close()


def test_an_epoch_grows_until_a_large_transaction_fits(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    bank.begin()
    bank.change("a", *range(1, 51))
    bank.end(a=50)
    bank.begin()
    bank.change("b", 1)
    bank.end(b=1)
    cutter = bank.cutter(messages_max=10)
    end = cutter.choose_end(0, bank.ends(0, 0, 0), bank.newest(), never)
    cutter.close()
    assert end[f"{bank.name}.a"] == {"0": 50}
    assert "and not 10: a transaction of the source is that large" in caplog.text


def test_epochs_of_one_message_grow_to_whole_transactions(bank: Bank) -> None:
    bank.begin()
    bank.change("a", 1)
    bank.end(a=1)
    cutter = bank.cutter(messages_max=1)
    assert cutter.choose_end(0, bank.ends(0, 0, 0), bank.newest(), never) == bank.ends(1, 0, 2)
    cutter.close()


@pytest.mark.variant
def test_the_cut_includes_messages_that_an_earlier_plan_read(bank: Bank) -> None:
    """An open transaction was read to its end, and the next plan's target lies within it."""
    bank.begin()
    bank.change("a", *range(1, 31))
    cutter, start = bank.cutter(messages_max=8), bank.ends(0, 0, 0)
    assert cutter.choose_end(0, start, bank.newest(), never) == start
    bank.change("b", 31)
    bank.end(a=30, b=1)
    for _ in range(40):
        bank.begin()
        bank.change("b", 1)
        bank.end(b=1)
    end = cutter.choose_end(0, start, bank.newest(), never)
    cutter.close()
    assert end[f"{bank.name}.a"] == {"0": 30}, "whole"


def test_a_transaction_whose_rest_does_not_come_keeps_its_table_behind(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    start = bank.ends(0, 0, 0)
    bank.begin()
    bank.change("a", 1)
    bank.end(a=1, b=1)
    cutter = bank.cutter()
    for _ in range(2):  # as long as nothing comes behind it, the connector may have stopped
        assert cutter.choose_end(0, start, bank.newest(), never) == start
        bank.clock.millis += 1_000_000
    bank.begin()
    bank.change("a", 1)
    bank.end(a=1)
    assert cutter.choose_end(0, start, bank.newest(), never) == start
    bank.clock.millis += 61_000
    assert cutter.choose_end(0, start, bank.newest(), never) == bank.ends(2, 0, 4)
    assert f"transaction {bank.name} 1 lacks 1 of 1 changes of b" in caplog.text
    bank.begin()
    bank.change("a", 1)
    bank.end(a=1)
    assert cutter.choose_end(1, bank.ends(2, 0, 4), bank.newest(), never) == bank.ends(3, 0, 6)
    again = bank.cutter()  # the next run knows it from the border
    bank.begin()
    bank.change("b", 1)
    bank.end(b=1)
    assert again.choose_end(2, bank.ends(3, 0, 6), bank.newest(), never) == bank.ends(3, 1, 8)
    for opened_cutter in (cutter, again):
        opened_cutter.close()
    log = [BorderLog(bank.checkpoint).border(epoch) for epoch in range(3)]
    doubts = [None if border is None else border.doubt for border in log]
    assert doubts[0] is not None
    assert "do transforms of the connector drop changes" in doubts[0].fix
    assert doubts[1] is not None
    assert f"{bank.name}.b/0 is behind" in doubts[1].reason
    assert doubts[2] is None, "table b has a later change"
    assert log[2] is not None
    assert log[2].is_whole


def test_a_job_without_the_topic_of_transactions_goes_on_and_says_so(bank: Bank) -> None:
    start = {
        topic: offset for topic, offset in bank.ends(0, 0, 0).items() if topic.endswith(("a", "b"))
    }
    bank.begin()
    bank.change("a", 1)
    bank.end(a=1)
    newest = {topic: offset for topic, offset in bank.newest().items() if topic in start}
    cutter = bank.cutter()
    assert cutter.choose_end(0, start, newest, never) == start
    bank.clock.millis += 61_000
    assert cutter.choose_end(0, start, newest, never) == newest
    border = BorderLog(bank.checkpoint).border(0)
    assert border is not None
    assert border.doubt is not None
    assert "does the job read the topic of transactions" in border.doubt.fix
    cutter.close()


def test_a_draining_job_leaves_what_is_not_whole(bank: Bank) -> None:
    start = bank.ends(0, 0, 0)
    bank.begin()
    bank.change("a", 1)
    cutter = bank.cutter(patience_s=None)
    for _ in range(2):
        assert cutter.choose_end(0, start, bank.newest(), never) == start
        bank.clock.millis += 1_000_000
    cutter.close()


def test_a_stop_ends_the_reading(bank: Bank) -> None:
    bank.begin()
    bank.change("a", *range(1, 9))
    cutter = bank.cutter()
    with pytest.raises(StoppedError):
        cutter.choose_end(0, bank.ends(0, 0, 0), bank.newest(), lambda: True)
    cutter.close()


def test_a_damaged_border_says_which_file(bank: Bank) -> None:
    log = BorderLog(bank.checkpoint)
    assert log.border(7) is None
    for text in ("", "{", "[]", '{"newest": {}}', '{"newest": 5, "advances": 1, "doubt": null}'):
        bank.checkpoint.file_io.overwrite(bank.checkpoint.path("borders/7"), text.encode())
        with pytest.raises(CheckpointError, match="borders/7 of the checkpoint is damaged"):
            log.border(7)
