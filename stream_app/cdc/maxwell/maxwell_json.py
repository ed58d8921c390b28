"""Maxwell's JSON messages → row changes: the format ``maxwell-json``.

`data` is the whole row. In an update, `old` holds the older values of the changed columns. Both
images are whole, because Maxwell refuses a server whose `binlog_row_image` is not FULL.

Source: Maxwell's "Data Format"; Paimon `format/maxwell/MaxwellRecordParser.java`; real messages in
tests/fixtures/cdc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, children_of, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import Encoding, JsonKind
from stream_app.cdc.ddl.ddl_messages import text_at
from stream_app.cdc.json_message import check_once, image_of, text_of
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.changed_columns import (
    explicit_nulls,
    fill_up,
    ops_of,
    rows_with_nulls_after,
)
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.dialect_description import untyped_table
from stream_app.cdc.json_records.dialect_format import DialectDeclaration
from stream_app.cdc.json_records.json_options import (
    ENCODING_OPTION,
    SOURCE_COLUMN_OPTIONS,
    texts_and_numbers,
)
from stream_app.cdc.json_records.message_fields import ParsedFields
from stream_app.cdc.json_records.origin_fields import NamedOrigins, OriginRule, change_times
from stream_app.cdc.message_format import DdlText
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.record_images import RecordImages
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, READ, UPDATE
from stream_app.cdc.source_tables import table_name
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_OPS = {"insert": CREATE, "bootstrap-insert": READ, "update": UPDATE, "delete": DELETE}
_NO_ROW_TYPES = ("bootstrap-start", "bootstrap-complete")
_DDL_PREFIXES = ("table-", "database-")
_OWN_TABLE = ("maxwell", "bootstrap")
"""The table in which Maxwell notes its bootstraps; Maxwell sends the rows of this table too."""
_ENVELOPE = frozenset({"database", "table", "type", "data", "old"})
_OPTIONS = (*SOURCE_COLUMN_OPTIONS, ENCODING_OPTION, DECODER_OPTION)


@dataclass(frozen=True, slots=True)
class MaxwellDialect(dialect.Dialect):
    """The dialect of Maxwell, whose messages have no types."""

    def images_of(self, document: dict[str, Any]) -> dialect.DocumentImages | None:
        """See `dialect.Dialect`."""
        data, old = document.get("data"), document.get("old")
        if not isinstance(data, dict) or not (old is None or isinstance(old, dict)):
            return None
        name_count = len(document) + len(data) + len(old or ())
        if document.get("type") == "delete":
            return dialect.DocumentImages((data,), (), name_count)
        return dialect.DocumentImages(() if old is None else (old,), (data,), name_count)

    def described_table(
        self, document: dict[str, Any], key: Any, _options: MappingOptions
    ) -> SourceTable | None:
        """See `dialect.Dialect`."""
        data = document.get("data")
        if document.get("type") not in _OPS or not isinstance(data, dict):
            return None
        return untyped_table(data, document.get("primary_key_columns") or _key_names(key))

    def fields(
        self, table: dialect.DialectTable, json_kinds: Sequence[JsonKind]
    ) -> ParsedFields | None:
        """See `dialect.Dialect`."""
        row_fields = ParsedFields(table.readings, json_kinds)
        old = replace(row_fields, is_partial=True)
        return ParsedFields.of_texts("database", "table", "type", data=row_fields, old=old)

    def parsed_records(
        self,
        messages: dialect.ParsedMessages,
        table: dialect.DialectTable,
        json_kinds: Sequence[JsonKind],
    ) -> dialect.ParsedRecords:
        """See `dialect.Dialect`."""
        values = messages.values
        database, name, message_type, data, old = messages.columns
        ops = ops_of(message_type, _OPS)
        is_update = ops == UPDATE
        after = children_of(data)
        has_old = valid_of(old)
        unreadable_indices: Sequence[int] = ()
        if messages.nulls is not None:
            nulls = messages.nulls["old"]
        else:
            nulls, unreadable_indices = explicit_nulls(
                values,
                rows_with_nulls_after(values, is_update & has_old, b'"old":'),
                [reading.name for reading in table.readings],
                lambda document, row: ((row, document["old"]),),
            )
        is_suspect = (ops == 0) | ~valid_of(data) | (is_update != has_old) | _is_own(database, name)
        is_suspect[list(unreadable_indices)] = True
        images = Images(
            ops=ops,
            has_before=is_update | (ops == DELETE),
            has_after=ops != DELETE,
            json_kinds=json_kinds,
            before=fill_up(children_of(old), after, nulls),
            after=after,
            is_suspect=is_suspect,
            table_names=(database, name) if table.reads_tables else (),
        )
        return dialect.ParsedRecords(images)

    def read(
        self, document: dict[str, Any], _key: bytes | None, table: dialect.DialectTable
    ) -> dialect.Change | dialect.Truncate | dialect.NoRow:
        """See `dialect.Dialect`."""
        check_once(document, _ENVELOPE)
        database, name = text_of(document, "database") or "", text_of(document, "table") or ""
        message_type = text_of(document, "type")
        if message_type is None:
            raise UnreadableRecordError("has no 'type'")
        if (
            message_type in _NO_ROW_TYPES
            or message_type.startswith(_DDL_PREFIXES)
            or (database, name) == _OWN_TABLE
        ):
            return dialect.NoRow()
        if message_type not in _OPS:
            raise UnreadableRecordError(f"has the unknown type {message_type[:40]!r}")
        data = image_of(document.get("data"), "data", table.columns)
        old = image_of(document.get("old"), "old", table.columns)
        if data is None:
            raise UnreadableRecordError(f"has no 'data' with type {message_type!r}")
        op = _OPS[message_type]
        if (op == UPDATE) != (old is not None):
            presence = "no" if old is None else "a row"
            raise UnreadableRecordError(f"has {presence} 'old' with type {message_type!r}")
        before = {**data, **(old or {})} if op in (UPDATE, DELETE) else None
        record = RecordImages(chr(op), before, None if op == DELETE else data)
        return dialect.Change((record,), table_name(database, name))


def _is_own(database: pa.Array, table: pa.Array) -> Bools:
    return bools_of(pc.and_(pc.equal(database, _OWN_TABLE[0]), pc.equal(table, _OWN_TABLE[1])))


def _named_origins(columns: Sequence[pa.Array]) -> NamedOrigins:
    database, table, message_type = columns
    lacks_row = bools_of(pc.is_in(message_type, pa.array(_NO_ROW_TYPES)))
    lacks_row |= _is_own(database, table)
    for prefix in _DDL_PREFIXES:
        lacks_row |= bools_of(pc.starts_with(message_type, prefix))
    return NamedOrigins(database, table, ~lacks_row)


_ORIGINS = OriginRule(
    pa.schema([(name, pa.string()) for name in ("database", "table", "type")]), _named_origins
)


def _ddl_of(document: dict[str, Any]) -> DdlText | None:
    message_type = document.get("type")
    is_ddl = isinstance(message_type, str) and message_type.startswith(_DDL_PREFIXES)
    return text_at(document, "database", "sql") if is_ddl else None


def _key_names(key: Any) -> list[str]:
    """Return the columns of a key, ``{"pk.id": 3}`` or ``["db", "t", [{"id": 3}]]``."""
    if isinstance(key, dict):
        return [name.removeprefix("pk.") for name in key if name.startswith("pk.")]
    if isinstance(key, list) and len(key) == 3 and isinstance(key[2], list):
        return [name for part in key[2] if isinstance(part, dict) for name in part]
    return []


MAXWELL_JSON = DialectDeclaration(
    name="maxwell-json",
    section="maxwell",
    introduction='for example `maxwell."unknown-columns" = "ignore"`. '
    "[Other formats](setup/formats.md#maxwell) "
    "describes how the messages are read.",
    options=_OPTIONS,
    make_dialect=lambda _: MaxwellDialect(),
    default_encoding_of=partial(texts_and_numbers, binary=Encoding.BASE64),
    find_origins=_ORIGINS.origins,
    # Maxwell's times are in seconds.
    find_change_times=partial(
        change_times, pa.schema([("ts", pa.int64())]), lambda columns: pc.multiply(columns[0], 1000)
    ),
    has_whole_before=lambda _: True,
    ddl_of=_ddl_of,
    telltale_fields=(frozenset({"database", "table", "type", "data"}),),
).declaration()
