"""Canal's flat messages → row changes: the format ``canal-json``.

A message holds the rows of one statement in `data`. In an UPDATE, `old` has the previous values of
the changed columns, row by row. All values are text or null. Messages of the same shape are parsed
in columns:

1. Parse all messages. Each has a list of rows, and a list of their previous values.
2. Concatenate the rows of all messages, and pair each row with its previous values.
3. Convert the values of ENUM, SET, BIT and geometry columns.

Source: Canal `protocol/FlatMessage.java`; Paimon `format/canal/CanalRecordParser.java` and the
messages of its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s, bools_of, children_of, valid_of, values_at
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.canal.mysql_types import conversion, converted
from stream_app.cdc.column_drift import DriftReaction
from stream_app.cdc.columns.column_reading import (
    ColumnReading,
    Encoding,
    Family,
    JsonKind,
    family_of,
)
from stream_app.cdc.ddl_messages import text_at
from stream_app.cdc.ddl_text import DdlText
from stream_app.cdc.json_message import cell_of, check_once, image_of, text_of
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.changed_columns import filled_up, nulls_behind, ops_of, sent_nulls
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.description import untyped
from stream_app.cdc.json_records.dialect_format import DialectFormat
from stream_app.cdc.json_records.message_fields import ParsedFields, text_reading
from stream_app.cdc.json_records.options import (
    COLUMN_OPTIONS,
    ENCODING_OPTION,
    MISSING_COLUMNS,
    TRUNCATE_OPTION,
)
from stream_app.cdc.json_records.origins import OriginAndTime, OriginFields, change_times
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.record_images import Image, RecordImages
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, UPDATE
from stream_app.cdc.source_tables import table_name
from stream_app.cdc.source_types.mysql import mysql_type
from stream_app.cdc.source_types.stored_times import stored_type
from stream_app.model.schema.data_type import DataType, TypeRoot
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_DDL = frozenset({"CREATE", "ALTER", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX"})
_NO_ROWS = _DDL | {"QUERY", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"}
_ENVELOPE = frozenset({"database", "table", "type", "isDdl", "data", "old"})
_TYPES = "mysqlType"
"""The field of the columns' types: read only where the table has a column that they concern."""
_OPTIONS = (TRUNCATE_OPTION, *COLUMN_OPTIONS, ENCODING_OPTION, DECODER_OPTION)
OPS = {"INSERT": CREATE, "ROW": CREATE, "UPDATE": UPDATE, "DELETE": DELETE}


@dataclass(frozen=True, slots=True)
class CanalDialect(dialect.Dialect):
    """The dialect of Canal, whose messages have MySQL's own types."""

    schema_marker: bytes = b'"mysqlType":'

    def images_of(self, document: dict[str, Any]) -> dialect.DocumentImages | None:
        """See `dialect.Dialect`."""
        kind, data = document.get("type"), document.get("data")
        old = document.get("old") if kind == "UPDATE" else None
        if not _all_objects(data) or not (old is None or _all_objects(old)):
            return None
        rows, olds = tuple(data or ()), tuple(old or ())
        names = len(document) + sum(map(len, rows)) + sum(map(len, olds))
        names += sum(
            len(types)
            for name in ("mysqlType", "sqlType")
            if isinstance(types := document.get(name), dict)
        )
        if kind == "DELETE":
            return dialect.DocumentImages(rows, (), names)
        return dialect.DocumentImages(olds, rows, names)

    def described(
        self, document: dict[str, Any], _key: Any, options: MappingOptions
    ) -> SourceTable | None:
        """See `dialect.Dialect`."""
        data, declared = document.get("data"), document.get("mysqlType")
        if document.get("isDdl") or document.get("type") not in OPS or not _all_objects(data):
            return None
        types = {
            name: stored_type(data_type, options, sends_text=True)
            for name, text in (declared.items() if isinstance(declared, dict) else ())
            if isinstance(text, str) and (data_type := mysql_type(text, options)) is not None
        }
        names = [*types, *(name for row in data or () for name in row)]
        return untyped(names, document.get("pkNames"), types)

    def fields(self, table: dialect.Table, kinds: Sequence[JsonKind]) -> ParsedFields | None:
        """See `dialect.Dialect`."""
        row = ParsedFields(table.readings, kinds)
        truth = DataType(root=TypeRoot.BOOLEAN)
        is_ddl = replace(text_reading("isDdl"), data_type=truth, arrow_type=pa.bool_())
        texts = _with_types(table)
        types = {"mysqlType": ParsedFields.of_texts(*(reading.name for reading in texts))}
        return ParsedFields(
            [*map(text_reading, ("database", "table", "type")), is_ddl],
            [*[JsonKind.STRING] * 3, JsonKind.BOOLEAN],
            objects=types if texts else {},
            lists={"data": row, "old": replace(row, is_partial=True)},
        )

    def parsed(
        self, messages: dialect.ParsedMessages, table: dialect.Table, kinds: Sequence[JsonKind]
    ) -> dialect.Parsed:
        """See `dialect.Dialect`."""
        return _images_of(messages, table, kinds)

    def read(
        self, document: dict[str, Any], _key: bytes | None, table: dialect.Table
    ) -> dialect.Change | dialect.Truncate | dialect.NoRow:
        """See `dialect.Dialect`."""
        check_once(document, _ENVELOPE | {_TYPES} if _with_types(table) else _ENVELOPE)
        kind, is_ddl = text_of(document, "type"), document.get("isDdl")
        if is_ddl not in (None, True, False):
            raise UnreadableRecordError("has an 'isDdl' that is not a truth value")
        if kind is None:
            raise UnreadableRecordError("has no 'type'")
        if is_ddl or kind in _NO_ROWS:
            return dialect.Truncate() if kind == "TRUNCATE" else dialect.NoRow()
        if kind not in OPS:
            raise UnreadableRecordError(f"has the unknown type {kind[:40]!r}")
        names = (text_of(document, name) or "" for name in ("database", "table"))
        return dialect.Change(_records(document, kind, table), table_name(*names))


def _all_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _records(document: dict[str, Any], kind: str, table: dialect.Table) -> list[RecordImages]:
    data = _images(document, "data", table)
    if not data:
        raise UnreadableRecordError(f"has no rows in 'data' with type {kind!r}")
    op = OPS[kind]
    if op == DELETE:
        return [RecordImages("d", row, None) for row in data]
    if op != UPDATE:
        return [RecordImages(chr(op), None, row) for row in data]
    old = _images(document, "old", table)
    if len(old) != len(data):
        raise UnreadableRecordError(
            f"has no 'old' for each row of 'data': {len(old)} for {len(data)}"
        )
    return [
        RecordImages("u", {**row, **before}, row) for row, before in zip(data, old, strict=True)
    ]


def _images(document: dict[str, Any], field: str, table: dialect.Table) -> list[Image]:
    """Return the rows of a list, with their values converted by their MySQL types."""
    rows = document.get(field)
    if rows is None:
        return []
    if not _all_objects(rows):
        raise UnreadableRecordError(f"has a {field!r} that is not a list of objects")
    families = {reading.name: reading.family for reading in _with_types(table)}
    types = document.get(_TYPES) if families else None
    if not (types is None or isinstance(types, dict)):
        raise UnreadableRecordError(f"has a {_TYPES!r} that is not an object")
    images = (image_of(row, field, table.columns) or {} for row in rows)
    if not types:
        return list(images)
    wanted = families.keys() & types.keys()
    check_once(types, frozenset(wanted))
    return [_converted(image, types, wanted, families) for image in images]


def _converted(
    image: Image, types: Mapping[str, Any], wanted: Iterable[str], families: Mapping[str, Family]
) -> Image:
    cells = dict(image)
    for name in wanted:
        cell, mysql_type = cells.get(name), types[name]
        if mysql_type is None:
            continue
        if cell_of(mysql_type)[0] is not JsonKind.STRING:
            raise UnreadableRecordError(f"has a 'mysqlType' of {name!r} that is not a text")
        if cell is None or cell[0] is JsonKind.NULL:
            continue
        convert = conversion(families[name], mysql_type)
        if convert is not None:
            try:
                cells[name] = (JsonKind.STRING, convert(cell[1]))
            except ValueError as problem:
                raise UnreadableRecordError(
                    f"column {name!r}: {cell[1][:80]!r} {problem} (mysqlType {mysql_type[:80]})"
                ) from None
    return cells


def _default(data_type: DataType) -> Encoding:
    match family_of(data_type):
        case Family.BINARY:
            return Encoding.LATIN_1
        case Family.DATE | Family.TIME | Family.TIMESTAMP:
            return Encoding.ISO
        case _:
            return Encoding.TEXT


def _origin_and_time(columns: Sequence[pa.Array]) -> OriginAndTime:
    database, table, kind, is_ddl = columns
    no_row = bools_of(is_ddl) | bools_of(pc.is_in(kind, pa.array(sorted(_NO_ROWS))))
    no_row &= ~bools_of(pc.equal(kind, "TRUNCATE"))
    return OriginAndTime(database, table, ~no_row)


_ORIGINS = OriginFields(
    pa.schema(
        [*((name, pa.string()) for name in ("database", "table", "type")), ("isDdl", pa.bool_())]
    ),
    _origin_and_time,
)


def _ddl_of(document: dict[str, Any]) -> DdlText | None:
    return text_at(document, "database", "sql") if document.get("isDdl") is True else None


def _has_whole_before(options: Mapping[str, str]) -> bool:
    """Return whether before-images are always whole, because the format refuses rows that lack
    columns.
    """
    return options.get(MISSING_COLUMNS) in (
        DriftReaction.STOP.value,
        DriftReaction.QUARANTINE.value,
    )


CANAL_JSON = DialectFormat(
    name="canal-json",
    section="canal",
    introduction='for example `canal.truncate = "ignore"`. '
    "[Other formats](formats.md#canal) describes how the "
    "messages are read.",
    options=_OPTIONS,
    dialect=lambda _: CanalDialect(),
    encoding=_default,
    origins=_ORIGINS.origins,
    change_times=partial(change_times, pa.schema([("es", pa.int64())]), lambda columns: columns[0]),
    has_whole_before=_has_whole_before,
    ddl_of=_ddl_of,
    signs=(frozenset({"database", "table", "type", "data", "isDdl"}),),
).declared()


def _images_of(
    messages: dialect.ParsedMessages, table: dialect.Table, kinds: Sequence[JsonKind]
) -> dialect.Parsed:
    values, texts = messages.values, _with_types(table)
    database, name, kind, is_ddl, *types, data, old = messages.columns  # step 1
    message_ops = ops_of(kind, OPS)
    odd = (message_ops == 0) | bools_of(is_ddl)
    is_update = message_ops == UPDATE
    (now, now_start, now_count), (then, then_start, then_count) = _rows(data), _rows(old)
    odd |= (now_count == 0) | (is_update & (then_count != now_count))
    is_alone = bool((now_count == 1).all())
    message = np.repeat(np.arange(len(values)), now_count)  # step 2

    def of_records(column: pa.Array) -> pa.Array:
        return column if is_alone else column.take(pa.array(message))

    ops = message_ops[message]
    has_old = (is_update & ~odd)[message]
    in_message = np.arange(len(message)) - now_start[message]
    places = np.where(has_old, then_start[message] + in_message, -1)
    before = [values_at(column, places) for column in children_of(then)]
    after = children_of(now)
    doubtful: Sequence[int] = ()
    if messages.nulls is not None:
        record_of: Int64s = np.full(len(then), -1, np.int64)
        record_of[places[has_old]] = np.flatnonzero(has_old)
        of_rows = (record_of[rows] for rows in messages.nulls["old"])
        nulls = [records[records >= 0] for records in of_rows]
    else:
        nulls, doubtful = sent_nulls(
            values,
            nulls_behind(values, is_update & ~odd, b'"old":'),
            [reading.name for reading in table.readings],
            lambda document, at: enumerate(document["old"], int(now_start[at])),
        )
    odd[list(doubtful)] = True
    is_row = valid_of(now)
    # An updated row without an object in `old` has no before-image.
    is_row &= ~has_old | np.append(valid_of(then), False)[places]
    odd[message[~is_row]] = True
    befores = filled_up(before, after, nulls)
    for place, reading in enumerate(table.readings):  # step 3
        if reading in texts:
            column = of_records(types[0].field(texts.index(reading)))
            for side in (befores, after):
                side[place], failed = converted(reading.family, column, side[place])
                odd[message[failed]] = True
    is_delete = ops == DELETE
    images = Images(
        ops=ops,
        has_before=is_delete | (ops == UPDATE),
        has_after=~is_delete,
        kinds=kinds,
        before=befores,
        after=after,
        suspects=odd[message],
        tables=(of_records(database), of_records(name)) if table.reads_tables else (),
    )
    return dialect.Parsed(images) if is_alone else dialect.Parsed(images, message, odd)


def _with_types(table: dialect.Table) -> Sequence[ColumnReading]:
    """Return the columns whose MySQL types must be read."""
    return [
        reading for reading in table.readings if reading.family in (Family.STRING, Family.BINARY)
    ]


def _rows(lists: pa.Array) -> tuple[pa.Array, Int64s, Int64s]:
    """Return the rows of n messages in one sequence, with each message's first row and row
    count.
    """
    count = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    return lists.flatten(), np.cumsum(count) - count, count
