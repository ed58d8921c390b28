"""The input and the output of a message format: messages, changes of rows, and bad records.

All formats of `cdc` use it, and so do the Spark stages that call them. It only defines values; the
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
from stream_app.cdc.column_drift import DriftedColumn, Sighting, join_sightings
from stream_app.errors import WrongSourceError
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import UNCHANGED
from stream_app.model.source.source_table import SourceTable, merged_source_table

_SightedT = TypeVar("_SightedT")
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
"""A message that cannot be decoded or stored, as the job received it, and the reason."""
BAD_RECORD_ORDER = [(name, "ascending") for name in ("topic", "partition", "offset")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTraits:
    """Settings of a table, beside its columns, that decide how its messages are decoded.

    Attributes:
        sequence_fields: columns whose values decide whether a delete takes effect
            (``sequence.field``).
        ignores_deletes: whether old rows stay in any case, so that no message has to prove its row.
        merges_shards: whether the table is meant to have rows of several source tables.
        lowers_names: whether columns have the source's names in lower case.
        restored_columns: columns whose unchanged value an update may omit. The table's writer
            takes the value from the older row.
        accepts_null_keys: whether columns of the primary key may be null.
    """

    sequence_fields: tuple[str, ...] = ()
    ignores_deletes: bool = False
    merges_shards: bool = False
    lowers_names: bool = False
    restored_columns: frozenset[str] = frozenset()
    accepts_null_keys: bool = False


NO_TRAITS = TableTraits()
"""The traits of a table of which only the columns are known."""


def schema_of_changes(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the schema of `ChangeBatch.rows` for a table of these columns."""
    return pa.schema([pa.field(ROW_KIND, pa.int8(), nullable=False), *arrow_schema])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Row changes in source order.

    Attributes:
        rows: `_VALUE_KIND` (int8) and then the table's columns in table order. An update's -U
            is directly before its +U. When updates omit values of
            `TableTraits.restored_columns`, the column `unchanged_values.UNCHANGED` follows.
        message_indices: int32 [n]; the index of each row's message in the decoded batch. It
            never decreases.
    """

    rows: pa.RecordBatch
    message_indices: Int32s

    def __post_init__(self) -> None:
        assert self.rows.num_rows == len(self.message_indices), "one message index per row"

    def where(self, mask: Bools) -> ChangeBatch:
        """Return the changes at which the mask, bool [n], is true."""
        if mask.all():
            return self
        rows = self.rows.filter(pa.array(mask))
        return ChangeBatch(rows=rows, message_indices=self.message_indices[mask])

    def changes_after(self, message_index: int) -> ChangeBatch:
        """Return the changes of all messages after an index."""
        start = int(np.searchsorted(self.message_indices, message_index, side="right"))
        return ChangeBatch(
            rows=self.rows.slice(start), message_indices=self.message_indices[start:]
        )


class Violation(NamedTuple):
    """An expectation that records violate, with its action."""

    expectation: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """The results of one batch of messages.

    Attributes:
        bad_records: records of `BAD_RECORD_SCHEMA`, in source order.
        skipped_count: number of messages without a row: tombstones, heartbeats, transaction
            markers, schema changes, logical messages (op m), truncates.
        tables: name of a source table → the index of its first message with a row. The name is
            empty for messages without one.
        decoder_error_count: number of bad records at which the decoder failed instead of judging
            them.
        drift: unknown, missing and cut columns of records that were decoded.
        violations: records that violate each expectation, whatever its action is.
        schemas: fingerprint of each schema that messages bring → the index of its first message.
        description: the source table as messages describe it, if it differs from the table.
        record_counts: name of a source table → number of its records with rows; only
            `OwnMessageDecoder` counts them.
        other_record_count: number of bad records of source tables that the table does not accept.
        refusal: why the batch is not decoded, if the job must first learn its source table; only
            `OwnMessageDecoder` sets it.
        last_truncate: index of the last message that empties the table, or None. The rows of
            earlier messages are included nevertheless.
    """

    changes: ChangeBatch
    bad_records: pa.RecordBatch
    skipped_count: int
    decoder_error_count: int = 0
    tables: Mapping[str, int] = field(default_factory=dict)
    drift: Mapping[DriftedColumn, Sighting] = field(default_factory=dict)
    violations: Mapping[Violation, Sighting] = field(default_factory=dict)
    schemas: Mapping[str, int] = field(default_factory=dict)
    description: SourceTable | None = None
    last_truncate: int | None = None
    record_counts: Mapping[str, int] = field(default_factory=dict)
    other_record_count: int = 0
    refusal: WrongSourceError | None = None

    def with_bad_records(
        self, messages: pa.RecordBatch, reasons: Mapping[int, str]
    ) -> DecodedBatch:
        """Return the same batch, with some of its messages as bad records instead of rows.

        Args:
            messages: all messages of this batch.
            reasons: index of a message → why it is a bad record; may be empty.
        """
        if not reasons:
            return self
        is_good = ~np.isin(self.changes.message_indices, list(reasons))
        bad_records = join_bad_records(
            self.bad_records, bad_records_with_reasons(messages, reasons)
        )
        return replace(self, changes=self.changes.where(is_good), bad_records=bad_records)

    def with_rows(self, rows: pa.RecordBatch) -> DecodedBatch:
        """Return the same batch, with other rows for the same messages."""
        return replace(self, changes=replace(self.changes, rows=rows))


def results_in_batch(decoded_batch: DecodedBatch, message_indices: Int32s) -> DecodedBatch:
    """Return the results of some messages of a batch, with indices in that batch.

    Args:
        message_indices: int32 [m]; the indices of these messages in the batch.
    """
    changes = decoded_batch.changes
    return replace(
        decoded_batch,
        changes=ChangeBatch(
            rows=changes.rows, message_indices=message_indices[changes.message_indices]
        ),
        tables={name: int(message_indices[index]) for name, index in decoded_batch.tables.items()},
        drift=_sightings_in_batch(decoded_batch.drift, message_indices),
        violations=_sightings_in_batch(decoded_batch.violations, message_indices),
        schemas={key: int(message_indices[index]) for key, index in decoded_batch.schemas.items()},
        last_truncate=None
        if decoded_batch.last_truncate is None
        else int(message_indices[decoded_batch.last_truncate]),
    )


def _sightings_in_batch(
    sightings: Mapping[_SightedT, Sighting], message_indices: Int32s
) -> dict[_SightedT, Sighting]:
    return {
        key: Sighting(sighting.record_count, int(message_indices[sighting.first_index]))
        for key, sighting in sightings.items()
    }


def join_results(left: DecodedBatch, right: DecodedBatch) -> DecodedBatch:
    """Join the results of two parts of a batch, with indices in the whole batch.

    The result lacks the counts of `OwnMessageDecoder`.
    """
    descriptions = [part.description for part in (left, right) if part.description is not None]
    truncates = [part.last_truncate for part in (left, right) if part.last_truncate is not None]
    return DecodedBatch(
        changes=concat_changes(left.changes.rows.schema, [left.changes, right.changes]),
        bad_records=pa.concat_batches([left.bad_records, right.bad_records]),
        skipped_count=left.skipped_count + right.skipped_count,
        decoder_error_count=left.decoder_error_count + right.decoder_error_count,
        tables=_first_indices(left.tables, right.tables),
        drift=join_sightings(left.drift, right.drift),
        violations=join_sightings(left.violations, right.violations),
        schemas=_first_indices(left.schemas, right.schemas),
        description=functools.reduce(merged_source_table, descriptions) if descriptions else None,
        last_truncate=max(truncates, default=None),
    )


def _first_indices(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {
        **right,
        **{name: min(index, right.get(name, index)) for name, index in left.items()},
    }


def join_bad_records(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    """Return the bad records of one batch, in the order of their messages."""
    if not left.num_rows or not right.num_rows:
        return left if left.num_rows else right
    return pa.concat_batches([left, right]).sort_by(BAD_RECORD_ORDER)


def concat_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate change rows; a column that a batch lacks is null there.

    Args:
        batches: at least one.
    """
    widest_schema = max((batch.schema for batch in batches), key=len)
    columns = [
        pa.concat_arrays(
            [
                batch.column(index)
                if index < batch.num_columns
                else pa.nulls(batch.num_rows, widest_schema.types[index])
                for batch in batches
            ]
        )
        for index in range(len(widest_schema))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=widest_schema)


def replace_columns(
    rows: pa.RecordBatch, columns: Sequence[pa.Array], schema: pa.Schema
) -> pa.RecordBatch:
    """Replace the table's columns of change rows, and keep the rows' further columns.

    Args:
        columns: the columns of `schema`, which `schema_of_changes` has made.
    """
    if UNCHANGED in rows.schema.names:
        schema = schema.append(rows.schema.field(UNCHANGED))
        columns = [*columns, rows.column(UNCHANGED)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def no_changes(schema: pa.Schema) -> ChangeBatch:
    """Return a batch of `schema_of_changes` without rows."""
    no_rows = pa.RecordBatch.from_arrays(
        [pa.array([], data_type) for data_type in schema.types], schema=schema
    )
    return ChangeBatch(rows=no_rows, message_indices=np.empty(0, np.int32))


def bad_records_with_reasons(
    messages: pa.RecordBatch, reasons: Mapping[int, str]
) -> pa.RecordBatch:
    """Return the bad records of `reasons` in source order, as `BAD_RECORD_SCHEMA`.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; missing ones become null.
        reasons: index of a message → why it cannot be decoded or stored.
    """
    message_indices = sorted(reasons)
    bad_messages = (
        messages.take(pa.array(message_indices, pa.int32()))
        if message_indices
        else messages.slice(0, 0)
    )
    columns: list[Any] = [_message_column(bad_messages, field) for field in MESSAGE_SCHEMA]
    columns.append(
        pa.array([reasons[message_index] for message_index in message_indices], pa.string())
    )
    return pa.RecordBatch.from_arrays(columns, schema=BAD_RECORD_SCHEMA)


def with_all_columns(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return messages with all columns of `MESSAGE_SCHEMA`; missing columns are null."""
    columns = [_message_column(messages, field) for field in MESSAGE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def _message_column(messages: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in messages.schema.names:
        return pa.nulls(messages.num_rows, field.type)
    column = messages.column(field.name)
    return column if column.type == field.type else column.cast(field.type)


def present_values(messages: pa.RecordBatch) -> tuple[pa.Array, Int32s]:
    """Return the values without tombstones, binary [m], and their indices, int32 [m]."""
    values = messages.column("value").cast(pa.binary())
    return values.drop_null(), np.flatnonzero(valid_of(values)).astype(np.int32)


def message_place(messages: pa.RecordBatch, message_index: int) -> str:
    """Describe the place of a message: its topic, partition and offset."""
    topic, partition_number, offset = (
        messages.column(name)[message_index].as_py() for name in ("topic", "partition", "offset")
    )
    return f"topic {topic}, partition {partition_number}, offset {offset}"


def concat_changes(schema: pa.Schema, change_batches: Sequence[ChangeBatch]) -> ChangeBatch:
    """Return one batch of all batches' rows, by message; rows of one message keep their order."""
    change_batches = [change_batch for change_batch in change_batches if change_batch.rows.num_rows]
    if not change_batches:
        return no_changes(schema)
    if len(change_batches) == 1:
        return change_batches[0]
    rows = concat_rows([change_batch.rows for change_batch in change_batches])
    message_indices = np.concatenate(
        [change_batch.message_indices for change_batch in change_batches]
    )
    if (message_indices[1:] < message_indices[:-1]).any():
        order = np.argsort(message_indices, kind="stable")
        rows, message_indices = rows.take(pa.array(order)), message_indices[order]
    return ChangeBatch(rows=rows, message_indices=message_indices)
