"""Oracle GoldenGate's JSON messages → row changes: the format ``ogg-json``.

An update may be compressed: its images then have only the key and the changed columns. A column
that `after` lacks has its value in `before`. If both images lack a column, its value is unknown. An
update with any other unchanged column is not compressed, and a column that it lacks is missing.

Source: Oracle "Using the Pluggable Formatters", operation JSON; Paimon
`format/ogg/OggRecordParser.java` and the messages of its tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, children_of, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import Encoding, JsonKind
from stream_app.cdc.json_message import JsonNumber, check_once, image_of, text_of
from stream_app.cdc.json_records import dialect
from stream_app.cdc.json_records.changed_columns import explicit_nulls, fill_up, ops_of, rows_with
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
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, UPDATE
from stream_app.model.options.option import choice
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_OPS = {"I": CREATE, "U": UPDATE, "D": DELETE}
_TRUNCATE = "T"
_ENVELOPE = frozenset({"table", "op_type", "before", "after"})
_MARK = "_isMissing"
"""Ends the name of a field that says whether a column is missing."""
_COMPRESSED_UPDATES = "compressed-updates"
_OPTIONS = (
    TRUNCATE_OPTION,
    choice(
        _COMPRESSED_UPDATES,
        "Effect of a column that neither image of a compressed update has: the record is bad, or "
        "the column is null, which merge-engine = partial-update takes for unchanged.",
        ("quarantine", "null"),
    ),
    *SOURCE_COLUMN_OPTIONS,
    ENCODING_OPTION,
    DECODER_OPTION,
)
_TIME = pa.schema([("op_ts", pa.string())])


@dataclass(frozen=True, slots=True)
class OggDialect(dialect.Dialect):
    """The dialect of GoldenGate, whose messages have no types.

    Attributes:
        reads_missing_as_null: whether a column that both images of an update lack counts as null.
    """

    reads_missing_as_null: bool = False

    def images_of(self, document: dict[str, Any]) -> dialect.DocumentImages | None:
        """See `dialect.Dialect`."""
        before, after = document.get("before"), document.get("after")
        if not all(image is None or isinstance(image, dict) for image in (before, after)):
            return None
        name_count = len(document) + len(before or ()) + len(after or ())
        op_type = document.get("op_type")
        before_images = () if before is None or op_type == "I" else (_remove_marks(before),)
        if after is None or op_type == "D":
            return dialect.DocumentImages(before_images, (), name_count)
        whole_image = {**(before_images[0] if before_images else {}), **_remove_marks(after)}
        return dialect.DocumentImages(before_images, (whole_image,), name_count)

    def described_table(
        self, document: dict[str, Any], _key: Any, _options: MappingOptions
    ) -> SourceTable | None:
        """See `dialect.Dialect`."""
        images = [document.get(name) for name in ("after", "before")]
        names = [
            name for image in images if isinstance(image, dict) for name in _remove_marks(image)
        ]
        return untyped_table(names, document.get("primary_keys"))

    def fields(
        self, table: dialect.DialectTable, json_kinds: Sequence[JsonKind]
    ) -> ParsedFields | None:
        """See `dialect.Dialect`."""
        row_fields = ParsedFields(table.readings, json_kinds)
        return ParsedFields.of_texts("table", "op_type", before=row_fields, after=row_fields)

    def parsed_records(
        self,
        messages: dialect.ParsedMessages,
        table: dialect.DialectTable,
        json_kinds: Sequence[JsonKind],
    ) -> dialect.ParsedRecords:
        """See `dialect.Dialect`."""
        name, op_type, before, after = messages.columns
        ops = ops_of(op_type, _OPS)
        is_update, is_delete = ops == UPDATE, ops == DELETE
        is_suspect = ops == 0
        is_suspect |= ~is_delete & ~valid_of(after)
        is_suspect |= (is_update | is_delete) & ~valid_of(before)
        is_suspect[rows_with(messages.values, _MARK.encode())] = True
        before_columns = children_of(before)
        for reading, column in zip(table.readings, before_columns, strict=True):
            if reading.is_key:
                is_suspect |= is_update & ~valid_of(column)
        after_columns, is_unclear = self._complete_after_images(
            messages, is_update & ~is_suspect, table
        )
        images = Images(
            ops=ops,
            has_before=is_update | is_delete,
            has_after=~is_delete,
            json_kinds=json_kinds,
            before=before_columns,
            after=after_columns,
            is_suspect=is_suspect | is_unclear,
            table_names=(name,) if table.reads_tables else (),
        )
        return dialect.ParsedRecords(images)

    def _complete_after_images(
        self, messages: dialect.ParsedMessages, is_update: Bools, table: dialect.DialectTable
    ) -> tuple[list[pa.Array], Bools]:
        """Complete the after-images of updates, and mark the updates that lack a column."""
        *_, before, after = messages.columns
        before_columns, after_columns = children_of(before), children_of(after)
        is_unclear: Bools = np.zeros(len(is_update), np.bool_)
        omits_value: Bools = np.zeros(len(is_update), np.bool_)
        for column in after_columns:
            omits_value |= ~valid_of(column)
        omits_value &= is_update
        if not omits_value.any():
            return after_columns, is_unclear
        if messages.nulls is not None:  # where both images lack a column, others are compared
            omits_value &= _is_omitted_by_both(before_columns, after_columns, messages.nulls)

        def after_of(document: Any, message_index: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
            before, after = document["before"], document["after"]
            is_unclear[message_index] |= not self.reads_missing_as_null and _omits_values(
                before, after, table
            )
            yield message_index, after

        names = [reading.name for reading in table.readings]
        nulls, unreadable_indices = explicit_nulls(
            messages.values, np.flatnonzero(omits_value), names, after_of
        )
        is_unclear[unreadable_indices] = True
        if messages.nulls is not None:
            nulls = list(messages.nulls["after"])
        # Only updates are completed: elsewhere a null is a value.
        is_other = pa.array(~is_update)
        before_columns = [
            pc.if_else(is_other, pa.scalar(None, column.type), column) for column in before_columns
        ]
        return fill_up(after_columns, before_columns, nulls), is_unclear

    def read(
        self, document: dict[str, Any], _key: bytes | None, table: dialect.DialectTable
    ) -> dialect.Change | dialect.Truncate | dialect.NoRow:
        """See `dialect.Dialect`."""
        check_once(document, _ENVELOPE)
        name, op_type = text_of(document, "table") or "", text_of(document, "op_type")
        if op_type == _TRUNCATE:
            return dialect.Truncate()
        if op_type is None:
            raise UnreadableRecordError("has no 'op_type'")
        if op_type not in _OPS:
            raise UnreadableRecordError(f"has the unknown op_type {op_type[:40]!r}")
        before = _image(document, "before", table)
        after = _image(document, "after", table)
        for field, image, op_types in (("before", before, "UD"), ("after", after, "IU")):
            if image is None and op_type in op_types:
                raise UnreadableRecordError(f"has no {field!r} with op_type {op_type!r}")
        if op_type == "D":
            record = RecordImages("d", before, None)
        elif op_type == "I":
            record = RecordImages("c", None, after)
        else:
            sent_before = _remove_marks(document["before"])
            sent_after = _remove_marks(document["after"])
            if not self.reads_missing_as_null and _omits_values(sent_before, sent_after, table):
                omitted_name = _omitted_column(before or {}, after or {}, table)
                raise UnreadableRecordError(
                    f"column {omitted_name!r} is unchanged and its value was not sent (a "
                    "compressed update): let GoldenGate log all columns, or set "
                    "source.ogg.compressed-updates = 'null'"
                )
            record = RecordImages("u", before, _merge_images(before or {}, after or {}, table))
        return dialect.Change((record,), name)


def _is_omitted_by_both(
    before_columns: Sequence[pa.Array],
    after_columns: Sequence[pa.Array],
    nulls: Mapping[str, Sequence[Int64s]],
) -> Bools:
    """Mark the messages whose images both lack the same column."""
    lacks_any: Bools = np.zeros(len(after_columns[0]), np.bool_)
    for before, after, *null_rows in zip(
        before_columns, after_columns, nulls["before"], nulls["after"], strict=True
    ):
        lacks_column = ~(valid_of(before) | valid_of(after))
        for rows in null_rows:
            lacks_column[rows] = False
        lacks_any |= lacks_column
    return lacks_any


def _merge_images(before: Image, after: Image, table: dialect.DialectTable) -> Image:
    for name in sorted(table.keys):
        if before.get(name, NULL_CELL)[0] is JsonKind.NULL:
            raise UnreadableRecordError(
                "is an update, and which row it changes is not certain: 'before' lacks "
                f"{name} of the primary key"
            )
    return {**before, **after}


def _omitted_column(
    before: Mapping[str, Any], after: Mapping[str, Any], table: dialect.DialectTable
) -> str:
    return min(table.columns - before.keys() - after.keys(), default="")


def _omits_values(
    before: Mapping[str, Any], after: Mapping[str, Any], table: dialect.DialectTable
) -> bool:
    """Return whether an update is compressed, and both of its images lack a column of the table."""
    if table.columns.issubset(after) or not _omitted_column(before, after, table):
        return False
    common_columns = (before.keys() & after.keys() & table.columns) - table.keys
    return not any(_is_same(before[name], after[name]) for name in common_columns)


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values of an update's images are certainly the same.

    Numbers compare by value, because 1 and 1.0 are the same. A `JsonNumber` is a string in Python,
    and must not equal a text. Booleans, arrays and objects never count as the same: then the update
    counts as compressed and is refused, which is safe.
    """
    if isinstance(left, JsonNumber) and isinstance(right, JsonNumber):
        return float(left) == float(right)
    if isinstance(left, JsonNumber) or isinstance(right, JsonNumber):
        return False
    if isinstance(left, int | float) and isinstance(right, int | float):
        return type(left) is not bool and type(right) is not bool and float(left) == float(right)
    return isinstance(left, str | None) and isinstance(right, str | None) and left == right


def _image(document: dict[str, Any], field: str, table: dialect.DialectTable) -> Image | None:
    value = document.get(field)
    if isinstance(value, dict) and any(name.endswith(_MARK) for name in value):
        check_once(value, frozenset(name for name in value if name.endswith(_MARK)))
        value = _remove_marks(value)
    return image_of(value, field, table.columns)


def _remove_marks(image: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove GoldenGate's marks, and the columns that they mark as missing, from an image."""
    if not any(name.endswith(_MARK) for name in image):
        return image
    return {
        name: value
        for name, value in image.items()
        if not name.endswith(_MARK) and image.get(f"{name}{_MARK}") not in (True, "true")
    }


def _named_origins(columns: Sequence[pa.Array]) -> NamedOrigins:
    [name] = columns
    # Without a dot there is no database; the text before the last dot is a whole name.
    database = pc.replace_substring_regex(name, r"\.?[^.]*$", "")
    table = pc.replace_substring_regex(name, r"^.*\.", "")
    return NamedOrigins(database, table, np.ones(len(name), np.bool_))


_ORIGINS = OriginRule(pa.schema([("table", pa.string())]), _named_origins)


OGG_JSON = DialectDeclaration(
    name="ogg-json",
    section="ogg",
    introduction='for example `ogg."compressed-updates" = "null"`. '
    "[Other formats](setup/formats.md#goldengate) "
    "describes how the messages are read.",
    options=_OPTIONS,
    make_dialect=lambda options: OggDialect(
        reads_missing_as_null=options.values[_COMPRESSED_UPDATES] == "null"
    ),
    default_encoding_of=partial(texts_and_numbers, binary=Encoding.BASE64),
    find_origins=_ORIGINS.origins,
    find_change_times=partial(change_times, _TIME, lambda columns: parse_times_ms(columns[0])),
    telltale_fields=(frozenset({"table", "op_type"}),),
).declaration()
