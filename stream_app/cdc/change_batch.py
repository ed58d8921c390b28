"""The input and output of every message format: messages in, row changes and bad records out.

Used by all formats of `cdc` and by the Spark stages that call them. It holds shapes only; the
formats read the messages.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, valid_of
from stream_app.cdc.column_drift import DriftedColumn, Sighting, sightings_together
from stream_app.errors import WrongSourceError
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import UNCHANGED
from stream_app.model.source.source_table import SourceTable, merged_source_table

_Seen = TypeVar("_Seen")
ROW_KIND = VALUE_KIND
"""Name of the first column of a change batch; its int8 values are `RowKind`s."""

MESSAGE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
"""A Kafka message. `partition` and `offset` are Kafka's; a null `value` is a tombstone."""

BAD_RECORD_SCHEMA = MESSAGE_SCHEMA.append(pa.field("reason", pa.string()))
"""A message that cannot be decoded, as it came, and why."""
BAD_RECORD_ORDER = [(name, "ascending") for name in ("topic", "partition", "offset")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTraits:
    """Settings of a table, beside its columns, that decide how its messages are decoded.

    Attributes:
        sequence_fields: columns by whose values a delete takes effect (``sequence.field``).
        ignores_deletes: whether old rows stay anyway, so that no message has to prove its row.
        merges_shards: whether rows of several source tables are meant to be in it.
        lowers_names: whether columns have the source's names in lower case.
        restored: columns of which an update may leave the value out, when it does not change it.
            The table's writer takes the value from the older row.
        takes_null_keys: whether columns of the primary key may be null.
    """

    sequence_fields: tuple[str, ...] = ()
    ignores_deletes: bool = False
    merges_shards: bool = False
    lowers_names: bool = False
    restored: frozenset[str] = frozenset()
    takes_null_keys: bool = False


NO_TRAITS = TableTraits()
"""The traits of a table of which only the columns are known."""


def change_schema(arrow_schema: pa.Schema) -> pa.Schema:
    """Schema of `ChangeBatch.rows` for a table of these columns."""
    return pa.schema([pa.field(ROW_KIND, pa.int8(), nullable=False), *arrow_schema])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Row changes in source order.

    Attributes:
        rows: `_VALUE_KIND` (int8) and then the table's columns in table order. An update's -U
            stands directly before its +U. When updates leave out values of
            `TableTraits.restored`, the column `unchanged_values.UNCHANGED` follows.
        message_index: int32 [n]; for each row, the position of its message in the decoded batch;
            never decreases.
    """

    rows: pa.RecordBatch
    message_index: Int32s

    def __post_init__(self) -> None:
        assert self.rows.num_rows == len(self.message_index), "one message index per row"

    def where(self, kept: Bools) -> ChangeBatch:
        """The changes of the rows for which the mask, bool [n], is true."""
        if kept.all():
            return self
        rows = self.rows.filter(pa.array(kept))
        return ChangeBatch(rows=rows, message_index=self.message_index[kept])

    def behind(self, position: int) -> ChangeBatch:
        """The rows of the messages after a position."""
        begin = int(np.searchsorted(self.message_index, position, side="right"))
        return ChangeBatch(rows=self.rows.slice(begin), message_index=self.message_index[begin:])


class Violation(NamedTuple):
    """The expectation that records break, and its action."""

    expectation: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """The results of one batch of messages.

    Attributes:
        bad: records of `BAD_RECORD_SCHEMA`, in source order.
        skipped: messages that mean no row: tombstones, heartbeats, transaction markers, schema
            changes, logical messages (op m), truncates.
        tables: name of a source table → the position of its first message with a row. The name is
            empty for messages without one.
        decoder_errors: how many of the bad ones the decoder did not judge but fail at.
        drift: unknown and missing columns of records that were decoded.
        violations: records that break expectations, whatever became of them.
        schemas: fingerprint of each schema that messages bring → the position of its first message.
        description: the source's table as messages describe it, if it differs from the table.
        records: name of a source table → its records with rows; of `OwnTable` alone.
        others: records of source tables that the table does not take, which are bad.
        refusal: why nothing of the batch is decoded, where the job must first learn which source
            table is its own; of `OwnTable` alone.
        truncated: position of the last message that empties the table; None: there is none. Rows
            of messages before it are here all the same.
    """

    changes: ChangeBatch
    bad: pa.RecordBatch
    skipped: int
    decoder_errors: int = 0
    tables: Mapping[str, int] = field(default_factory=dict)
    drift: Mapping[DriftedColumn, Sighting] = field(default_factory=dict)
    violations: Mapping[Violation, Sighting] = field(default_factory=dict)
    schemas: Mapping[str, int] = field(default_factory=dict)
    description: SourceTable | None = None
    truncated: int | None = None
    records: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    refusal: WrongSourceError | None = None

    def quarantining(self, messages: pa.RecordBatch, reasons: Mapping[int, str]) -> DecodedBatch:
        """The same batch, with these messages as bad records instead of rows.

        Args:
            messages: from which all this came.
            reasons: as `bad_records` takes them; itself where there are none.
        """
        if not reasons:
            return self
        kept = ~np.isin(self.changes.message_index, list(reasons))
        bad = in_order(self.bad, bad_records(messages, reasons))
        return replace(self, changes=self.changes.where(kept), bad=bad)

    def with_rows(self, rows: pa.RecordBatch) -> DecodedBatch:
        """The same batch, with other rows for the same messages."""
        return replace(self, changes=replace(self.changes, rows=rows))


def moved_results(decoded: DecodedBatch, at: Int32s) -> DecodedBatch:
    """The results of some messages, moved to their positions `at` in the whole batch."""
    changes = decoded.changes
    return replace(
        decoded,
        changes=ChangeBatch(rows=changes.rows, message_index=at[changes.message_index]),
        tables={name: int(at[first]) for name, first in decoded.tables.items()},
        drift=_moved_sightings(decoded.drift, at),
        violations=_moved_sightings(decoded.violations, at),
        schemas={key: int(at[first]) for key, first in decoded.schemas.items()},
        truncated=None if decoded.truncated is None else int(at[decoded.truncated]),
    )


def _moved_sightings(seen: Mapping[_Seen, Sighting], at: Int32s) -> dict[_Seen, Sighting]:
    return {
        key: Sighting(sighting.records, int(at[sighting.first])) for key, sighting in seen.items()
    }


def joined_results(left: DecodedBatch, right: DecodedBatch) -> DecodedBatch:
    """Join the results of two parts of a batch, at positions of the whole; omits `OwnTable`'s
    counts.
    """
    tables = [part.description for part in (left, right) if part.description is not None]
    emptied = [part.truncated for part in (left, right) if part.truncated is not None]
    return DecodedBatch(
        changes=concat_changes(left.changes.rows.schema, [left.changes, right.changes]),
        bad=pa.concat_batches([left.bad, right.bad]),
        skipped=left.skipped + right.skipped,
        decoder_errors=left.decoder_errors + right.decoder_errors,
        tables=_earliest(left.tables, right.tables),
        drift=sightings_together(left.drift, right.drift),
        violations=sightings_together(left.violations, right.violations),
        schemas=_earliest(left.schemas, right.schemas),
        description=functools.reduce(merged_source_table, tables) if tables else None,
        truncated=max(emptied, default=None),
    )


def _earliest(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {**right, **{name: min(at, right.get(name, at)) for name, at in left.items()}}


def in_order(some: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
    """The bad records of one batch, in the order of their messages."""
    if not some.num_rows or not others.num_rows:
        return some if some.num_rows else others
    return pa.concat_batches([some, others]).sort_by(BAD_RECORD_ORDER)


def concat_rows(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of change rows; a column that only some parts have is null in the others.

    Args:
        parts: at least one.
    """
    widest = max((part.schema for part in parts), key=len)
    columns = [
        pa.concat_arrays(
            [
                part.column(index)
                if index < part.num_columns
                else pa.nulls(part.num_rows, widest.types[index])
                for part in parts
            ]
        )
        for index in range(len(widest))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=widest)


def rebuilt_rows(
    rows: pa.RecordBatch, columns: Sequence[pa.Array], schema: pa.Schema
) -> pa.RecordBatch:
    """Change rows with other table columns, and with their own further columns.

    Args:
        columns: those of `schema`, which `change_schema` has made.
    """
    if UNCHANGED in rows.schema.names:
        schema = schema.append(rows.schema.field(UNCHANGED))
        columns = [*columns, rows.column(UNCHANGED)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def no_changes(schema: pa.Schema) -> ChangeBatch:
    """A batch of `change_schema` without rows."""
    empty = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
    return ChangeBatch(rows=empty, message_index=np.empty(0, np.int32))


def bad_records(messages: pa.RecordBatch, reasons: Mapping[int, str]) -> pa.RecordBatch:
    """The messages at the keys of `reasons`, in source order, as `BAD_RECORD_SCHEMA`.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; missing ones become null.
        reasons: position of a message → why it cannot be decoded.
    """
    at = sorted(reasons)
    picked = messages.take(pa.array(at, pa.int32())) if at else messages.slice(0, 0)
    columns: list[Any] = [_column(picked, field) for field in MESSAGE_SCHEMA]
    columns.append(pa.array([reasons[index] for index in at], pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=BAD_RECORD_SCHEMA)


def whole_messages(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Messages in all columns of `MESSAGE_SCHEMA`; missing ones become null."""
    columns = [_column(messages, field) for field in MESSAGE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def _column(messages: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in messages.schema.names:
        return pa.nulls(messages.num_rows, field.type)
    column = messages.column(field.name)
    return column if column.type == field.type else column.cast(field.type)


def present_values(messages: pa.RecordBatch) -> tuple[pa.Array, Int32s]:
    """The values except tombstones, as binary [m], and their positions: int32 [m]."""
    values = messages.column("value").cast(pa.binary())
    return values.drop_null(), np.flatnonzero(valid_of(values)).astype(np.int32)


def message_place(messages: pa.RecordBatch, at: int) -> str:
    """A message's place, in words."""
    topic, partition, offset = (
        messages.column(name)[at].as_py() for name in ("topic", "partition", "offset")
    )
    return f"topic {topic}, partition {partition}, offset {offset}"


def concat_changes(schema: pa.Schema, parts: Sequence[ChangeBatch]) -> ChangeBatch:
    """One batch of all parts' rows, ordered by message; rows of one message keep their order."""
    parts = [part for part in parts if part.rows.num_rows]
    if not parts:
        return no_changes(schema)
    if len(parts) == 1:
        return parts[0]
    rows = concat_rows([part.rows for part in parts])
    message_index = np.concatenate([part.message_index for part in parts])
    if (message_index[1:] < message_index[:-1]).any():
        order = np.argsort(message_index, kind="stable")
        rows, message_index = rows.take(pa.array(order)), message_index[order]
    return ChangeBatch(rows=rows, message_index=message_index)
