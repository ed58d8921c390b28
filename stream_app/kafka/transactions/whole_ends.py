"""Moves the ends of an epoch back until no transaction crosses them.

Partitions progress independently, so an end cuts each of them by itself. A cut of one may leave a
transaction incomplete that another has in full. Here 2 is not complete, so 3 must wait in a, so 4
must wait in c::

    s.a/0    1.1      │ 2.1 3.1
    s.c/0    1.2      │ 3.2 4.1

`epoch_cut` calls `whole_ends` with the transactions of the pending messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s


@dataclass(frozen=True, slots=True)
class TransactionSpans:
    """The offsets of each transaction in each partition where it has messages.

    Attributes:
        transactions, partitions: int64 [k]; numbers from 0 on.
        first_offsets, last_offsets: int64 [k]; of its first and its last message there.
    """

    transactions: Int64s
    partitions: Int64s
    first_offsets: Int64s
    last_offsets: Int64s


def spans_of(transactions: Int64s, partitions: Int64s, offsets: Int64s) -> TransactionSpans:
    """Return the spans of n messages; all arguments are int64 [n]."""
    order = np.lexsort((offsets, partitions, transactions))
    transactions, partitions, offsets = transactions[order], partitions[order], offsets[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.diff(transactions).astype(bool) | np.diff(partitions).astype(bool)
    first_indices = np.flatnonzero(is_first)
    return TransactionSpans(
        transactions=transactions[first_indices],
        partitions=partitions[first_indices],
        first_offsets=offsets[first_indices],
        last_offsets=offsets[np.append(first_indices[1:], len(order))[: len(first_indices)] - 1],
    )


def whole_ends(spans: TransactionSpans, is_complete: Bools, ends: Int64s) -> Int64s:
    """Return the greatest ends, up to the given ones, that no transaction crosses.

    The loop moves the ends of cut transactions back until none is cut. It never moves an end
    further back than the greatest solution does, so it returns this solution.

    Args:
        is_complete: bool [t]; whether all messages of a transaction are before the given ends.
        ends: int64 [p]; the offset after the last message of each partition.
    """
    while True:
        is_behind = spans.last_offsets >= ends[spans.partitions]
        is_open = ~is_complete
        is_open[spans.transactions[is_behind]] = True
        is_cut = is_open[spans.transactions] & (spans.first_offsets < ends[spans.partitions])
        if not is_cut.any():
            return ends
        ends = ends.copy()
        np.minimum.at(ends, spans.partitions[is_cut], spans.first_offsets[is_cut])
