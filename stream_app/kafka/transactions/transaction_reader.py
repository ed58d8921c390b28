"""Reads messages ahead of their epoch, in the driver, for the transactions that they belong to.

`epochs.stream.whole_borders` plans which offsets are read. A message is read here once, however
long it waits for its epoch. No row is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.arrow_buffers import int64s_of
from stream_app.cdc.transactions import MessageTransactions
from stream_app.clock import Clock
from stream_app.errors import SourceError, StoppedError, WrongSourceError
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import RangeReader, ReaderSettings
from stream_app.kafka.transactions.pending_messages import PendingMessages

_FAILS_AFTER_S = 2.0
"""After so long without progress the reader asks whether the job stops, and tries again."""
_RANGES_MAX = 16
"""Ranges that are fetched at once, because each waits some milliseconds for its first fetch."""


@dataclass(slots=True, kw_only=True)
class TransactionReader:
    """A reader of messages' transactions; for one thread. Implements `whole_borders.MessageReader`.

    Attributes:
        reader_settings: settings of the native reader.
        transactions_of: the format's reading of transactions.
    """

    reader_settings: ReaderSettings
    transactions_of: Callable[[pa.RecordBatch], MessageTransactions]
    clock: Clock
    _reader: RangeReader | None = field(init=False, default=None)

    def read(
        self,
        ranges: Sequence[OffsetRange],
        pending_messages: PendingMessages,
        is_stopping: Callable[[], bool],
    ) -> None:
        """See `MessageReader.read`; errors of brokers are tried again for a while."""
        deadline_s = self.clock.steady_seconds() + self.reader_settings.timeout_s
        while True:
            try:
                self._read(pending_messages.unread_ranges(ranges), pending_messages, is_stopping)
                return
            except WrongSourceError:
                raise
            except SourceError:
                if is_stopping():
                    raise StoppedError("the job is stopping") from None
                if self.clock.steady_seconds() > deadline_s:
                    raise

    def close(self) -> None:
        """See `MessageReader.close`."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _read(
        self,
        ranges: Sequence[OffsetRange],
        pending_messages: PendingMessages,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Read ranges of offsets, and add their messages' transactions to `pending_messages`."""
        if self._reader is None:
            self._reader = RangeReader(
                replace(
                    self.reader_settings, ranges_at_once=_RANGES_MAX, fails_after_s=_FAILS_AFTER_S
                ),
                self.clock,
            )
        with closing(self._reader.read(ranges)) as batches:
            for batch in batches:
                if is_stopping():
                    raise StoppedError("the job is stopping")
                kafka_partition = (
                    batch.column("topic")[0].as_py(),
                    batch.column("partition")[0].as_py(),
                )
                pending_messages.add(
                    kafka_partition, int64s_of(batch.column("offset")), self.transactions_of(batch)
                )
        pending_messages.reach(ranges)
