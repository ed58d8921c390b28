"""Reads the images of parsed messages of Canal in columns, for `canal_json`.

1. Parse all messages. Each has a list of rows, and a list of their previous values.
2. Concatenate the rows of all messages, and pair each row with its previous values.
3. Convert the values of ENUM, SET, BIT and geometry columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, children_of, valid_of, values_at
from stream_app.cdc.canal.mysql_types import convert_by_types
from stream_app.cdc.columns.column_reading import ColumnReading, Family, JsonKind
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.changed_columns import (
    explicit_nulls,
    fill_up,
    ops_of,
    rows_with_nulls_after,
)
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, UPDATE

OPS_OF_TYPES = {"INSERT": CREATE, "ROW": CREATE, "UPDATE": UPDATE, "DELETE": DELETE}


class _ListRows(NamedTuple):
    """The rows of n messages' lists in one sequence.

    Attributes:
        values: struct [m].
        starts, counts: int64 [n]; the index of each message's first row, and its row count.
    """

    values: pa.Array
    starts: Int64s
    counts: Int64s

    @classmethod
    def of(cls, lists: pa.Array) -> _ListRows:
        """Flatten the lists [n]; null is a list without rows."""
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        return cls(lists.flatten(), np.cumsum(counts) - counts, counts)


class _PairedRows(NamedTuple):
    """The rows of `data`, which are the m records, paired with those of `old`.

    Attributes:
        message_indices: int64 [m]; the message of each record.
        old_indices: int64 [m]; the index of each record's row of `old`, or -1 without one.
    """

    data: _ListRows
    old: _ListRows
    message_indices: Int64s
    old_indices: Int64s

    @classmethod
    def of(cls, data: _ListRows, old: _ListRows, is_paired: Bools) -> _PairedRows:
        """Pair the rows of the messages that `is_paired` marks: bool [n]."""
        message_indices = np.repeat(np.arange(len(is_paired)), data.counts)
        list_position = np.arange(len(message_indices)) - data.starts[message_indices]
        old_indices = np.where(
            is_paired[message_indices], old.starts[message_indices] + list_position, -1
        )
        return cls(data, old, message_indices, old_indices)

    def are_objects(self) -> Bools:
        """Mark the records whose rows, of `data` and of `old`, are objects: bool [m]."""
        has_object = np.append(valid_of(self.old.values), False)[self.old_indices]
        is_object: Bools = valid_of(self.data.values) & ((self.old_indices < 0) | has_object)
        return is_object

    def explicit_nulls(
        self, messages: dialect.ParsedMessages, table: dialect.DialectTable, is_paired: Bools
    ) -> tuple[list[Int64s], Sequence[int]]:
        """Find the records whose row of `old` has an explicit null, for each column.

        Returns:
            The records; and the indices of messages that cannot be parsed.
        """
        if messages.nulls is None:
            return explicit_nulls(
                messages.values,
                rows_with_nulls_after(messages.values, is_paired, b'"old":'),
                [reading.name for reading in table.readings],
                lambda document, row: enumerate(document["old"], int(self.data.starts[row])),
            )
        record_of_row: Int64s = np.full(len(self.old.values), -1, np.int64)
        paired_indices = np.flatnonzero(self.old_indices >= 0)
        record_of_row[self.old_indices[paired_indices]] = paired_indices
        nulls = (record_of_row[rows] for rows in messages.nulls["old"])
        return [records[records >= 0] for records in nulls], ()


def images_of(
    messages: dialect.ParsedMessages, table: dialect.DialectTable, json_kinds: Sequence[JsonKind]
) -> dialect.ParsedRecords:
    """Read the images of messages whose rows are records.

    An UPDATE of two rows, and a DELETE::

        data             [[{a: 1, b: 2}, {a: 3, b: 4}], [{a: 5, b: 6}]]
        old              [[{a: 7}, {b: 8}], null]
        message_indices  [0, 0, 1]
        old_indices      [0, 1, -1]
        before           [{a: 7, b: 2}, {a: 3, b: 8}, {a: 5, b: 6}]
        after            [{a: 1, b: 2}, {a: 3, b: 4}, {a: 5, b: 6}]
    """
    database, name, message_type, is_ddl, *types, data, old = messages.columns  # step 1
    message_ops = ops_of(message_type, OPS_OF_TYPES)
    data_rows, old_rows = _ListRows.of(data), _ListRows.of(old)
    is_update = message_ops == UPDATE
    is_suspect = (message_ops == 0) | bools_of(is_ddl) | (data_rows.counts == 0)
    is_suspect |= is_update & (old_rows.counts != data_rows.counts)
    is_paired = is_update & ~is_suspect
    paired_rows = _PairedRows.of(data_rows, old_rows, is_paired)  # step 2
    message_indices = paired_rows.message_indices
    after = children_of(data_rows.values)
    previous_columns = [
        values_at(column, paired_rows.old_indices) for column in children_of(old_rows.values)
    ]
    nulls, unreadable_indices = paired_rows.explicit_nulls(messages, table, is_paired)
    before = fill_up(previous_columns, after, nulls)
    is_suspect[list(unreadable_indices)] = True
    is_suspect[message_indices[~paired_rows.are_objects()]] = True
    is_one_to_one = bool((data_rows.counts == 1).all())
    record_messages = None if is_one_to_one else pa.array(message_indices)
    if types:  # step 3
        record_types = _column_of_records(types[0], record_messages)
        is_suspect[message_indices[_convert_by_types(record_types, table, before, after)]] = True
    ops = message_ops[message_indices]
    is_delete = ops == DELETE
    origin = (database, name) if table.reads_tables else ()
    images = Images(
        ops=ops,
        has_before=is_delete | (ops == UPDATE),
        has_after=~is_delete,
        json_kinds=json_kinds,
        before=before,
        after=after,
        is_suspect=is_suspect[message_indices],
        table_names=tuple(_column_of_records(column, record_messages) for column in origin),
    )
    if is_one_to_one:
        return dialect.ParsedRecords(images)
    return dialect.ParsedRecords(images, message_indices, is_suspect)


def _column_of_records(column: pa.Array, record_messages: pa.Array | None) -> pa.Array:
    """Return the records' values of a column of messages.

    Args:
        record_messages: int64 [m]; None if each message has one record.
    """
    return column if record_messages is None else column.take(record_messages)


def _convert_by_types(
    types: pa.Array, table: dialect.DialectTable, before: list[pa.Array], after: list[pa.Array]
) -> Bools:
    """Convert the images' values in place, and mark the records with a value that fails.

    Args:
        types: struct [m]; the MySQL types of the columns that `typed_readings` returns.
    """
    has_failed: Bools = np.zeros(len(types), np.bool_)
    readings = typed_readings(table)
    for index, reading in enumerate(table.readings):
        if reading in readings:
            column = types.field(readings.index(reading))
            for image in (before, after):
                image[index], is_failed = convert_by_types(reading.family, column, image[index])
                has_failed |= is_failed
    return has_failed


def typed_readings(table: dialect.DialectTable) -> Sequence[ColumnReading]:
    """Return the columns whose MySQL types must be read."""
    return [
        reading for reading in table.readings if reading.family in (Family.STRING, Family.BINARY)
    ]
