"""Takes the data out of CloudEvents in structured mode, for a format that reads it.

1. An event's attributes are single values, so its data begins at the first ``,"data":``. Where the
   data comes last, as from every known producer, it is cut out in columns.
2. Other events are read one by one, and so are those whose data the format refuses. The result of
   this step is final.
3. Bad records get their received bytes back.

`cloud_events` and `debezium_cloud_events` call it, and say what the data is.

Source: CloudEvents' "JSON Event Format", version 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, Int64s, own_bytes, slices_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import (
    DecodedBatch,
    bad_records_with_reasons,
    join_results,
    present_values,
    results_in_batch,
)
from stream_app.cdc.columns.byte_patterns import positions_of
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.json_message import check_once, load_document
from stream_app.cdc.message_format import MessageFormat, SeenTableVersion, SourceExtractor
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.wire.bad_records_as_received import bad_record_mask, with_received_bytes
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_DATA_MARKER = b',"data":'
_VERSION = "specversion"
_NAMES = frozenset([_VERSION, "data"])


class EventData(Protocol):
    """The meaning of events' data, as messages of a format. Can be pickled."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that `unwrap_together` needs, all texts."""
        ...

    def unwrap_together(
        self, data: pa.Array, attributes: Mapping[str, pa.Array]
    ) -> tuple[pa.Array, Bools]:
        """Return the messages of many events, and the mask of those to read one by one: bool [n].

        Args:
            data: JSON objects, binary [n] without nulls.
            attributes: strings [n]; null where an event lacks one.
        """
        ...

    def unwrap_one(self, event: Mapping[str, Any]) -> bytes:
        """Return the message of one event.

        Args:
            event: an event with data, as `json_message.load_document` returns it.

        Raises:
            UnreadableRecordError: the event has no such data.
        """
        ...


def unwrap_events(messages: pa.RecordBatch, event_data: EventData) -> pa.RecordBatch:
    """Return the messages within events; null where an event cannot be read."""
    return _unwrap(messages, event_data, reads_one_by_one=False)[0]


def _unwrap(
    messages: pa.RecordBatch, event_data: EventData, *, reads_one_by_one: bool
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Return the messages within events; and index → reason, for events that cannot be read.

    Args:
        reads_one_by_one: whether each event is read independently.
    """
    values, message_indices = present_values(messages)
    parts: list[tuple[Int64s, pa.Array]] = []
    is_unread: Bools = np.ones(len(values), np.bool_)
    if not reads_one_by_one and len(values):
        indices, bodies = _unwrap_together(values, event_data)  # step 1
        is_unread[indices] = False
        parts.append((message_indices[indices].astype(np.int64), bodies))
    unread_values = values.filter(pa.array(is_unread))
    single_bodies, reasons = _unwrap_one_by_one(
        unread_values, message_indices[is_unread], event_data
    )
    parts.append(single_bodies)
    body_indices: Int64s = np.full(messages.num_rows, -1, np.int64)
    start = 0
    for part_indices, bodies in parts:
        body_indices[part_indices] = start + np.arange(len(bodies))
        start += len(bodies)
    bodies = pa.concat_arrays([part for _, part in parts])
    column = bodies.take(pa.array(np.maximum(body_indices, 0), mask=body_indices < 0))
    column_index = messages.schema.get_field_index("value")
    return messages.set_column(column_index, pa.field("value", pa.binary()), column), reasons


def _unwrap_one_by_one(
    values: pa.Array, message_indices: Int32s, event_data: EventData
) -> tuple[tuple[Int64s, pa.Array], dict[int, str]]:
    """Step 2: return indices and messages of events, and index → why one is unreadable."""
    bodies: dict[int, bytes] = {}
    reasons: dict[int, str] = {}
    for message_index, value in zip(message_indices.tolist(), values.to_pylist(), strict=True):
        try:
            bodies[message_index] = event_data.unwrap_one(_event(value))
        except UnreadableRecordError as problem:
            reasons[message_index] = str(problem)
    body_indices = np.array(list(bodies), np.int64)
    return (body_indices, pa.array(list(bodies.values()), pa.binary())), reasons


def _event(value: bytes) -> dict[str, Any]:
    event = load_document(value)
    if not isinstance(event, dict) or _VERSION not in event:
        raise UnreadableRecordError("has no specversion, so it is not a CloudEvent")
    check_once(event, _NAMES)
    if event.get("data") is None:
        problem = "has its data in base64" if "data_base64" in event else "has no data"
        raise UnreadableRecordError(f"{problem}, so it is a CloudEvent without a row")
    return event


def _unwrap_together(values: pa.Array, event_data: EventData) -> tuple[Int64s, pa.Array]:
    """Step 1: return the events that are read in columns, int64 [m], and their messages.

    Four values; only the first begins with attributes alone and ends with its data::

        0  {"specversion":"1.0","data":{"a":1}}          its message is {"a":1}
        1  {"specversion":"1.0","data":{"a":1},"b":2}    ends with an attribute
        2  {"data":{"a":1},"specversion":"1.0"}          begins with its data
        3  {"specversion":"1.0","data_base64":"eyJhIjoxfQ=="}
    """
    raw, offsets = own_bytes(values)
    positions = positions_of(raw, _DATA_MARKER)
    data_starts: Int64s = np.full(len(values), -1, np.int64)
    event_indices = np.searchsorted(offsets, positions, side="right") - 1
    data_starts[event_indices[::-1]] = positions[::-1]
    body_starts = data_starts + len(_DATA_MARKER)
    ends = offsets[1:] - 1
    brace_positions = np.flatnonzero(raw == ord("{"))
    second_braces = np.searchsorted(brace_positions, offsets[:-1]) + 1
    is_candidate = (data_starts >= 0) & looks_like_object(values) & ~are_too_deep(values)
    is_candidate &= (body_starts < ends) & (second_braces < len(brace_positions))
    indices = np.flatnonzero(is_candidate)
    # No attribute before the data is an object, and the data is one.
    is_next = brace_positions[second_braces[indices]] == body_starts[indices]
    indices = indices[is_next & (raw[ends[indices] - 1] == ord("}"))]
    heads = slices_of(raw, offsets[:-1][indices], data_starts[indices] + 1)
    bodies = slices_of(raw, body_starts[indices], ends[indices])
    parsed_indices, attributes = _attributes(heads, event_data.attributes)
    bodies = (
        bodies if len(parsed_indices) == len(indices) else bodies.take(pa.array(parsed_indices))
    )
    inner_bodies, is_suspect = event_data.unwrap_together(bodies, attributes)
    if is_suspect.any():
        parsed_indices = parsed_indices[~is_suspect]
        inner_bodies = inner_bodies.filter(pa.array(~is_suspect))
    return indices[parsed_indices], inner_bodies


def _attributes(heads: pa.Array, names: tuple[str, ...]) -> tuple[Int64s, dict[str, pa.Array]]:
    """Return the indices of the heads that parse, int64 [m], and their attributes, strings [m].

    Args:
        heads: binary [n]; events up to the comma before their data.
    """
    raw, offsets = own_bytes(heads)
    closed_heads = raw.copy()
    closed_heads[offsets[1:] - 1] = ord("}")  # in place of the comma
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(closed_heads)]
    objects = pa.Array.from_buffers(pa.binary(), len(heads), buffers)
    schema = pa.schema([(name, pa.string()) for name in (_VERSION, *names)])
    parts: list[tuple[Int64s, list[pa.Array]]] = []
    for _, part_rows, columns in parse_by_halves(objects, np.arange(len(heads)), schema):
        if columns is not None:
            parts.append((part_rows, columns))
    if not parts:
        return np.empty(0, np.int64), {name: pa.array([], pa.string()) for name in names}
    rows = np.concatenate([part_rows for part_rows, _ in parts])
    columns = [
        pa.concat_arrays([columns[column_index] for _, columns in parts])
        for column_index in range(len(schema))
    ]
    has_version = np.asarray(columns[0].is_valid())
    if not has_version.all():
        rows = rows[has_version]
        columns = [column.filter(pa.array(has_version)) for column in columns]
    return rows, dict(zip(names, columns[1:], strict=True))


@dataclass(frozen=True, slots=True)
class EventFormat:
    """A format of events, whose data are messages of another one. Implements `MessageFormat`.

    Attributes:
        inner_format: the format of the messages within.
    """

    inner_format: MessageFormat
    event_data: EventData

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            SourceError: what the format within raises.
        """
        decoded_batch = self._decode_unwrapped(messages, reads_one_by_one=False)
        if not decoded_batch.bad_records.num_rows:
            return decoded_batch
        bad_indices = np.flatnonzero(bad_record_mask(messages, decoded_batch.bad_records)).astype(
            np.int32
        )
        single_results = self.decode_one_by_one(messages.take(pa.array(bad_indices)))
        decoded_batch = replace(decoded_batch, bad_records=decoded_batch.bad_records.slice(0, 0))
        joined_batch = join_results(decoded_batch, results_in_batch(single_results, bad_indices))
        return replace(
            joined_batch, bad_records=with_received_bytes(joined_batch.bad_records, messages)
        )  # step 3

    def decode_one_by_one(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each event by step 2; bad records have the bytes of the data."""
        return self._decode_unwrapped(messages, reads_one_by_one=True)

    def _decode_unwrapped(
        self, messages: pa.RecordBatch, *, reads_one_by_one: bool
    ) -> DecodedBatch:
        inner_messages, reasons = _unwrap(
            messages, self.event_data, reads_one_by_one=reads_one_by_one
        )
        decoded_batch = self.inner_format.decode(inner_messages)
        if not reasons:
            return decoded_batch
        # The format has skipped the unreadable events like tombstones.
        decoded_batch = replace(
            decoded_batch, skipped_count=decoded_batch.skipped_count - len(reasons)
        )
        return replace(
            decoded_batch,
            bad_records=pa.concat_batches(
                [decoded_batch.bad_records, bad_records_with_reasons(messages, reasons)]
            ),
        )


@dataclass(frozen=True, slots=True)
class EventSourceExtractor:
    """The functions of a `SourceExtractor` for events, which read the messages within.

    Attributes:
        inner_extractor: extracts the source's facts from these messages.
    """

    inner_extractor: SourceExtractor
    event_data: EventData

    def as_source_extractor(self) -> SourceExtractor:
        """Return the functions that the messages within can support."""
        inner_extractor = self.inner_extractor
        return SourceExtractor(
            find_origins=self.find_origins,
            describe=self.describe,
            find_versions=self.find_versions if inner_extractor.find_versions else None,
            find_change_times=(
                self.find_change_times if inner_extractor.find_change_times else None
            ),
        )

    def find_origins(self, messages: pa.RecordBatch) -> Origins:
        """See `message_format.SourceExtractor`."""
        inner_messages, reasons = _unwrap(messages, self.event_data, reads_one_by_one=False)
        origins = self.inner_extractor.find_origins(inner_messages)
        return replace(origins, unassigned_reasons={**origins.unassigned_reasons, **reasons})

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceExtractor`."""
        return self.inner_extractor.describe(unwrap_events(messages, self.event_data), options)

    def find_versions(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Sequence[SeenTableVersion]:
        """See `message_format.SourceExtractor`."""
        assert self.inner_extractor.find_versions is not None
        return self.inner_extractor.find_versions(unwrap_events(messages, self.event_data), options)

    def find_change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceExtractor`."""
        assert self.inner_extractor.find_change_times is not None
        return self.inner_extractor.find_change_times(unwrap_events(messages, self.event_data))
