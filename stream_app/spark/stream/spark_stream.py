"""Runs Spark's own streaming query, for files and for topics that Spark's source reads.

Source: Spark's `StreamingQuery`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.epochs.task_errors import readable_error
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.offset_ranges import messages_behind
from stream_app.spark.driver.session import spark_log_hint

_CAUSES_MAX, _CAUSE_MAX = 4, 300
_LOGIN = re.compile(r"log ?in|authenticat|SASL|SSL|Kerberos|OAuth|certificat", re.IGNORECASE)
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class SparkStream:
    """A stream that is a streaming query of Spark's. Implements `running_stream.Stream`.

    Attributes:
        messages: the messages, in columns of `MESSAGE_SCHEMA`.
        trigger: the time between the starts of two epochs, or None to end when the source is
            drained.
    """

    messages: DataFrame
    name: str
    epoch_committer: EpochCommitter[DataFrame]
    checkpoint_location: str
    trigger: str | None
    stop_requested: threading.Event
    query: StreamingQuery | None = None
    _reported_json: str = field(init=False, default="")
    _epoch: int = field(init=False, default=-1)

    def start(self) -> None:
        """See `Stream.start`."""
        writer = (
            self.messages.writeStream.queryName(self.name)
            .foreachBatch(self._process_epoch)
            .option("checkpointLocation", self.checkpoint_location)
        )
        if self.trigger is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=self.trigger)
        self.query = writer.start()

    def _process_epoch(self, messages: DataFrame, epoch: int) -> None:
        self.epoch_committer.process_epoch(messages, epoch)

    def wait_for_end(self, wait_s: float) -> bool:
        """See `Stream.wait_for_end`."""
        assert self.query is not None, "it is started first"
        try:
            return bool(self.query.awaitTermination(wait_s))  # type: ignore[arg-type]
        except StreamingQueryException as error:
            if self.stop_requested.is_set() and self.epoch_committer.failure is None:
                # Ctrl-C also ends small helpers of Hadoop that Spark runs between epochs. The table
                # and the checkpoint are intact: a restart continues from Spark's records.
                _LOG.warning("the stream ended before Spark had noted its last epoch")
                return True
            raise _cause(error, self.epoch_committer.failure) from None

    def take_progress(self) -> Sequence[SourceProgress]:
        """See `Stream.take_progress`."""
        last_progress = None if self.query is None else self.query.lastProgress
        if self.query is None or last_progress is None or last_progress.json == self._reported_json:
            return ()
        self._reported_json = last_progress.json
        newest_progress = source_progress(json.loads(last_progress.json))
        new_progress = [newest_progress]
        if newest_progress.epoch > self._epoch + 1:
            # Epochs can end faster than this thread asks; Spark keeps the newest of them.
            recent_progress = (
                source_progress(json.loads(progress.json)) for progress in self.query.recentProgress
            )
            new_progress[:0] = [
                progress
                for progress in recent_progress
                if self._epoch < progress.epoch < newest_progress.epoch
            ]
        self._epoch = newest_progress.epoch
        return new_progress

    def stop(self) -> None:
        """See `Stream.stop`."""
        if self.query is not None and self.query.isActive:
            self.query.stop()


def source_progress(progress: Mapping[str, Any]) -> SourceProgress:
    """Return the source's state in Spark's progress document."""
    all_end_offsets: dict[str, Mapping[str, int]] = {}
    newest_offsets: dict[str, Mapping[str, int]] = {}
    for source in progress.get("sources", ()):
        end_offsets, latest_offsets = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(end_offsets, dict):
            continue
        all_end_offsets.update(end_offsets)
        if isinstance(latest_offsets, dict):
            newest_offsets.update(latest_offsets)
    partition_lags = messages_behind(all_end_offsets, newest_offsets)
    return SourceProgress(
        epoch=int(progress["batchId"]),
        message_count=int(progress.get("numInputRows") or 0),
        lag=sum(partition_lags.values()) if newest_offsets else None,
        end_offsets=all_end_offsets,
        partition_lags=partition_lags,
        newest_offsets=newest_offsets,
    )


def _cause(error: StreamingQueryException, failure: BaseException | None) -> BaseException:
    """Return the error without Spark's wrapping: stream_app's own whole, Spark's in short."""
    if failure is not None:
        return readable_error(failure)
    cause = readable_error(error)
    if cause is not error:
        return cause
    error_text = str(error).split("\n\n", maxsplit=1)[0][:2000]
    causes = java_causes(str(getattr(error, "_stackTrace", "")))
    if causes:
        error_text += "\n  because: " + "; ".join(causes)
    if _LOGIN.search("".join(causes)):
        return WrongSourceError(
            f"the stream ended with an error: {error_text}",
            where="source.kafka",
            fix="Kafka's client could not log in: see security.protocol, sasl.mechanism and "
            "sasl.jaas.config there, and the ticket, token or certificate that they need, on the "
            "driver and the executors",
        )
    return SourceError(
        f"the stream ended with an error: {error_text}", fix=spark_log_hint(os.environ)
    )


def java_causes(stack: str) -> list[str]:
    """Return the messages of all causes in a Java trace, outermost first."""
    messages = re.findall(r"^Caused by: [\w.$]+: (.+)$", stack, re.MULTILINE)
    return [message[:_CAUSE_MAX] for message in dict.fromkeys(messages)][:_CAUSES_MAX]
