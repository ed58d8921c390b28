"""Reads the transactions of Debezium's JSON messages, without decoding a row.

Changes have a block ``transaction``; the connector's topic of transactions has a BEGIN and an END
for each. Debezium writes both with ``provide.transaction.metadata = true``.

PostgreSQL's ids are ``XID:LSN``, where the LSN is that of the message. So all messages of a
transaction share only the XID, and an END marker has the LSN of the commit.

Source: Debezium documentation, "Transaction metadata".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s, bools_of, children_of, gathered_array, null_where
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.debezium.debezium_origins import without_envelopes
from stream_app.cdc.debezium.log_positions import change_positions, commit_positions
from stream_app.cdc.debezium.schema_envelopes import PayloadGroup, split_messages
from stream_app.cdc.json_records.origin_fields import FieldReader
from stream_app.cdc.transactions import EndMarkers, MessageKind, MessageKinds, MessageTransactions

_SOURCE = ("connector", "sequence", "name", "db", "schema", "table")
_FIELDS = pa.schema(
    [
        pa.field("op", pa.string()),
        pa.field(
            "source",
            pa.struct([(name, pa.string()) for name in _SOURCE]),
        ),
        pa.field("transaction", pa.struct([("id", pa.string()), ("total_order", pa.int64())])),
        pa.field("status", pa.string()),
    ]
)
_COUNT = pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])
_MARKER = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("ts_ms", pa.int64()),
        pa.field("data_collections", pa.list_(_COUNT)),
    ]
)
_CHANGES, _READ = pa.array(["c", "u", "d", "t", "m"]), "r"
_OF_CONNECTOR = "io.debezium.connector."
_POSTGRES_ID = r"^(?P<xid>\d+):\d+$"
_MARKS = (MessageKind.BEGIN, MessageKind.END)


def debezium_transactions(messages: pa.RecordBatch) -> MessageTransactions:
    """Return the transaction of each message.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    count = messages.num_rows
    reader = FieldReader(_FIELDS)
    groups: list[PayloadGroup] = []
    for group in split_messages(messages):
        payloads = group.payloads if group.prefix else without_envelopes(group.payloads)
        reader.read(payloads, group.message_indices)
        groups.append(PayloadGroup(group.message_indices, payloads, group.prefix))
    op, source, transaction, status = (
        gathered_array(
            [(message_indices, columns[field_index]) for message_indices, columns in reader.parts],
            count,
            field.type,
        )
        for field_index, field in enumerate(_FIELDS)
    )
    connector, sequence, connector_name, *table_names = children_of(source)
    ids, orders = children_of(transaction)
    kinds = _kinds(op, status, ids)
    markers = _markers(groups, kinds, count)
    # A marker that cannot be read is ignored.
    kinds[np.isin(kinds, _MARKS) & ~bools_of(markers[0].is_valid())] = MessageKind.NONE
    return MessageTransactions(
        kinds=kinds,
        names=_shared_part(pc.coalesce(null_where(ids, kinds != MessageKind.CHANGE), markers[0])),
        sources=connector_name,
        tables=_join_by_dots(table_names),
        orders=pc.fill_null(orders, 0).to_numpy(),
        positions=change_positions(connector, ids, sequence),
        end_markers=_end_markers(kinds, markers),
    )


def _kinds(op: pa.Array, status: pa.Array, ids: pa.Array) -> MessageKinds:
    kinds: MessageKinds = np.full(len(op), MessageKind.NONE, np.int8)
    is_change, has_id = bools_of(pc.is_in(op, _CHANGES)), bools_of(ids.is_valid())
    kinds[is_change & has_id] = MessageKind.CHANGE
    kinds[is_change & ~has_id] = MessageKind.UNMARKED
    kinds[bools_of(pc.equal(op, _READ))] = MessageKind.READ
    has_no_op = bools_of(op.is_null())
    for mark in _MARKS:
        kinds[has_no_op & bools_of(pc.equal(status, mark.name))] = mark
    return kinds


def _markers(groups: Sequence[PayloadGroup], kinds: MessageKinds, count: int) -> list[pa.Array]:
    """Read the columns of `_MARKER` [n]; they are null in other messages."""
    parts: list[tuple[Int64s, list[pa.Array]]] = []
    for group in groups:
        is_marker = np.isin(kinds[group.message_indices], _MARKS)
        values = group.payloads.filter(pa.array(is_marker))
        message_indices = group.message_indices[is_marker]
        is_candidate = looks_like_object(values) & ~are_too_deep(values)
        candidates = values.filter(pa.array(is_candidate))
        for _, part_indices, columns in parse_by_halves(
            candidates, message_indices[is_candidate], _MARKER
        ):
            if columns is not None:
                parts.append((part_indices.astype(np.int64), columns))
    return [
        gathered_array(
            [(message_indices, columns[field_index]) for message_indices, columns in parts],
            count,
            field.type,
        )
        for field_index, field in enumerate(_MARKER)
    ]


def _end_markers(kinds: MessageKinds, markers: Sequence[pa.Array]) -> EndMarkers:
    """Find the END markers and their counts.

    Four messages, of which two are END markers, of two tables and of one::

        kinds            [BEGIN, CHANGE, END, END]
        message_indices  [2, 3]
        owners           [0, 0, 1]
        tables           ["s.a", "s.b", "s.a"]
        counts           [1, 2, 3]
    """
    message_indices = np.flatnonzero(kinds == MessageKind.END).astype(np.int64)
    ids, times, count_lists = (column.take(pa.array(message_indices)) for column in markers)
    tables, counts = children_of(pc.list_flatten(count_lists))
    # A marker counts logical messages under a name that no topic has.
    is_table_count = bools_of(pc.invert(pc.starts_with(tables, _OF_CONNECTOR)))
    logs, positions = commit_positions(ids)
    return EndMarkers(
        message_indices=message_indices,
        ids=ids,
        logs=logs,
        positions=positions,
        times=pc.fill_null(times, 0).to_numpy(),
        owners=pc.list_parent_indices(count_lists).to_numpy().astype(np.int64)[is_table_count],
        tables=tables.filter(pa.array(is_table_count)),
        counts=pc.fill_null(counts, 0).to_numpy()[is_table_count],
    )


def _shared_part(ids: pa.Array) -> pa.Array:
    """Return the part of the ids that all messages of a transaction share."""
    shared_ids = pc.struct_field(pc.extract_regex(ids, _POSTGRES_ID), "xid")
    return pc.coalesce(shared_ids, ids)


def _join_by_dots(names: Sequence[pa.Array]) -> pa.Array:
    """Join names by dots, without null and empty names."""
    joined_names = pc.binary_join_element_wise(*(pc.fill_null(name, "") for name in names), ".")
    return pc.ascii_trim(pc.replace_substring(joined_names, "..", "."), ".")
