"""A job that fails while it begins or ends leaves nothing running."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.job.feed_factory import FeedFactory
from stream_app.app.observe.events.event_log import EventLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.stream.epoch_pace import FixedPace
from stream_app.errors import CompactionError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.spark.driver.jvm_watch import JvmProcess, watched_session
from tests.support.tables.small_table import StandingClock, small_table


class _BrokenError(Exception):
    pass


class _Session:
    """Stands for Spark's session."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1


def test_a_session_whose_jvm_cannot_be_watched_is_stopped() -> None:
    def no_jvm(_: object) -> JvmProcess:
        raise _BrokenError

    spark: Any = _Session()
    with pytest.raises(_BrokenError), watched_session(spark, threading.Event(), no_jvm):
        pytest.fail("the work begins without a watch")
    assert spark.stops == 1


def test_a_session_is_stopped_after_its_work() -> None:
    spark: Any = _Session()
    with subprocess.Popen(["sleep", "60"]) as child:
        with watched_session(spark, threading.Event(), lambda _: (child.pid, child)):
            assert spark.stops == 0
        assert spark.stops == 1
        child.kill()


def test_the_upkeep_of_all_tables_is_closed_though_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactions: Any = SimpleNamespace(at_once=1)
    feeds = FeedFactory(
        job_tables=_tables(),
        stream_config=StreamConfig(),
        state_file=JobStateFile(_folder(str(tmp_path / "checkpoint"))),
        open_folder=_folder,
        compaction_queue=compactions,
        pace=FixedPace(),
        is_stopping=lambda: False,
        events=EventLog(StandingClock()),
    )
    closed_names = []

    def close(name: str) -> None:
        closed_names.append(name)
        if name != "c":
            raise CompactionError(f"{name} is not closed")

    names = ["a", "b", "c"]
    for name in names:
        feed = feeds.of_table(name, small_table(tmp_path / name, "k INT, v INT", ["k"]).table)
        monkeypatch.setattr(feed.table_job.upkeep, "close", partial(close, name))
    with pytest.raises(CompactionError, match="a is not closed"):
        feeds.close()
    assert sorted(closed_names) == names


def _tables() -> SingleTable:
    return SingleTable(source=SourceConfig(topics=("t",)), table=TableConfig())


def _folder(location: str) -> JobFolder:
    return JobFolder(location, LocalFileIO())
