"""Carries changes that omit values from decoding tasks to writing tasks.

A change that omits values includes its message. If the writing task finds no older value, the
record becomes a bad record, as if the decoder had refused it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stream_app.arrow_buffers import valid_of
from stream_app.cdc.change_batch import (
    BAD_RECORD_SCHEMA,
    MESSAGE_SCHEMA,
    ChangeBatch,
    schema_of_changes,
)
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, UNCHANGED

_EXTRA_FIELDS = (
    pa.field(UNCHANGED, pa.string()),
    pa.field(MESSAGE_COLUMN, pa.struct(list(MESSAGE_SCHEMA))),
)


def incomplete_schema(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the schema of a block of kind ``INCOMPLETE_CHANGES``, for a table's columns."""
    return pa.schema([*schema_of_changes(arrow_schema), *_EXTRA_FIELDS])


def is_incomplete(rows: pa.RecordBatch) -> bool:
    """Return whether rows have the columns of an incomplete block."""
    return UNCHANGED in rows.schema.names


def with_messages(changes: ChangeBatch, messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of changes, with the message of each row that omits values.

    Args:
        messages: the messages from which the changes were decoded.
    """
    rows = changes.rows
    if not is_incomplete(rows):
        return rows
    message_indices = pa.array(changes.message_indices, mask=~valid_of(rows.column(UNCHANGED)))
    row_messages = messages.take(message_indices)
    message_column = pa.StructArray.from_arrays(row_messages.columns, fields=list(MESSAGE_SCHEMA))
    return rows.append_column(_EXTRA_FIELDS[1], message_column)


def bad_records_of_refused(refused_batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return rows that the writer refused, as bad records of `BAD_RECORD_SCHEMA`.

    Args:
        refused_batches: at least one; the columns of
            `mergetree.write.fill_unchanged.RestoredRows.refused_messages`.
    """
    message, reason, _ = pa.concat_batches(list(refused_batches)).columns
    return pa.RecordBatch.from_arrays([*message.flatten(), reason], schema=BAD_RECORD_SCHEMA)
