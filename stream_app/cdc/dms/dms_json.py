"""Messages of AWS Database Migration Service → row changes: the format ``aws-dms-json``.

`data` is the row. In an update it may also have the previous values, in columns with the prefix
``BI_``. Without the previous primary key it is not certain which row an update changes.

Source: AWS DMS, "Using Apache Kafka as a target" and its task setting BeforeImageSettings; Paimon
`format/dms/DMSRecordParser.java` and the messages of its tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, children_of, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, JsonKind
from stream_app.cdc.json_message import check_once, image_of, text_of
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.changed_columns import explicit_nulls, fill_up, ops_of
from stream_app.cdc.json_records.decoder_choice import DECODER_OPTION
from stream_app.cdc.json_records.dialect_description import untyped_table
from stream_app.cdc.json_records.dialect_format import DialectDeclaration
from stream_app.cdc.json_records.json_options import (
    ENCODING_OPTION,
    SOURCE_COLUMN_OPTIONS,
    TRUNCATE_OPTION,
    texts_and_numbers,
)
from stream_app.cdc.json_records.message_fields import ParsedFields
from stream_app.cdc.json_records.origin_fields import (
    NamedOrigins,
    OriginRule,
    change_times,
    parse_times_ms,
)
from stream_app.cdc.rows.images import Images
from stream_app.cdc.rows.record_images import NULL_CELL, Image, RecordImages
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, READ, UPDATE
from stream_app.cdc.source_tables import table_name
from stream_app.model.options.option import choice
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_OPS = {"load": READ, "insert": CREATE, "update": UPDATE, "delete": DELETE}
_TRUNCATE = "truncate-table"
_BEFORE = "BI_"
_ENVELOPE = frozenset({"data", "metadata"})
_METADATA = ("record-type", "operation", "schema-name", "table-name")
_TIME_NAMES = ("commit-timestamp", "timestamp")
_UPDATE_KEYS = "update-keys"
_OPTIONS = (
    TRUNCATE_OPTION,
    choice(
        _UPDATE_KEYS,
        "Effect of an update without the primary key's values before: the record is bad, or the "
        "key is taken for unchanged.",
        ("proven", "unchanged"),
    ),
    *SOURCE_COLUMN_OPTIONS,
    ENCODING_OPTION,
    DECODER_OPTION,
)


@dataclass(frozen=True, slots=True)
class DmsDialect(dialect.Dialect):
    """The dialect of DMS, whose messages have neither types nor keys with rows.

    Attributes:
        trusts_keys: whether an update without previous values keeps the primary key.
    """

    trusts_keys: bool = False

    def images_of(self, document: dict[str, Any]) -> dialect.DocumentImages | None:
        """See `dialect.Dialect`."""
        data, metadata = document.get("data"), document.get("metadata")
        if not isinstance(data, dict) or not isinstance(metadata, dict):
            return None
        name_count = len(document) + len(data) + len(metadata)
        operation = metadata.get("operation")
        if operation == "delete":
            return dialect.DocumentImages((data,), (), name_count)
        if operation != "update":
            return dialect.DocumentImages((), (data,), name_count)
        before, after = _split(data)
        return dialect.DocumentImages((before,) if before else (), (after,), name_count)

    def described_table(
        self, document: dict[str, Any], _key: Any, _options: MappingOptions
    ) -> SourceTable | None:
        """See `dialect.Dialect`."""
        data, metadata = document.get("data"), document.get("metadata")
        if not isinstance(data, dict) or not isinstance(metadata, dict):
            return None
        if metadata.get("record-type") != "data":
            return None
        is_update = metadata.get("operation") == "update"
        return untyped_table(_split(data)[1] if is_update else data, ())

    def fields(
        self, table: dialect.DialectTable, json_kinds: Sequence[JsonKind]
    ) -> ParsedFields | None:
        """Return the fields of both images; None if a column's name has an old value's prefix."""
        readings = table.readings
        if any(reading.name.startswith(_BEFORE) for reading in readings):
            return None  # each record defines by itself to which image a field belongs
        old_readings = [replace(reading, name=f"{_BEFORE}{reading.name}") for reading in readings]
        return ParsedFields.of_texts(
            data=ParsedFields([*readings, *old_readings], [*json_kinds, *json_kinds]),
            metadata=ParsedFields.of_texts(*_METADATA),
        )

    def parsed_records(
        self,
        messages: dialect.ParsedMessages,
        table: dialect.DialectTable,
        json_kinds: Sequence[JsonKind],
    ) -> dialect.ParsedRecords:
        """See `dialect.Dialect`."""
        values, (data, metadata) = messages.values, messages.columns
        record_type, operation, schema, name = children_of(metadata)
        columns = [
            _without_prefix(reading, column)
            for reading, column in zip(2 * table.readings, children_of(data), strict=True)
        ]
        ops = ops_of(operation, _OPS)
        is_update, is_delete = ops == UPDATE, ops == DELETE
        is_suspect = (ops == 0) | ~valid_of(data) | ~_is_equal(record_type, "data")
        after, old_columns = columns[: len(json_kinds)], columns[len(json_kinds) :]
        has_old, is_proven = _previous_values(table, old_columns, is_update)
        if not self.trusts_keys:
            is_suspect |= is_update & ~is_proven
        is_suspect |= ~is_update & has_old  # in other operations these are ordinary columns
        is_suspect |= is_update & ~is_proven & has_old
        before, unreadable_indices = _before_images(
            values, table, is_update & has_old & ~is_suspect, old_columns, after
        )
        is_suspect[unreadable_indices] = True
        images = Images(
            ops=ops,
            has_before=is_delete | (is_update & is_proven),
            has_after=~is_delete,
            json_kinds=json_kinds,
            before=before,
            after=after,
            is_suspect=is_suspect,
            table_names=(schema, name) if table.reads_tables else (),
        )
        return dialect.ParsedRecords(images)

    def read(
        self, document: dict[str, Any], _key: bytes | None, table: dialect.DialectTable
    ) -> dialect.Change | dialect.Truncate | dialect.NoRow:
        """See `dialect.Dialect`."""
        check_once(document, _ENVELOPE)
        metadata = document.get("metadata")
        if not isinstance(metadata, dict):
            raise UnreadableRecordError("has no object 'metadata'")
        check_once(metadata, frozenset(_METADATA))
        record_type, operation, schema, name = (text_of(metadata, field) for field in _METADATA)
        if record_type != "data":
            if record_type is None:
                raise UnreadableRecordError("has no 'record-type'")
            return dialect.Truncate() if operation == _TRUNCATE else dialect.NoRow()
        if operation is None or operation not in _OPS:
            raise UnreadableRecordError(f"has the unknown operation {str(operation)[:40]!r}")
        data = document.get("data")
        if not isinstance(data, dict):
            raise UnreadableRecordError(f"has no object 'data' with operation {operation!r}")
        return dialect.Change(
            (self._record(data, _OPS[operation], table),), table_name(schema or "", name or "")
        )

    def _record(self, data: dict[str, Any], op: int, table: dialect.DialectTable) -> RecordImages:
        """Return the images of a record.

        Raises:
            UnreadableRecordError: it is an update, and the row that it changes is uncertain.
        """
        check_once(data, frozenset(f"{_BEFORE}{name}" for name in table.columns))
        row = _cells(data, table)
        if op == DELETE:
            return RecordImages("d", row, None)
        if op != UPDATE:
            return RecordImages(chr(op), None, row)
        before, after = (_cells(image, table) for image in _split(data))
        if all(json_kind is JsonKind.NULL for json_kind, _ in before.values()):
            before = {}
        is_proven = bool(before) and all(
            before.get(name, NULL_CELL)[0] is not JsonKind.NULL for name in table.keys
        )
        if is_proven or (not table.keys and before):
            return RecordImages("u", {**after, **before}, after)
        if not self.trusts_keys or before:
            before_names = ", ".join(f"{_BEFORE}{name}" for name in sorted(table.keys))
            raise UnreadableRecordError(
                f"is an update, and which row it changes is not certain: it lacks {before_names}; "
                "let DMS send before-images (BeforeImageSettings), or set source.dms.update-keys = "
                "'unchanged'"
            )
        return RecordImages("u", None, after)


def _split(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the columns into those of the before-image and those of the after-image."""
    before = {
        name.removeprefix(_BEFORE): value
        for name, value in data.items()
        if name.startswith(_BEFORE)
    }
    return before, {name: value for name, value in data.items() if not name.startswith(_BEFORE)}


def _without_prefix(reading: ColumnReading, column: pa.Array) -> pa.Array:
    """Remove DMS's prefix 0x of hexadecimal text, which NoHexPrefix omits."""
    if reading.encoding is Encoding.HEX and pa.types.is_string(column.type):
        return pc.replace_substring_regex(column, "^0x", "")
    return column


def _cells(data: dict[str, Any], table: dialect.DialectTable) -> Image:
    image = dict(image_of(data, "data", table.columns) or {})
    for reading in table.readings:
        cell = image.get(reading.name)
        if reading.encoding is Encoding.HEX and cell and cell[0] is JsonKind.STRING:
            image[reading.name] = (JsonKind.STRING, cell[1].removeprefix("0x"))
    return image


def _is_equal(texts: pa.Array, expected_text: str) -> Bools:
    return bools_of(pc.equal(texts, expected_text))


def _previous_values(
    table: dialect.DialectTable, old_columns: Sequence[pa.Array], is_update: Bools
) -> tuple[Bools, Bools]:
    """Mark the messages with any previous value, and those with the whole previous primary key."""
    sends_any: Bools = np.zeros(len(is_update), np.bool_)
    is_proven: Bools = np.ones(len(is_update), np.bool_)
    for reading, column in zip(table.readings, old_columns, strict=True):
        is_sent = valid_of(column)
        sends_any |= is_sent
        if reading.is_key:
            is_proven &= is_sent
    return sends_any, is_proven if table.keys else sends_any.copy()


def _before_images(
    values: pa.Array,
    table: dialect.DialectTable,
    is_completed: Bools,
    old_columns: Sequence[pa.Array],
    after_columns: Sequence[pa.Array],
) -> tuple[list[pa.Array], list[int]]:
    """Return the completed before-images, and the indices of unreadable messages."""
    is_unclear: Bools = np.zeros(len(values), np.bool_)
    for old_column, after_column in zip(old_columns, after_columns, strict=True):
        is_unclear |= ~valid_of(old_column) & valid_of(after_column)
    names = [f"{_BEFORE}{reading.name}" for reading in table.readings]
    nulls, unreadable_indices = explicit_nulls(
        values,
        np.flatnonzero(is_completed & is_unclear),
        names,
        lambda document, row: ((row, document["data"]),),
    )
    return fill_up(old_columns, after_columns, nulls), unreadable_indices


def _named_origins(columns: Sequence[pa.Array]) -> NamedOrigins:
    record_type, operation, schema, table = children_of(columns[0])
    lacks_row = (
        valid_of(record_type) & ~_is_equal(record_type, "data") & ~_is_equal(operation, _TRUNCATE)
    )
    return NamedOrigins(schema, table, ~lacks_row)


def _metadata_schema(*names: str) -> pa.Schema:
    return pa.schema([("metadata", pa.struct([(name, pa.string()) for name in names]))])


def _times_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the time of the transaction's commit, or else that of DMS's message."""
    return parse_times_ms(pc.coalesce(*children_of(columns[0])))


DMS_JSON = DialectDeclaration(
    name="aws-dms-json",
    section="dms",
    introduction='for example `dms."update-keys" = "unchanged"`. '
    "[Other formats](setup/formats.md#aws-dms) describes "
    "how the messages are read.",
    options=_OPTIONS,
    make_dialect=lambda options: DmsDialect(
        trusts_keys=options.values[_UPDATE_KEYS] == "unchanged"
    ),
    default_encoding_of=partial(texts_and_numbers, binary=Encoding.HEX),
    find_origins=OriginRule(_metadata_schema(*_METADATA), _named_origins).origins,
    find_change_times=partial(change_times, _metadata_schema(*_TIME_NAMES), _times_of),
    telltale_fields=(frozenset({"data", "metadata"}),),
).declaration()
