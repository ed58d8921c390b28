"""Assigns each message to a table of the job by the source table that it names.

Implements `epoch_plan.MessageSplitter` for a job of a whole database. A batch of one source table
is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import bad_records_with_reasons
from stream_app.cdc.ddl.ddl_messages import may_carry_ddl
from stream_app.cdc.source_tables import NO_TABLE, Origins
from stream_app.epochs.stages.blocks import NEWCOMERS_INDEX, STATEMENTS_INDEX, UNREADABLE_INDEX
from stream_app.epochs.stages.epoch_plan import TableMessages
from stream_app.model.source.origin import Origin

SAMPLE_MESSAGES_MAX = 50
"""Messages of a new table that are passed on from one batch, at most."""
_LEFT_OUT = -4
"""Marks messages that go nowhere; differs from the negative indices of `blocks`."""


@dataclass(frozen=True, slots=True)
class OriginSplitter:
    """The splitter of a job of a whole database. Implements `MessageSplitter`.

    Attributes:
        find_origins: finds the source table of each message; see `message_format.SourceExtractor`.
        destination_of: returns a table's index or `NEWCOMERS_INDEX`. It returns a text with the
            reason if no table accepts the messages, and None if the job ignores them.
        accepts_unassigned: whether messages without a table are passed on. Otherwise the job
            ignores them, because another job stores them.
        forwards_statements: whether messages that may carry statements of the source are passed on.
    """

    find_origins: Callable[[pa.RecordBatch], Origins]
    destination_of: Callable[[Origin], int | str | None]
    accepts_unassigned: bool = True
    forwards_statements: bool = False

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        """See `MessageSplitter.split`."""
        origins = self.find_origins(messages)
        destinations = [self.destination_of(origin) for origin in origins.tables]
        reasons = dict(origins.unassigned_reasons) if self.accepts_unassigned else {}
        # The last origin is NO_TABLE's.
        table_indices = np.full(len(destinations) + 1, _LEFT_OUT, np.int32)
        for code, destination in enumerate(destinations):  # a loop over source tables
            if isinstance(destination, str):
                refused_indices = np.flatnonzero(origins.codes == code).tolist()
                reasons.update(dict.fromkeys(refused_indices, destination))
            elif destination is not None:
                table_indices[code] = destination
        table_of_message = table_indices[origins.codes]
        for table_index, table_messages in _parts(messages, table_of_message):
            sources = zip(destinations, origins.tables, strict=True)
            yield TableMessages(
                table_index,
                table_messages,
                tuple(str(source) for destination, source in sources if destination == table_index),
            )
        if NEWCOMERS_INDEX in destinations:
            yield TableMessages(
                NEWCOMERS_INDEX, messages.take(pa.array(_sample_indices(origins, table_of_message)))
            )
        if reasons:
            yield TableMessages(UNREADABLE_INDEX, bad_records_with_reasons(messages, reasons))
        if self.forwards_statements:
            is_statement = may_carry_ddl(messages, origins.codes)
            if is_statement.any():
                yield TableMessages(STATEMENTS_INDEX, messages.filter(pa.array(is_statement)))


def _parts(
    messages: pa.RecordBatch, table_of_message: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the messages of each table, in their order; consecutive messages are not copied."""
    order = np.argsort(table_of_message, kind="stable")
    order = order[table_of_message[order] >= 0]
    for indices in np.split(order, np.flatnonzero(np.diff(table_of_message[order])) + 1):
        if not len(indices):
            continue
        first_index, count = int(indices[0]), len(indices)
        is_run = int(indices[-1]) - first_index + 1 == count
        table_messages = (
            messages.slice(first_index, count) if is_run else messages.take(pa.array(indices))
        )
        yield int(table_of_message[first_index]), table_messages


def _sample_indices(
    origins: Origins, table_of_message: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the indices of a few messages of each new table, in order."""
    new_indices = np.flatnonzero(table_of_message == NEWCOMERS_INDEX)
    codes = origins.codes[new_indices]
    assert NO_TABLE not in codes, "a message without a table is of no new one"
    sample_indices = [new_indices[codes == code][:SAMPLE_MESSAGES_MAX] for code in np.unique(codes)]
    return np.sort(np.concatenate(sample_indices))
