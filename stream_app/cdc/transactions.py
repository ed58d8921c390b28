"""The transactions of the source to which messages belong, whatever their format.

A format that names them has `SourceExtractor.find_transactions`; `kafka.transactions` gathers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s

MessageKinds = npt.NDArray[np.int8]
LogPositions = npt.NDArray[np.int64]
"""Positions in the log of a source, int64 [n, `POSITION_LENGTH`]: greater ones are later. Three
numbers are compared one after the other. A position is unknown if its first number is negative."""
POSITION_LENGTH = 3
NO_POSITION = -1


class MessageKind(IntEnum):
    """The part that a message has in a transaction.

    Attributes:
        NONE: none, such as a tombstone, a heartbeat or a message that cannot be read.
        CHANGE: a change with its transaction.
        BEGIN, END: the marker of a transaction.
        READ: a row that the connector has read from the table, outside of any transaction.
        UNMARKED: a change that does not name its transaction.
    """

    NONE = 0
    CHANGE = 1
    BEGIN = 2
    END = 3
    READ = 4
    UNMARKED = 5


@dataclass(frozen=True, slots=True)
class EndMarkers:
    """The e END markers among n messages, and their counts of changes, m in all.

    Attributes:
        message_indices: int64 [e]; the indices of the messages.
        ids: strings [e]; the whole ids, which may have the position of the commit.
        times: int64 [e]; ms since 1970, as the source says.
        logs: strings [e]; the name of the log in which positions grow, such as a server.
        positions: int64 [e, 3]; the positions of the commits. Changes of a transaction are at or
            before its commit; changes of later transactions are after it.
        owners: int64 [m]; the marker of each count, by its number in `message_indices`.
        tables: strings [m]; the table of each count, as the marker names it.
        counts: int64 [m]; the changes of the transaction in that table.
    """

    message_indices: Int64s
    ids: pa.Array
    times: Int64s
    logs: pa.Array
    positions: LogPositions
    owners: Int64s
    tables: pa.Array
    counts: Int64s


@dataclass(frozen=True, slots=True)
class MessageTransactions:
    """The transaction of each of n messages.

    Attributes:
        kinds: int8 [n], of `MessageKind`.
        names: strings [n]; the part of the id that all messages of a transaction share; null
            without a transaction. Transactions of different connectors may share a name.
        sources: strings [n]; the connector's name in changes; null in markers.
        tables: strings [n]; the table of a change, from the outermost name to its own.
        orders: int64 [n]; the number of a change within its transaction.
        positions: int64 [n, 3]; the positions of changes, which grow with `orders` along the
            source's log.
        end_markers: the END markers.
    """

    kinds: MessageKinds
    names: pa.Array
    sources: pa.Array
    tables: pa.Array
    orders: Int64s
    positions: LogPositions
    end_markers: EndMarkers
