"""Runs the streaming query until it ends, and the work beside it.

Source: Spark's `StreamingQuery`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.offset_ranges import Offsets, behind
from stream_app.spark.ingest.micro_batch import MicroBatch
from stream_app.spark.session import where_spark_says_more
from stream_app.spark.task_errors import readable

_CAUSES_MAX, _CAUSE_MAX = 4, 300
_LOGIN = re.compile(r"log ?in|authenticat|SASL|SSL|Kerberos|OAuth|certificat", re.IGNORECASE)
_LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The source's state after an epoch, as Spark reports it.

    Attributes:
        lag: messages behind the newest ones, over all partitions; None when Spark does not know.
        end_offsets: topic → partition → offset at which the next epoch begins.
        behind: topic and partition → messages behind the newest one.
        newest: the offsets behind the newest messages; none when Spark does not know.
    """

    epoch: int
    messages: int
    lag: int | None
    end_offsets: Mapping[str, Mapping[str, int]]
    behind: Mapping[tuple[str, str], int] = field(default_factory=dict)
    newest: Offsets = field(default_factory=dict)


@dataclass(slots=True)
class RunningStream:
    """A query with its sink.

    Attributes:
        on_progress: gets the source's state after an epoch.
        on_idle: gets the source's state when there was nothing new.
        on_drained: gets the source's state when the job has drained the source.
        watched: called at each look at the query with True, and with False after the last.
        stop_requested: set it to end the job after the running epoch.
    """

    batch: MicroBatch[DataFrame]
    checkpoint: str
    trigger: str | None
    on_progress: Callable[[SourceProgress], None]
    on_idle: Callable[[SourceProgress], None]
    on_drained: Callable[[SourceProgress | None], None]
    stop_requested: threading.Event = field(default_factory=threading.Event)
    watched: Callable[[bool], None] = field(default=lambda _: None)
    _reported: int = -1
    _told: str = ""
    _newest: SourceProgress | None = None

    def run(self, messages: DataFrame, name: str) -> None:
        """Run until the source is drained (`trigger` None), or the job is stopped or fails.

        Raises:
            StreamAppError: the error that stopped the job, in its own words.
        """
        writer = (
            messages.writeStream.queryName(name)
            .foreachBatch(self.batch)
            .option("checkpointLocation", self.checkpoint)
        )
        if self.trigger is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=self.trigger)
        query = writer.start()
        try:
            self._watch(query)
            self.watched(False)
            if self.trigger is None and not self.stop_requested.is_set():
                self.batch.settle()
                self.batch.drain()
                self.on_drained(self._newest)
        except StreamingQueryException as error:
            if self.stop_requested.is_set() and self.batch.failure is None:
                # Ctrl-C also ends small helpers of Hadoop that Spark runs between epochs. The table
                # and the checkpoint are intact: a restart catches up with Spark's notes.
                _LOG.warning("the stream ended before Spark had noted its last epoch")
                return
            raise _cause(error, self.batch.failure) from None
        finally:
            self._stop(query)

    def _watch(self, query: StreamingQuery) -> None:
        while not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]
            self.watched(True)
            self._report(query)
            self.batch.while_idle()
            if self.batch.failure is not None:
                raise self.batch.failure  # of an epoch that Spark has as done
            if self.stop_requested.is_set():
                return
        self._report(query)

    def _stop(self, query: StreamingQuery) -> None:
        if not query.isActive:
            return
        # After this no epoch is half done and none begins: Spark may interrupt its thread. The lock
        # must be free again, because an epoch that waits for it would block the stop forever.
        with self.batch.lock:
            self.batch.stopping = True
        query.stop()

    def _report(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last.json == self._told:
            return
        self._told = last.json
        newest = source_progress(json.loads(last.json))
        if newest.epoch > self._reported + 1:
            # Epochs can end faster than this thread asks; Spark keeps the last hundred.
            for earlier in query.recentProgress:
                report = source_progress(json.loads(earlier.json))
                if self._reported < report.epoch < newest.epoch:
                    self._tell(report)
        self._tell(newest)

    def _tell(self, report: SourceProgress) -> None:
        self._newest = report
        if report.epoch > self._reported and (report.messages or report.lag):
            self._reported = report.epoch
            self.on_progress(report)
        else:
            self.on_idle(report)


def source_progress(progress: Mapping[str, Any]) -> SourceProgress:
    """The source's state in Spark's progress document."""
    ends: dict[str, Mapping[str, int]] = {}
    newest: dict[str, Mapping[str, int]] = {}
    for source in progress.get("sources", ()):
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(end, dict):
            continue
        ends.update(end)
        if isinstance(latest, dict):
            newest.update(latest)
    of_each = behind(ends, newest)
    return SourceProgress(
        epoch=int(progress["batchId"]),
        messages=int(progress.get("numInputRows") or 0),
        lag=sum(of_each.values()) if newest else None,
        end_offsets=ends,
        behind=of_each,
        newest=newest,
    )


def _cause(error: StreamingQueryException, failure: BaseException | None) -> BaseException:
    """The error as its reader needs it: ours in its own words, Spark's in short."""
    if failure is not None:
        return readable(failure)
    found = readable(error)
    if found is not error:
        return found
    said = str(error).split("\n\n", maxsplit=1)[0][:2000]
    causes = java_causes(str(getattr(error, "_stackTrace", "")))
    if causes:
        said += "\n  because: " + "; ".join(causes)
    if _LOGIN.search("".join(causes)):
        return WrongSourceError(
            f"the stream ended with an error: {said}",
            where="source.kafka",
            fix="Kafka's client could not log in: see security.protocol, sasl.mechanism and "
            "sasl.jaas.config there, and the ticket, token or certificate that they need, on the "
            "driver and the executors",
        )
    return SourceError(
        f"the stream ended with an error: {said}", fix=where_spark_says_more(os.environ)
    )


def java_causes(stack: str) -> list[str]:
    """The messages of all causes in a Java trace, outermost first; Spark shows only the first."""
    found = re.findall(r"^Caused by: [\w.$]+: (.+)$", stack, re.MULTILINE)
    return [each[:_CAUSE_MAX] for each in dict.fromkeys(found)][:_CAUSES_MAX]
