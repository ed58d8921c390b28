"""Canal's flat messages → row changes: the format ``canal-json``.

A message holds the rows of one statement in `data`. In an UPDATE, `old` has the previous values of
the changed columns, row by row. All values are text or null. `canal_images` reads messages of the
same shape in columns, and this module reads the others one by one.

Source: Canal `protocol/FlatMessage.java`; Paimon `format/canal/CanalRecordParser.java` and the
messages of its tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import bools_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.canal.canal_images import OPS_OF_TYPES, images_of, typed_readings
from stream_app.cdc.canal.mysql_types import conversion
from stream_app.cdc.column_drift import DriftReaction
from stream_app.cdc.columns.column_reading import (
    Encoding,
    Family,
    JsonKind,
    family_of,
)
from stream_app.cdc.ddl.ddl_messages import text_at
from stream_app.cdc.json_message import cell_of, check_once, image_of, text_of
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.dialect_description import untyped_table
from stream_app.cdc.json_records.dialect_format import DialectDeclaration
from stream_app.cdc.json_records.json_options import (
    ENCODING_OPTION,
    MISSING_COLUMNS,
    SOURCE_COLUMN_OPTIONS,
    TRUNCATE_OPTION,
)
from stream_app.cdc.json_records.message_fields import ParsedFields, text_reading
from stream_app.cdc.json_records.origin_fields import NamedOrigins, OriginRule, change_times
from stream_app.cdc.message_format import DdlText
from stream_app.cdc.rows.record_images import Image, RecordImages
from stream_app.cdc.rows.row_assembly import DELETE, UPDATE
from stream_app.cdc.source_tables import table_name
from stream_app.cdc.source_types.mysql import mysql_type
from stream_app.cdc.source_types.stored_times import stored_type
from stream_app.model.schema.data_type import DataType, TypeRoot
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_DDL_TYPES = frozenset({"CREATE", "ALTER", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX"})
_NO_ROW_TYPES = _DDL_TYPES | {"QUERY", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"}
_ENVELOPE = frozenset({"database", "table", "type", "isDdl", "data", "old"})
_MYSQL_TYPES = "mysqlType"
"""The field with the columns' types, which is read only for `typed_readings`."""
_OPTIONS = (TRUNCATE_OPTION, *SOURCE_COLUMN_OPTIONS, ENCODING_OPTION, DECODER_OPTION)


@dataclass(frozen=True, slots=True)
class CanalDialect(dialect.Dialect):
    """The dialect of Canal, whose messages have MySQL's own types."""

    schema_marker: bytes = b'"mysqlType":'

    def images_of(self, document: dict[str, Any]) -> dialect.DocumentImages | None:
        """See `dialect.Dialect`."""
        message_type, data = document.get("type"), document.get("data")
        old = document.get("old") if message_type == "UPDATE" else None
        if not _all_objects(data) or not (old is None or _all_objects(old)):
            return None
        rows, old_rows = tuple(data or ()), tuple(old or ())
        name_count = len(document) + sum(map(len, rows)) + sum(map(len, old_rows))
        name_count += sum(
            len(types)
            for name in ("mysqlType", "sqlType")
            if isinstance(types := document.get(name), dict)
        )
        if message_type == "DELETE":
            return dialect.DocumentImages(rows, (), name_count)
        return dialect.DocumentImages(old_rows, rows, name_count)

    def described_table(
        self, document: dict[str, Any], _key: Any, options: MappingOptions
    ) -> SourceTable | None:
        """See `dialect.Dialect`."""
        data, mysql_types = document.get("data"), document.get("mysqlType")
        if (
            document.get("isDdl")
            or document.get("type") not in OPS_OF_TYPES
            or not _all_objects(data)
        ):
            return None
        types = {
            name: stored_type(data_type, options, sends_text=True)
            for name, text in (mysql_types.items() if isinstance(mysql_types, dict) else ())
            if isinstance(text, str) and (data_type := mysql_type(text, options)) is not None
        }
        names = [*types, *(name for row in data or () for name in row)]
        return untyped_table(names, document.get("pkNames"), types)

    def fields(
        self, table: dialect.DialectTable, json_kinds: Sequence[JsonKind]
    ) -> ParsedFields | None:
        """See `dialect.Dialect`."""
        row_fields = ParsedFields(table.readings, json_kinds)
        boolean = DataType(root=TypeRoot.BOOLEAN)
        is_ddl = replace(text_reading("isDdl"), data_type=boolean, arrow_type=pa.bool_())
        readings = typed_readings(table)
        types = {"mysqlType": ParsedFields.of_texts(*(reading.name for reading in readings))}
        return ParsedFields(
            [*map(text_reading, ("database", "table", "type")), is_ddl],
            [*[JsonKind.STRING] * 3, JsonKind.BOOLEAN],
            objects=types if readings else {},
            lists={"data": row_fields, "old": replace(row_fields, is_partial=True)},
        )

    def parsed_records(
        self,
        messages: dialect.ParsedMessages,
        table: dialect.DialectTable,
        json_kinds: Sequence[JsonKind],
    ) -> dialect.ParsedRecords:
        """See `dialect.Dialect`."""
        return images_of(messages, table, json_kinds)

    def read(
        self, document: dict[str, Any], _key: bytes | None, table: dialect.DialectTable
    ) -> dialect.Change | dialect.Truncate | dialect.NoRow:
        """See `dialect.Dialect`."""
        check_once(document, _ENVELOPE | {_MYSQL_TYPES} if typed_readings(table) else _ENVELOPE)
        message_type, is_ddl = text_of(document, "type"), document.get("isDdl")
        if is_ddl not in (None, True, False):
            raise UnreadableRecordError("has an 'isDdl' that is not a truth value")
        if message_type is None:
            raise UnreadableRecordError("has no 'type'")
        if is_ddl or message_type in _NO_ROW_TYPES:
            return dialect.Truncate() if message_type == "TRUNCATE" else dialect.NoRow()
        if message_type not in OPS_OF_TYPES:
            raise UnreadableRecordError(f"has the unknown type {message_type[:40]!r}")
        names = (text_of(document, name) or "" for name in ("database", "table"))
        return dialect.Change(_records(document, message_type, table), table_name(*names))


def _all_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _records(
    document: dict[str, Any], message_type: str, table: dialect.DialectTable
) -> list[RecordImages]:
    """Return the images of a message's rows.

    Raises:
        UnreadableRecordError: the rows or the old values of an update are missing.
    """
    data = _images(document, "data", table)
    if not data:
        raise UnreadableRecordError(f"has no rows in 'data' with type {message_type!r}")
    op = OPS_OF_TYPES[message_type]
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


def _images(document: dict[str, Any], field: str, table: dialect.DialectTable) -> list[Image]:
    """Return the rows of a list, with their values converted by their MySQL types."""
    rows = document.get(field)
    if rows is None:
        return []
    if not _all_objects(rows):
        raise UnreadableRecordError(f"has a {field!r} that is not a list of objects")
    families = {reading.name: reading.family for reading in typed_readings(table)}
    types = document.get(_MYSQL_TYPES) if families else None
    if not (types is None or isinstance(types, dict)):
        raise UnreadableRecordError(f"has a {_MYSQL_TYPES!r} that is not an object")
    images = (image_of(row, field, table.columns) or {} for row in rows)
    if not types:
        return list(images)
    names = families.keys() & types.keys()
    check_once(types, frozenset(names))
    return [_convert_image(image, types, names, families) for image in images]


def _convert_image(
    image: Image, types: Mapping[str, Any], names: Iterable[str], families: Mapping[str, Family]
) -> Image:
    """Return an image with texts that its columns can read, converted by their MySQL types."""
    cells = dict(image)
    for name in names:
        cell, type_text = cells.get(name), types[name]
        if type_text is None:
            continue
        if cell_of(type_text)[0] is not JsonKind.STRING:
            raise UnreadableRecordError(f"has a 'mysqlType' of {name!r} that is not a text")
        if cell is None or cell[0] is JsonKind.NULL:
            continue
        convert = conversion(families[name], type_text)
        if convert is not None:
            try:
                cells[name] = (JsonKind.STRING, convert(cell[1]))
            except ValueError as problem:
                raise UnreadableRecordError(
                    f"column {name!r}: {cell[1][:80]!r} {problem} (mysqlType {type_text[:80]})"
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


def _named_origins(columns: Sequence[pa.Array]) -> NamedOrigins:
    database, table, message_type, is_ddl = columns
    lacks_row = bools_of(pc.is_in(message_type, pa.array(sorted(_NO_ROW_TYPES))))
    lacks_row |= bools_of(is_ddl)
    lacks_row &= ~bools_of(pc.equal(message_type, "TRUNCATE"))
    return NamedOrigins(database, table, ~lacks_row)


_ORIGINS = OriginRule(
    pa.schema(
        [*((name, pa.string()) for name in ("database", "table", "type")), ("isDdl", pa.bool_())]
    ),
    _named_origins,
)


def _ddl_of(document: dict[str, Any]) -> DdlText | None:
    return text_at(document, "database", "sql") if document.get("isDdl") is True else None


def _has_whole_before(options: Mapping[str, str]) -> bool:
    """Return whether before-images are whole, because rows that lack columns are refused."""
    return options.get(MISSING_COLUMNS) in (
        DriftReaction.STOP.value,
        DriftReaction.QUARANTINE.value,
    )


CANAL_JSON = DialectDeclaration(
    name="canal-json",
    section="canal",
    introduction='for example `canal.truncate = "ignore"`. '
    "[Other formats](setup/formats.md#canal) describes how the "
    "messages are read.",
    options=_OPTIONS,
    make_dialect=lambda _: CanalDialect(),
    default_encoding_of=_default,
    find_origins=_ORIGINS.origins,
    find_change_times=partial(
        change_times, pa.schema([("es", pa.int64())]), lambda columns: columns[0]
    ),
    has_whole_before=_has_whole_before,
    ddl_of=_ddl_of,
    telltale_fields=(frozenset({"database", "table", "type", "data", "isDdl"}),),
).declaration()
