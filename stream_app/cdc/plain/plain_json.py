"""Plain rows of JSON → row changes: the format ``json``.

Each message is an insert of its row; in a table with a primary key that is an upsert. Columns that
the value lacks can be read from the message's key.

Source: Paimon `format/json/JsonRecordParser.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import Encoding, JsonKind, parsed_row_fields
from stream_app.cdc.columns.json_lines import looks_like_object, may_be_misread, parse_objects
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.json_message import image_of, load_document
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.dialect import (
    Change,
    Dialect,
    DialectTable,
    DocumentImages,
    NoRow,
    ParsedMessages,
    ParsedRecords,
    Truncate,
)
from stream_app.cdc.json_records.dialect_description import untyped_table
from stream_app.cdc.json_records.dialect_format import DialectDeclaration
from stream_app.cdc.json_records.json_options import (
    ENCODING_OPTION,
    SOURCE_COLUMN_OPTIONS,
    texts_and_numbers,
)
from stream_app.cdc.json_records.message_fields import ParsedFields
from stream_app.cdc.plain.key_options import KEY_COLUMNS, KEY_COLUMNS_OPTION, check_key_columns
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.record_images import NULL_CELL, Image, RecordImages
from stream_app.cdc.rows.row_assembly import CREATE, DELETE
from stream_app.cdc.source_tables import Origins, origins_of
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_OPTIONS = (
    KEY_COLUMNS_OPTION,
    *SOURCE_COLUMN_OPTIONS,
    ENCODING_OPTION,
    DECODER_OPTION,
)


@dataclass(frozen=True, slots=True)
class PlainDialect(Dialect):
    """The dialect of plain rows, which have no types.

    Attributes:
        reads_deletes: whether each message is the key of a deleted row.
    """

    key_columns: frozenset[str] = frozenset()
    reads_deletes: bool = False

    @property
    def sends_keys_alone(self) -> bool:
        """Whether each message is the key of a deleted row."""
        return self.reads_deletes

    def images_of(self, document: dict[str, Any]) -> DocumentImages | None:
        """Return the whole document as the only image; key columns that it lacks are null."""
        row = {**dict.fromkeys(self.key_columns), **document} if self.key_columns else document
        befores, afters = ((row,), ()) if self.reads_deletes else ((), (row,))
        return DocumentImages(befores, afters, len(document), is_flat=True)

    def described_table(
        self, document: dict[str, Any], key: Any, _options: MappingOptions
    ) -> SourceTable | None:
        """Return the document's columns without types, and the names of the message's key."""
        return untyped_table(document, list(key) if isinstance(key, dict) else ())

    def fields(self, table: DialectTable, json_kinds: Sequence[JsonKind]) -> ParsedFields:
        """Return the table's columns, because the document itself is the row."""
        return ParsedFields(table.readings, json_kinds)

    def parsed_records(
        self, messages: ParsedMessages, table: DialectTable, json_kinds: Sequence[JsonKind]
    ) -> ParsedRecords:
        """See `dialect.Dialect`."""
        values, keys, columns = messages.values, messages.keys, messages.columns
        row = parsed_row_fields(table.readings, json_kinds)
        is_suspect: Bools = np.ones(len(values), np.bool_)
        for column in columns:
            is_suspect &= ~valid_of(column)
        if keys is not None:
            key_fields = [field for field in row if field.name in self.key_columns]
            is_suspect |= self._add_from_keys(
                keys, key_fields, columns, [field.name for field in row]
            )
        nulls = [pa.nulls(len(values), column.type) for column in columns]
        images = Images(
            ops=np.full(len(values), DELETE if self.reads_deletes else CREATE, np.uint8),
            has_before=np.full(len(values), self.reads_deletes),
            has_after=np.full(len(values), not self.reads_deletes),
            json_kinds=json_kinds,
            before=columns if self.reads_deletes else nulls,
            after=nulls if self.reads_deletes else columns,
            is_suspect=is_suspect,
            table_names=(pa.nulls(len(values), pa.string()),) if table.reads_tables else (),
        )
        return ParsedRecords(images)

    def _add_from_keys(
        self, keys: pa.Array, fields: list[pa.Field], columns: list[pa.Array], names: list[str]
    ) -> Bools:
        """Fill `columns` from the keys, and mark the messages whose key needs another reader."""
        is_unreadable = ~(looks_like_object(keys.fill_null(b"")) & valid_of(keys))
        is_unreadable |= are_too_deep(keys.fill_null(b""))
        is_unreadable |= may_be_misread(keys.fill_null(b""), has_decimals=True)
        lacks_value: Bools = np.zeros(len(keys), np.bool_)
        for field in fields:
            lacks_value |= ~valid_of(columns[names.index(field.name)])
        readable_keys = pc.if_else(pa.array(is_unreadable), pa.scalar(b"{}", pa.binary()), keys)
        parsed_columns = parse_objects(readable_keys, pa.schema(fields))
        if parsed_columns is None:
            return lacks_value
        for field, column in zip(fields, parsed_columns, strict=True):
            column_index = names.index(field.name)
            columns[column_index] = pc.coalesce(columns[column_index], column)
        return is_unreadable & lacks_value

    def read(
        self, document: dict[str, Any], key: bytes | None, table: DialectTable
    ) -> Change | Truncate | NoRow:
        """Return the row of a document; the message's key has the key columns that it lacks."""
        row = image_of(document, "record", table.columns) or {}
        cells_by_name = {**row}
        missing_columns = {
            name for name in self.key_columns if row.get(name, NULL_CELL)[0] is JsonKind.NULL
        }
        if missing_columns and key is not None:
            cells = _key_image(key, frozenset(missing_columns))
            cells_by_name |= {
                name: cell for name, cell in cells.items() if cell[0] is not JsonKind.NULL
            }
        if not row:
            raise UnreadableRecordError("has no column of the table")
        if self.reads_deletes:
            return Change((RecordImages("d", cells_by_name, None),))
        return Change((RecordImages("c", None, cells_by_name),))


def _key_image(key: bytes, columns: frozenset[str]) -> Image:
    try:
        document = load_document(key)
    except UnreadableRecordError as problem:
        raise UnreadableRecordError(f"has a key that {problem}") from None
    if not isinstance(document, dict):
        raise UnreadableRecordError("has a key that is not a JSON object")
    return image_of(document, "key", columns) or {}


def _origins(messages: pa.RecordBatch) -> Origins:
    """Return the topic's name: a plain row does not name its table."""
    no_names = pa.nulls(messages.num_rows, pa.string())
    is_row = messages.column("value").is_valid()
    topic = pc.if_else(is_row, messages.column("topic").cast(pa.string()), None)
    return origins_of(no_names, no_names, topic, {})


PLAIN_ROWS = DialectDeclaration(
    name="json",
    has_changes=False,
    section="json",
    introduction='for example `json."key-columns" = "id"`. '
    "[Other formats](setup/formats.md#plain-rows) describes how "
    "the messages are read.",
    options=_OPTIONS,
    make_dialect=lambda options: PlainDialect(options.values[KEY_COLUMNS]),
    default_encoding_of=partial(texts_and_numbers, binary=Encoding.BASE64),
    find_origins=_origins,
    check_together=partial(check_key_columns, "json", "json"),
)
PLAIN_JSON = PLAIN_ROWS.declaration()
