"""Decodes JSON behind a registry's head: any format of JSON, made once for each schema.

1. Messages are grouped by the number of their schema, and their heads are cut off.
2. The format of the group's schema decodes them.
3. Where tombstones delete, a format whose messages are keys decodes their keys by steps 1 and 2.
4. Bad records get their received bytes back.

Source: Confluent's "Wire format".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s, bytes_of, null_where, offsets_of, slices_of, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import (
    DecodedBatch,
    bad_records_with_reasons,
    join_results,
    no_changes,
    results_in_batch,
)
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.wire.bad_records_as_received import with_received_bytes
from stream_app.cdc.wire.text_keys import text_objects
from stream_app.cdc.wire.wire_format import HEAD, groups_by_value, schema_numbers_of

NO_SCHEMA = -2
"""The number of keys without a schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadedJsonFormat:
    """A format of JSON behind the head of a registry. Implements `message_format.MessageFormat`.

    Attributes:
        make: makes the format of a schema's messages; raises `UnreadableRecordError` if they cannot
            be read.
        make_deletes: makes the format of tombstones, whose values are the keys; None skips
            tombstones.
        key_name: the column of a key that is a single value; empty without one.
        schema: the schema of the rows.
        text_keys: the column of keys that are plain text; empty if keys are JSON.
    """

    make: Callable[[int], MessageFormat]
    make_deletes: Callable[[int], MessageFormat] | None
    key_name: str
    schema: pa.Schema
    text_keys: str = ""
    _formats: dict[tuple[bool, int], MessageFormat] = field(default_factory=dict, init=False)

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            SourceError: the schema registry does not answer.
            WrongSourceError: what the formats raise; or the registry refuses the login.
        """
        received_messages = messages
        if self.text_keys and "key" in messages.schema.names:
            column_index = messages.schema.get_field_index("key")
            texts = text_objects(_keys_of(messages), self.text_keys)
            messages = messages.set_column(column_index, pa.field("key", pa.binary()), texts)
        values = messages.column("value").cast(pa.binary())
        keys = _keys_of(messages)
        has_value, has_key = valid_of(values), valid_of(keys)
        value_indices = np.flatnonzero(has_value)
        tombstone_indices = (
            np.flatnonzero(~has_value & has_key) if self.make_deletes else value_indices[:0]
        )
        parts = [
            replace(
                self._bad_batch(messages, {}),
                skipped_count=messages.num_rows - len(value_indices) - len(tombstone_indices),
            ),
            *self._decode_parts(messages, values, value_indices, self.make, reads_deletes=False),
        ]
        if self.make_deletes is not None:
            parts += self._decode_parts(
                messages, keys, tombstone_indices, self.make_deletes, reads_deletes=True
            )
        joined_batch = functools.reduce(join_results, parts)
        return replace(
            joined_batch,
            bad_records=with_received_bytes(joined_batch.bad_records, received_messages),
        )

    def _decode_parts(
        self,
        messages: pa.RecordBatch,
        headed_values: pa.Array,
        chosen_indices: Int64s,
        make: Callable[[int], MessageFormat],
        *,
        reads_deletes: bool,
    ) -> Iterator[DecodedBatch]:
        """Decode messages by steps 1 to 3; yield the results of each schema.

        Args:
            headed_values: binary [n]; the values of all messages, or their keys.
            chosen_indices: int64 [m]; the messages to decode.
            make: makes the format of a schema's number.
            reads_deletes: whether the messages are tombstones.
        """
        schema_numbers = schema_numbers_of(headed_values.take(pa.array(chosen_indices)))
        if reads_deletes and self.text_keys:
            schema_numbers = np.full(len(chosen_indices), NO_SCHEMA, np.int64)
        for schema_number, indices in groups_by_value(schema_numbers):  # a loop over schemas
            message_indices = chosen_indices[indices]
            try:
                decoder = self._format(schema_number, make, reads_deletes=reads_deletes)
            except UnreadableRecordError as problem:
                reason = f"has a key that {problem}" if reads_deletes else str(problem)
                yield self._bad_batch(messages, dict.fromkeys(message_indices.tolist(), reason))
                continue
            schema_messages = (
                messages
                if len(message_indices) == messages.num_rows
                else messages.take(pa.array(message_indices))
            )
            bodies = remove_heads(headed_values.take(pa.array(message_indices)))
            if reads_deletes and self.key_name:
                bodies = _objects_of_values(bodies, self.key_name)
            decoded_batch = decoder.decode(_with_value(schema_messages, bodies))
            if not reads_deletes:
                decoded_batch = replace(decoded_batch, schemas={str(schema_number): 0})
            yield results_in_batch(decoded_batch, message_indices.astype(np.int32))

    def _bad_batch(self, messages: pa.RecordBatch, reasons: Mapping[int, str]) -> DecodedBatch:
        changes = no_changes(self.schema)
        bad_records = bad_records_with_reasons(messages, reasons)
        return DecodedBatch(changes=changes, bad_records=bad_records, skipped_count=0)

    def _format(
        self, schema_number: int, make: Callable[[int], MessageFormat], *, reads_deletes: bool
    ) -> MessageFormat:
        decoder = self._formats.get((reads_deletes, schema_number))
        if decoder is None:
            decoder = self._formats[reads_deletes, schema_number] = make(schema_number)
        return decoder


def remove_heads(messages: pa.Array) -> pa.Array:
    """Return the messages without their heads, binary [n]; a message without a head stays."""
    filled_messages = messages.fill_null(b"") if messages.null_count else messages
    has_head = schema_numbers_of(filled_messages) >= 0
    if not has_head.any():
        return messages
    offsets = offsets_of(filled_messages).astype(np.int64)
    starts = offsets[:-1] + np.where(has_head, HEAD.size, 0)
    bodies = slices_of(bytes_of(filled_messages), starts, offsets[1:])
    return null_where(bodies, ~valid_of(messages)) if messages.null_count else bodies


def without_heads(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the messages with keys and values without heads, as JSON."""
    return _with_value(messages, remove_heads(messages.column("value").cast(pa.binary())))


def _with_value(messages: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
    columns = {"value": values}
    if "key" in messages.schema.names:
        columns["key"] = remove_heads(_keys_of(messages))
    for name, column in columns.items():
        column_index = messages.schema.get_field_index(name)
        messages = messages.set_column(column_index, pa.field(name, pa.binary()), column)
    return messages


def _objects_of_values(bodies: pa.Array, name: str) -> pa.Array:
    """Return single values as objects of one field."""
    is_object = pc.starts_with(bodies, pattern=b"{")
    head = pa.scalar(b'{"%b":' % name.encode(), pa.binary())
    parts = [head, bodies, pa.scalar(b"}", pa.binary()), pa.scalar(b"", pa.binary())]
    return pc.if_else(is_object, bodies, pc.binary_join_element_wise(*parts))


def _keys_of(messages: pa.RecordBatch) -> pa.Array:
    if "key" not in messages.schema.names:
        return pa.nulls(messages.num_rows, pa.binary())
    return messages.column("key").cast(pa.binary())
