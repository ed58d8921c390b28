"""The job reports each epoch once, even one that ends between two of its looks at the stream."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame

from stream_app.epochs.stream.running_stream import RunningStream, SourceProgress
from stream_app.spark.stream.spark_stream import SparkStream


@dataclass
class Query:
    """Stands for Spark's query: it has finished these epochs."""

    recentProgress: list[Any] = field(default_factory=list)  # noqa: N815

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None

    def finishes(self, epoch: int, messages: int) -> None:
        source = {"endOffset": {"t": {"0": epoch}}, "latestOffset": {"t": {"0": epoch}}}
        progress = {"batchId": epoch, "numInputRows": messages, "sources": [source]}
        self.recentProgress.append(SimpleNamespace(json=json.dumps(progress)))


def test_every_epoch_is_reported_once_however_fast_they_end() -> None:
    reports: list[SourceProgress] = []
    idle: list[SourceProgress] = []
    running: RunningStream[DataFrame] = RunningStream(
        epoch_committer=None,  # type: ignore[arg-type]
        drains=True,
        on_progress=reports.append,
        on_idle=idle.append,
        on_drained=lambda _: None,
    )
    query: Any = Query()
    stream = SparkStream(
        messages=None,  # type: ignore[arg-type]
        name="",
        epoch_committer=None,  # type: ignore[arg-type]
        checkpoint_location="",
        trigger=None,
        stop_requested=threading.Event(),
        query=query,
    )
    running.report(stream.take_progress())
    query.finishes(7, 4)
    query.finishes(8, 4)
    query.finishes(9, 2)
    running.report(stream.take_progress())
    running.report(stream.take_progress())
    assert [(report.epoch, report.message_count) for report in reports] == [(7, 4), (8, 4), (9, 2)]
    query.finishes(10, 1)
    query.finishes(11, 0)
    running.report(stream.take_progress())
    assert [report.epoch for report in reports] == [7, 8, 9, 10]
    assert [report.epoch for report in idle] == [11]
