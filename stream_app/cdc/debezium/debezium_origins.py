"""Finds the source table of each of Debezium's JSON messages, without decoding a row.

The splitter of jobs with many tables calls it before the decoding. Each of three ways reads the
messages that the previous one leaves:

1. The search parses one message for its table. Messages with these names at the same distance from
   their end belong to this table. The search repeats this with one of the unread messages. Where
   this matches too few messages, it parses the first message of each run of similar neighbours.
2. Where the runs are too short, the fields of the unread messages are parsed in columns.
3. The remaining messages are read one by one, with a final result.

Source: Debezium documentation, "Data change events" and "New record state extraction".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import (
    Bools,
    Int32s,
    Int64s,
    bools_of,
    bytes_of,
    children_of,
    offsets_of,
    valid_of,
)
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.byte_patterns import WORD, ByteWords
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.debezium.decoding.one_record import FLAT_FIELDS, TABLE_FIELDS, origin_in
from stream_app.cdc.debezium.schema_envelopes import split_messages
from stream_app.cdc.json_message import json_text, load_document
from stream_app.cdc.json_records.origin_fields import FieldReader
from stream_app.cdc.source_tables import NO_TABLE, Origins, origins_of
from stream_app.model.source.origin import Origin

_FIELDS = pa.schema(
    [
        pa.field("op", pa.string()),
        pa.field("source", pa.struct([(name, pa.string()) for name in TABLE_FIELDS])),
        *(pa.field(name, pa.string()) for name in FLAT_FIELDS),
    ]
)
_ROW_OPS = pa.array(["c", "r", "u", "d", "t"])
_SOURCE_ENDS = (b'},"transaction":null,"op":"', b'},"op":"')
"""The texts that can follow the field `source`; a transaction block ends in the same way."""
_FLAT_TIME = "__source_ts_ms"
_TIME_FIELDS = pa.schema(
    [pa.field("source", pa.struct([("ts_ms", pa.int64())])), pa.field(_FLAT_TIME, pa.int64())]
)
_ROUNDS_MAX = 32
_WORTHWHILE_SHARE = 24
"""Way 1 goes on while a round finds at least this share of the unread messages, 1 in 24."""
_RUN_MIN = 128
"""The fewest messages of a run on average: for shorter runs a parse in columns is faster."""
_SHORT_RUNS_MAX = 3
"""The number of shorter runs that do not end the search."""


def debezium_origins(messages: pa.RecordBatch) -> Origins:
    """Return the source table of each message.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    search = _OriginSearch(messages.num_rows)
    for group in split_messages(messages):
        search.read(group.payloads, group.message_indices)
    return search.origins()


class _OriginSearch:
    """The search for the source tables of n messages, with its results so far."""

    def __init__(self, count: int) -> None:
        self._codes: Int32s = np.full(count, NO_TABLE, np.int32)
        self._tables: dict[Origin, int] = {}
        self._unassigned_reasons: dict[int, str] = {}

    def origins(self) -> Origins:
        """Return the results."""
        return Origins(
            tables=tuple(self._tables),
            codes=self._codes,
            unassigned_reasons=self._unassigned_reasons,
        )

    def read(self, values: pa.Array, message_indices: Int32s) -> None:
        """Read messages, binary [m]; `message_indices` have their indices."""
        unread_indices = np.arange(len(values))
        data = _MessageBytes(values)
        for _ in range(_ROUNDS_MAX):  # way 1
            if not len(unread_indices):
                return
            unread_count = len(unread_indices)
            unread_indices = self._assign_similar(data, values, message_indices, unread_indices)
            if _WORTHWHILE_SHARE * (unread_count - len(unread_indices)) < unread_count:
                unread_indices = self._assign_runs(data, values, message_indices, unread_indices)
                break
        if len(unread_indices):
            values = values.take(pa.array(unread_indices))
            message_indices = message_indices[unread_indices]
            is_candidate = looks_like_object(values) & ~are_too_deep(values)
            self._read_in_columns(
                values.filter(pa.array(is_candidate)), message_indices[is_candidate]
            )
            self._read_one_by_one(
                values.filter(pa.array(~is_candidate)), message_indices[~is_candidate]
            )

    def _assign_similar(
        self, data: _MessageBytes, values: pa.Array, message_indices: Int32s, unread_indices: Int64s
    ) -> Int64s:
        """Read one of the remaining messages, and return those of other tables."""
        # The sample is from the middle: numbers after the name grow, so the first may have another
        # length.
        return unread_indices[
            ~self._read_sample(
                data, values, message_indices, unread_indices, len(unread_indices) // 2
            )
        ]

    def _assign_runs(
        self, data: _MessageBytes, values: pa.Array, message_indices: Int32s, unread_indices: Int64s
    ) -> Int64s:
        """Way 1 for many tables whose messages come in runs: read the first message of each run.

        Return the messages after the runs, where the tables' messages alternate.
        """
        start = 0
        width = _RUN_MIN
        run_count = 0
        while start < len(unread_indices) and start >= _RUN_MIN * (run_count - _SHORT_RUNS_MAX):
            has_table = self._read_sample(
                data, values, message_indices, unread_indices[start : start + width], 0
            )
            run_length = len(has_table) if has_table.all() else int(np.argmin(has_table))
            start += run_length
            width = max(_RUN_MIN, 2 * run_length)
            run_count += 1
        return unread_indices[start:]

    def _read_sample(
        self,
        data: _MessageBytes,
        values: pa.Array,
        message_indices: Int32s,
        indices: Int64s,
        sample: int,
    ) -> Bools:
        """Read a sample message, and assign its table to similar ones; return their mask."""
        value = values[int(indices[sample])].as_py()
        message_index = int(message_indices[indices[sample]])
        self._read_message(value, message_index)
        code = self._codes[message_index]
        pieces = [] if code == NO_TABLE else _pieces(value, list(self._tables)[code])
        has_table = np.zeros(len(indices), np.bool_)
        if pieces:
            has_table = data.have_pieces(indices, pieces)
            self._codes[message_indices[indices[has_table]]] = code
        has_table[sample] = True
        return has_table

    def _read_in_columns(self, values: pa.Array, message_indices: Int32s) -> None:
        """Way 2: parse the messages in columns."""
        for part, part_indices, columns in parse_by_halves(values, message_indices, _FIELDS):
            if columns is None:
                self._read_one_by_one(part, part_indices)
                continue
            op, source, *flat_names = columns
            source_names = children_of(source)
            is_envelope = bools_of(pc.is_in(op, _ROW_OPS)) & _is_named(source_names[-1])
            is_flat = ~valid_of(op) & ~valid_of(source) & _is_named(flat_names[-1])
            for mask, names in ((is_envelope, source_names), (is_flat, flat_names)):
                if mask.any():
                    self._assign_tables(names, mask, part_indices)
            is_suspect = ~(is_envelope | is_flat)
            self._read_one_by_one(part.filter(pa.array(is_suspect)), part_indices[is_suspect])

    def _assign_tables(
        self, names: Sequence[pa.Array], mask: Bools, message_indices: Int32s
    ) -> None:
        database, schema, table = (column.filter(pa.array(mask)) for column in names)
        origins = origins_of(database, schema, table, {})
        codes = np.array([self._code(origin) for origin in origins.tables], np.int32)
        self._codes[message_indices[mask]] = codes[origins.codes]

    def _read_one_by_one(self, values: pa.Array, message_indices: Int32s) -> None:
        """Way 3: read messages one by one, such as heartbeats and broken JSON."""
        for message_index, value in zip(message_indices.tolist(), values.to_pylist(), strict=True):
            self._read_message(value, message_index)

    def _read_message(self, value: bytes, message_index: int) -> None:
        try:
            origin = origin_in(value)
        except UnreadableRecordError as error:
            self._unassigned_reasons[message_index] = str(error)
        else:
            self._codes[message_index] = NO_TABLE if origin is None else self._code(origin)

    def _code(self, origin: Origin) -> int:
        return self._tables.setdefault(origin, len(self._tables))


def _is_named(names: pa.Array) -> Bools:
    return bools_of(pc.greater(pc.binary_length(names), 0))


class _MessageBytes:
    """The bytes of n messages, in which eight bytes can be compared at any position."""

    def __init__(self, values: pa.Array) -> None:
        self._words = ByteWords(bytes_of(values))
        offsets = offsets_of(values)
        self._lengths, self._ends = np.diff(offsets), offsets[1:]

    def have_pieces(self, indices: Int64s, pieces: Sequence[_Piece]) -> Bools:
        """Return the mask of values at `indices` that have all the pieces: bool [len(indices)]."""
        distance_max = max(piece.distance for piece in pieces)
        has_pieces: Bools = self._lengths[indices] >= distance_max
        for piece in pieces:
            starts = self._ends[indices[has_pieces]] - piece.distance
            has_piece: Bools = np.ones(len(starts), np.bool_)
            last_shift = len(piece.text) - WORD
            for shift in (*range(0, last_shift, WORD), last_shift):
                has_piece &= self._words.occurs_at(starts + shift, piece.text[shift : shift + WORD])
            has_pieces[has_pieces] = has_piece
        return has_pieces


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text of at least eight bytes that begins `distance` bytes before a message's end."""

    text: bytes
    distance: int


def _pieces(value: bytes, origin: Origin) -> list[_Piece]:
    """Return the pieces of a message that name its table; none if one is missing or too short.

    A field's name is in quotes, and text in a row has its quotes escaped. The row comes before
    `source`. So the last occurrence of these bytes is that of the fields.
    """
    names = (origin.database, origin.schema, origin.table)
    is_flat = value.rfind(f'"__table":"{origin.table}"'.encode()) >= 0
    fields = zip(FLAT_FIELDS if is_flat else TABLE_FIELDS, names, strict=True)
    texts = [
        f'"{field}":{json.dumps(name, ensure_ascii=False)}'.encode()
        for field, name in fields
        if name
    ]
    if not is_flat:
        texts.append(next((end for end in _SOURCE_ENDS if end in value), _SOURCE_ENDS[-1]))
    pieces = [
        _Piece(text, len(value) - start) for text in texts if (start := value.rfind(text)) >= 0
    ]
    is_whole = len(pieces) == len(texts) and all(len(text) >= WORD for text in texts)
    return pieces if is_whole else []


def change_times(messages: pa.RecordBatch) -> pa.Array:
    """Return the time of each change: timestamp in ms of UTC [n]; null if the message has none.

    That is ``source.ts_ms``, flattened ``__source_ts_ms`` (``add.fields=source.ts_ms``).

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    reader = FieldReader(_TIME_FIELDS)
    for group in split_messages(messages):
        payloads = group.payloads if group.prefix else without_envelopes(group.payloads)
        reader.read(payloads, group.message_indices)
    return reader.times(messages.num_rows, _times_of)


def without_envelopes(values: pa.Array) -> pa.Array:
    """Unwrap envelopes that `split_envelopes` missed because of other blanks.

    Such an envelope becomes its payload.
    """
    is_suspect = bools_of(pc.match_substring(values, pattern=b'"payload"'))
    is_suspect &= bools_of(pc.match_substring(values, pattern=b'"schema"'))
    if not is_suspect.any():
        return values
    mask = pa.array(is_suspect)
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
    """Return the time of one message's change in ms, or None if the message has no time."""
    reader = FieldReader(_TIME_FIELDS)
    reader.read(pa.array([value], pa.binary()), np.zeros(1, np.int32))
    time_ms: int | None = _times_of(reader.parts[0][1])[0].as_py() if reader.parts else None
    return time_ms


def _times_of(columns: Sequence[pa.Array]) -> pa.Array:
    source, flat = columns
    return pc.coalesce(pc.struct_field(source, "ts_ms"), flat)
