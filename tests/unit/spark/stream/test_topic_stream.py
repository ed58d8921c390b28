"""Epochs of topics read the planned messages, and a checkpoint continues an interrupted run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stream_app.app.opening.job_folder_access import open_folder
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import SystemClock
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import CheckpointError, StreamAppError, WrongSourceError
from stream_app.kafka.offset_client import OffsetEnd
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.model.job_epoch import Offsets
from stream_app.spark.stream.topic_stream import EpochRules, TopicStream

WAIT_S = 60.0


@dataclass
class Topics:
    """A cluster of one topic; the test appends to it. Implements `SourceOffsetReader`."""

    newest: dict[str, int]
    oldest: dict[str, int] = field(default_factory=dict)
    is_closed: bool = False
    is_asked: threading.Event = field(default_factory=threading.Event)
    is_away: threading.Event = field(default_factory=threading.Event)
    given_up: threading.Event = field(default_factory=threading.Event)

    def offsets_at(self, end: OffsetEnd) -> Offsets:
        self.is_asked.set()
        if self.is_away.is_set() and self.given_up.wait(WAIT_S):
            raise OSError("no broker answers")
        ends = self.newest if end == OffsetEnd.NEWEST else self.oldest
        return {"t": {partition: ends.get(partition, 0) for partition in self.newest}}

    def give_up(self) -> None:
        self.given_up.set()

    def close(self) -> None:
        self.is_closed = True


class NoJobs:
    """Implements `SparkJobs`: the sink here runs none."""

    def join(self) -> None:
        pass

    def cancel(self) -> None:
        pass


@dataclass
class Sink:
    """Gets epochs.

    Attributes:
        dies_in: the epoch in which the run ends, before anything is noted.
        on_epoch: called with each epoch.
    """

    dies_in: int | None = None
    on_epoch: Callable[[int], None] = field(default=lambda _: None)
    epochs: list[tuple[int, list[tuple[int, int, int]]]] = field(default_factory=list)

    def __call__(self, ranges: Sequence[OffsetRange], epoch: int) -> int:
        if epoch == self.dies_in:
            raise OSError("the power is off")
        self.epochs.append(
            (epoch, [(offsets.partition, offsets.start, offsets.end) for offsets in ranges])
        )
        self.on_epoch(epoch)
        return sum(offsets.size for offsets in ranges)


@pytest.fixture
def checkpoint(tmp_path: Path) -> JobFolder:
    return open_folder(str(tmp_path), {}, lambda: pytest.fail("it takes no JVM"))


def stream_of(checkpoint: JobFolder, topics: Topics, sink: Sink, rules: EpochRules) -> TopicStream:
    return TopicStream(
        rules=rules,
        offset_reader=topics,
        epoch_log=EpochLog(checkpoint, can_reread=True),
        writer=EpochLogWriter(checkpoint, epochs_kept=3),
        process_epoch=sink,
        read_failure=lambda: None,
        jobs=NoJobs(),
        clock=SystemClock(),
        patience_s=0.1,
    )


def drain(
    checkpoint: JobFolder, topics: Topics, sink: Sink, rules: EpochRules | None = None
) -> Sequence[SourceProgress]:
    """Run until the topic is read to its end."""
    stream = stream_of(checkpoint, topics, sink, rules or EpochRules())
    stream.start()
    try:
        assert stream.wait_for_end(WAIT_S)
    finally:
        stream.stop()
    assert topics.is_closed
    return stream.take_progress()


def names(checkpoint: JobFolder, part: str) -> list[str]:
    return sorted(checkpoint.file_io.list_names(checkpoint.path(part)), key=int)


def test_epochs_up_to_the_end_that_there_was_at_the_start(checkpoint: JobFolder) -> None:
    topics = Topics({"0": 5, "1": 2}, {"0": 1})
    sink = Sink(on_epoch=lambda _: topics.newest.update({"0": 99}))
    reports = drain(checkpoint, topics, sink, EpochRules(messages_max=4))
    assert sink.epochs == [(0, [(0, 1, 3), (1, 0, 1)]), (1, [(0, 3, 5), (1, 1, 2)])]
    assert [(report.epoch, report.message_count, report.lag) for report in reports] == [
        (0, 3, 3),
        (1, 3, 0),
    ]
    assert reports[-1].end_offsets == {"t": {"0": 5, "1": 2}}
    again = Sink()
    drain(checkpoint, topics, again)
    assert again.epochs == [(2, [(0, 5, 99)])]
    [idle] = drain(checkpoint, topics, Sink())
    assert (idle.epoch, idle.message_count, idle.lag) == (2, 0, 0)


def test_an_epoch_that_was_begun_is_finished_first_and_unchanged(checkpoint: JobFolder) -> None:
    topics = Topics({"0": 9})
    with pytest.raises(OSError, match="the power is off"):
        drain(checkpoint, topics, Sink(dies_in=1), EpochRules(messages_max=4))
    topics.newest["0"] = 20
    sink = Sink()
    drain(checkpoint, topics, sink, EpochRules(messages_max=100))
    assert sink.epochs == [(1, [(0, 4, 8)]), (2, [(0, 8, 20)])]


def test_a_first_epoch_that_was_not_done_begins_where_it_did(checkpoint: JobFolder) -> None:
    """The job may start at the newest message, which is another one by then."""
    topics, rules = Topics({"0": 3}), EpochRules(starting_offsets="latest")
    with pytest.raises(OSError, match="the power is off"):
        drain(checkpoint, topics, Sink(dies_in=0), rules)
    topics.newest["0"] = 7
    sink = Sink()
    drain(checkpoint, topics, sink, rules)
    assert sink.epochs == [(0, []), (1, [(0, 3, 7)])]


def test_the_checkpoint_is_sparks_and_forgets_old_epochs(checkpoint: JobFolder) -> None:
    """The texts are those that Spark 4.1.3 has written; see tests/fixtures/checkpoints."""
    topics = Topics({"0": 0})
    drain(checkpoint, topics, Sink())
    query = json.loads(checkpoint.file_io.read_bytes(checkpoint.path("metadata")))
    assert query.keys() == {"id"}
    assert checkpoint.file_io.read_bytes(checkpoint.path("sources/0/0")) == b'\0v1\n{"t":{"0":0}}'
    version, metadata, end = (
        checkpoint.file_io.read_bytes(checkpoint.path("offsets/0")).decode().split("\n")
    )
    assert (version, end) == ("v1", '{"t":{"0":0}}')
    assert json.loads(metadata).keys() == {"batchWatermarkMs", "batchTimestampMs", "conf"}
    done = checkpoint.file_io.read_bytes(checkpoint.path("commits/0"))
    assert done == b'v1\n{"nextBatchWatermarkMs":0}'
    checkpoint.file_io.overwrite(checkpoint.path("offsets/.1.crc"), b"of Hadoop")
    for end_offset in range(1, 7):
        topics.newest["0"] = end_offset
        drain(checkpoint, topics, Sink())
    assert names(checkpoint, "commits") == ["4", "5", "6"]
    assert names(checkpoint, "offsets") == ["4", "5", "6"]
    assert json.loads(checkpoint.file_io.read_bytes(checkpoint.path("metadata"))) == query


def test_two_jobs_of_one_checkpoint(checkpoint: JobFolder) -> None:
    topics = Topics({"0": 1})
    drain(checkpoint, topics, Sink())
    topics.newest["0"] = 3
    other_writer = EpochLogWriter(checkpoint)
    sink = Sink(on_epoch=lambda epoch: other_writer.begin(epoch + 1, {"t": {"0": 77}}, 5))
    with pytest.raises(CheckpointError, match="another job has begun epoch 2"):
        drain(checkpoint, topics, sink, EpochRules(messages_max=1, drains=False))
    assert sink.epochs == [(1, [(0, 1, 2)])]


def test_a_topic_that_has_less_than_was_read(
    checkpoint: JobFolder, caplog: pytest.LogCaptureFixture
) -> None:
    topics = Topics({"0": 9})
    drain(checkpoint, topics, Sink())
    topics.newest["0"] = 4
    with pytest.raises(WrongSourceError, match="t/0 ends at 4, and was read up to 9"):
        drain(checkpoint, topics, Sink())
    drain(checkpoint, topics, Sink(), EpochRules(fails_on_loss=False))
    assert "t/0 ends at 4, and was read up to 9; the job continues without it" in caplog.text
    topics.newest["0"] = 6
    sink = Sink()
    drain(checkpoint, topics, sink)
    assert sink.epochs == [(2, [(0, 4, 6)])]


def test_a_stream_that_goes_on_until_it_is_stopped(checkpoint: JobFolder) -> None:
    topics, second = Topics({"0": 1}), threading.Event()
    sink = Sink(
        on_epoch=lambda epoch: second.set() if epoch == 1 else topics.newest.update({"0": 3})
    )
    stream = stream_of(checkpoint, topics, sink, EpochRules(drains=False))
    stream.start()
    assert second.wait(WAIT_S)
    assert not stream.wait_for_end(0.0)
    stream.stop()
    assert stream.wait_for_end(0.0)
    assert sink.epochs == [(0, [(0, 0, 1)]), (1, [(0, 1, 3)])]


def test_a_stop_does_not_wait_for_brokers_that_are_away(checkpoint: JobFolder) -> None:
    topics = Topics({"0": 1})
    topics.is_away.set()
    stream = stream_of(checkpoint, topics, Sink(), EpochRules())
    stream.start()
    assert topics.is_asked.wait(WAIT_S)
    began = time.monotonic()
    stream.stop()
    assert time.monotonic() - began < WAIT_S / 2
    assert stream.wait_for_end(0.0)


def test_a_stop_amid_the_wait_for_lost_offsets_notes_no_epoch(checkpoint: JobFolder) -> None:
    """A leader that is new may know less for a while: the job has not lost anything yet."""
    topics = Topics({"0": 9})
    drain(checkpoint, topics, Sink())
    topics.newest["0"] = 4
    stream = stream_of(checkpoint, topics, Sink(), EpochRules(fails_on_loss=False))
    stream.patience_s = WAIT_S
    stream.start()
    for _ in range(2):  # the first question is not of the wait
        topics.is_asked.clear()
        assert topics.is_asked.wait(WAIT_S)
    stream.stop()
    assert stream.wait_for_end(0.0)
    assert names(checkpoint, "offsets") == ["0"]


def test_a_limit_counts_what_a_new_partition_has_and_not_what_it_had(checkpoint: JobFolder) -> None:
    topics, rules = Topics({"0": 4}), EpochRules(messages_max=10, fails_on_loss=False)
    drain(checkpoint, topics, Sink(), rules)
    topics.newest |= {"0": 12, "1": 1_000_008}
    topics.oldest["1"] = 1_000_000
    sink = Sink()
    drain(checkpoint, topics, sink, rules)
    assert sink.epochs == [
        (1, [(0, 4, 9), (1, 0, 1_000_005)]),
        (2, [(0, 9, 12), (1, 1_000_005, 1_000_008)]),
    ]


def test_the_sinks_own_error_is_raised_and_not_its_first_line(checkpoint: JobFolder) -> None:
    stream = stream_of(checkpoint, Topics({"0": 1}), Sink(dies_in=0), EpochRules())
    stream.read_failure = lambda: StreamAppError("in whole")
    stream.start()
    with pytest.raises(StreamAppError, match="in whole"):
        stream.wait_for_end(WAIT_S)


@dataclass
class NotedPace:
    """Implements `Pace`, and notes what the stream asks."""

    looks: list[float] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    full: list[bool] = field(default_factory=list)
    keeps_freshness: bool = True

    def note_poll(self, now: float) -> None:
        self.looks.append(now)

    def begin(self, epoch: int) -> None:
        self.begun.append(epoch)

    def note_commit(self, epoch: int) -> None:
        raise AssertionError(f"the committer's word, not the stream's: {epoch}")

    def choose_pause_s(self, *, is_full: bool) -> float:
        self.full.append(is_full)
        return 0.0

    def text(self) -> str:
        return ""


def test_the_pace_learns_of_looks_and_of_a_backlog(checkpoint: JobFolder) -> None:
    pace = NotedPace()
    stream = stream_of(
        checkpoint, Topics({"0": 5}), Sink(), EpochRules(messages_max=2, drains=False)
    )
    stream.pace = pace
    stream.start()
    idle = time.monotonic() + WAIT_S
    while len(pace.full) < 4 and time.monotonic() < idle:
        time.sleep(0.01)
    stream.stop()
    assert pace.begun == [0, 1, 2]
    assert pace.full[:4] == [True, True, False, False], "the last epoch, and no message left"
    assert pace.looks == sorted(pace.looks)
