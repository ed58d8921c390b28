"""Debezium's JSON messages → the source table of each, without decoding a row.

Called by the splitter of jobs with many tables, before the decoding. Three ways, each for what the
one before leaves:

1. A whole message has a frame, which tells the table (`record_frames`).
2. A parse in columns reads the fields of the rest.
3. What cannot be read so is read message by message, which judges it.

Source: Debezium documentation, "Data change events" and "New record state extraction".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.alike.documents import json_text, load_document
from stream_app.cdc.alike.origins import FieldsRead
from stream_app.cdc.columns.arrow_buffers import Bools, bools_of, children_of, valid_of
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting import deep_ones
from stream_app.cdc.debezium.record_frames import KnownFrames, RecordFrame
from stream_app.cdc.debezium.record_reader import FLAT_FIELDS, TABLE_FIELDS, origin_in
from stream_app.cdc.debezium.schema import split_messages
from stream_app.cdc.record_images import UnreadableRecordError
from stream_app.cdc.row_assembly import MESSAGE
from stream_app.cdc.source_tables import NO_TABLE, Codes, Origins, origins_of
from stream_app.model.schema.origin import Origin

Index = npt.NDArray[np.int32]

_FIELDS = pa.schema(
    [
        pa.field("op", pa.string()),
        pa.field("source", pa.struct([(name, pa.string()) for name in TABLE_FIELDS])),
        *(pa.field(name, pa.string()) for name in FLAT_FIELDS),
    ]
)
_ROW_OPS = pa.array(["c", "r", "u", "d", "t"])
_FLAT_TIME = "__source_ts_ms"
_TIME_FIELDS = pa.schema(
    [pa.field("source", pa.struct([("ts_ms", pa.int64())])), pa.field(_FLAT_TIME, pa.int64())]
)


def debezium_origins(messages: pa.RecordBatch) -> Origins:
    """Of which source table each message tells.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    search = _Search(messages.num_rows)
    for group in split_messages(messages):
        search.take(group.payloads, group.index)
    return search.origins()


class _Search:
    """What is known of n messages so far."""

    def __init__(self, count: int) -> None:
        self._codes: Codes = np.full(count, NO_TABLE, np.int32)
        self._tables: dict[Origin, int] = {}
        self._unreadable: dict[int, str] = {}

    def origins(self) -> Origins:
        return Origins(tables=tuple(self._tables), codes=self._codes, unreadable=self._unreadable)

    def take(self, values: pa.Array, index: Index) -> None:
        """Take in messages, binary [m]; `index` has their positions."""
        frames = KnownFrames()
        frame_of_value, ops = frames.matched(values)  # way 1
        table_of_frame = np.array([*map(self._framed, frames.known), NO_TABLE], np.int32)
        codes = np.where(ops == MESSAGE, NO_TABLE, table_of_frame[frame_of_value])
        self._codes[index] = codes
        rest = codes == NO_TABLE
        if rest.any():
            values, index = values.filter(pa.array(rest)), index[rest]
            readable = looks_like_object(values) & ~deep_ones(values)
            self._parse(values.filter(pa.array(readable)), index[readable])
            self._one_by_one(values.filter(pa.array(~readable)), index[~readable])

    def _framed(self, frame: RecordFrame) -> int:
        names = [frame.source[name] or "" for name in TABLE_FIELDS]
        return self._code(Origin(*names)) if names[-1] else NO_TABLE

    def _parse(self, values: pa.Array, index: Index) -> None:
        """Way 2."""
        for some, places, columns in parse_by_halves(values, index, _FIELDS):
            if columns is None:
                self._one_by_one(some, places)
                continue
            op, source, *flat = columns
            nested = children_of(source)
            is_envelope = bools_of(pc.is_in(op, _ROW_OPS)) & _is_named(nested[-1])
            is_flat = ~valid_of(op) & ~valid_of(source) & _is_named(flat[-1])
            for chosen, names in ((is_envelope, nested), (is_flat, flat)):
                if chosen.any():
                    self._see(names, chosen, places)
            odd = ~(is_envelope | is_flat)
            self._one_by_one(some.filter(pa.array(odd)), places[odd])

    def _see(self, names: Sequence[pa.Array], chosen: Bools, index: Index) -> None:
        database, schema, table = (column.filter(pa.array(chosen)) for column in names)
        origins = origins_of(database, schema, table, {})
        codes = np.array([self._code(table) for table in origins.tables], np.int32)
        self._codes[index[chosen]] = codes[origins.codes]

    def _one_by_one(self, values: pa.Array, index: Index) -> None:
        """Way 3: heartbeats and the like, and what is no JSON."""
        for at, value in zip(index.tolist(), values.to_pylist(), strict=True):
            self._read(value, at)

    def _read(self, value: bytes, at: int) -> None:
        try:
            origin = origin_in(value)
        except UnreadableRecordError as error:
            self._unreadable[at] = str(error)
        else:
            self._codes[at] = NO_TABLE if origin is None else self._code(origin)

    def _code(self, origin: Origin) -> int:
        return self._tables.setdefault(origin, len(self._tables))


def _is_named(names: pa.Array) -> Bools:
    return bools_of(pc.greater(pc.binary_length(names), 0))


def change_times(messages: pa.RecordBatch) -> pa.Array:
    """When each change was made: timestamp in ms of UTC [n]; null: the message does not tell.

    That is ``source.ts_ms``, flattened ``__source_ts_ms`` (``add.fields=source.ts_ms``).

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    read = FieldsRead(_TIME_FIELDS)
    for group in split_messages(messages):
        payloads = group.payloads if group.prefix else _without_envelopes(group.payloads)
        read.take(payloads, group.index)
    return read.times(messages.num_rows, _millis_of)


def _without_envelopes(values: pa.Array) -> pa.Array:
    """Messages of which some have an envelope that `split_envelopes` left: other writers' blanks.

    Such an envelope becomes its payload.
    """
    suspects = bools_of(pc.match_substring(values, pattern=b'"payload"'))
    suspects &= bools_of(pc.match_substring(values, pattern=b'"schema"'))
    if not suspects.any():
        return values
    mask = pa.array(suspects)
    payloads = [_payload_of(value) for value in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(values, mask, pa.array(payloads, pa.binary()))


def _payload_of(value: bytes) -> bytes:
    try:
        document = load_document(value)
    except UnreadableRecordError:
        return value
    if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
        return value
    return json_text(document["payload"]).encode()


def time_of(value: bytes) -> int | None:
    """When the change of one message was made, in ms; None: it does not tell."""
    read = FieldsRead(_TIME_FIELDS)
    read.take(pa.array([value], pa.binary()), np.zeros(1, np.int32))
    millis: int | None = _millis_of(read.parts[0][1])[0].as_py() if read.parts else None
    return millis


def _millis_of(columns: Sequence[pa.Array]) -> pa.Array:
    source, flat = columns
    return pc.coalesce(pc.struct_field(source, "ts_ms"), flat)
