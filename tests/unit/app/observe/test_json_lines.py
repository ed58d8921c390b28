"""A log of JSON lines has one object a record, with the fields of its subject."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from stream_app.app.config.secrets import Secrets, hiding
from stream_app.app.config.stream_config import LogFormat
from stream_app.app.observe.channels.job_log import log_as, log_end, log_to_stderr
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.checkpoint.held_table import HeldTable
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import UsageError
from stream_app.process.log_fields import logging_about
from tests.support.tables.small_table import StandingClock

LOG = logging.getLogger("stream_app.table.anything")


class Lines:
    """The lines that a job's log writes."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def taken(self) -> list[dict[str, Any]]:
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The root logger with one handler, as a job has it."""
    root, stream = logging.getLogger(), io.StringIO()
    before, level = list(root.handlers), logging.getLogger("stream_app").level
    root.handlers[:] = [logging.StreamHandler(stream)]
    log_to_stderr()
    log_as(LogFormat.JSON)
    yield Lines(stream)
    root.handlers[:] = before
    logging.getLogger("stream_app").setLevel(level)


def test_an_epoch_is_one_line_with_table_epoch_and_offsets(lines: Lines) -> None:
    log = EventLog(StandingClock(), metrics=JobMetrics("shop")).of_table("orders")
    ends = {("t", 0): PartitionEnd(41, None)}
    parts = EpochSeconds(read_s=0.25, decode_s=1.5)
    log.on_epoch(
        EpochReport(epoch=7, counts=DecodeCounts(message_count=2, ends=ends), durations=parts)
    )
    [line] = lines.taken()
    job_fields = ["table", "epoch", "offsets", "seconds"]
    assert list(line) == ["time", "level", "logger", "message", *job_fields]
    assert (line["seconds"]["read"], line["seconds"]["decode"]) == (0.25, 1.5)
    assert line["message"].startswith("orders: epoch 7: 2 messages, 0 changes in ")
    assert (line["table"], line["epoch"]) == ("shop.orders", 7)
    assert line["offsets"] == {"t": {"0": 41}}
    assert line["time"].endswith("Z")
    log.report_progress(SourceProgress(8, 2, 5, {"t": {"0": 44}}))
    [line] = lines.taken()
    assert (line["epoch"], line["offsets"]) == (8, {"t": {"0": 44}})
    held_table = HeldTable(
        since_epoch=9, start={"t": {"0": 44}}, reason="no", since_ms=1, retry_ms=None
    )
    EventLog(StandingClock(), metrics=JobMetrics("shop")).report_held_table("orders", held_table)
    [line] = lines.taken()
    assert (line["level"], line["table"], line["epoch"]) == ("ERROR", "shop.orders", 9)


def test_lines_of_other_modules_have_what_their_caller_knows(lines: Lines) -> None:
    with logging_about(table="shop.orders", epoch=3):
        with logging_about(bucket=2, offsets={}):
            LOG.warning("two\nlines")
        thread = Thread(target=lambda: LOG.warning("elsewhere"))
        thread.start()
        thread.join()
    LOG.warning("after")
    inside, elsewhere, after = lines.taken()
    assert inside["message"] == "two\nlines"
    assert (inside["table"], inside["epoch"], inside["bucket"]) == ("shop.orders", 3, 2)
    assert "offsets" not in inside
    assert "table" not in elsewhere
    assert "table" not in after


def test_exceptions_are_in_the_line_and_secrets_are_not(lines: Lines) -> None:
    with hiding(Secrets(["swordfish"])):
        try:
            raise ValueError("the password is swordfish")
        except ValueError as error:
            LOG.exception("it failed")
            log_end(error, None)
        log_end(UsageError("no topic", fix="make it"), "no topic")
    first, bug, failure = lines.taken()
    assert first["exception"].endswith("ValueError: the password is ****")
    assert bug["message"] == "a bug has ended the job"
    assert bug["exception"].endswith("ValueError: the password is ****")
    assert (failure["message"], failure["level"]) == ("no topic", "ERROR")
    assert "exception" not in failure


def test_a_log_for_people_ends_with_the_error_alone(capsys: pytest.CaptureFixture[str]) -> None:
    log_end(UsageError("no topic", fix="make it"), "no topic")
    assert capsys.readouterr().err == "error: no topic\n"
