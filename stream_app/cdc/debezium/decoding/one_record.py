"""Reads one Debezium record, keeping the exact text of every number.

`single_decoding` calls it for the few records that do not parse in columns: broken ones, and
those with values of another kind than most records. Its errors describe the problem.

Source: Debezium `data/Envelope.java`, `transforms/ExtractNewRecordState.java`,
`pipeline/txmetadata`, `heartbeat`, and the captured messages of tests/fixtures/cdc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.column_drift import NO_DRIFT, Drift
from stream_app.cdc.json_message import (
    JsonNumber,
    cell_of,
    check_once,
    image_of,
    json_text,
    load_document,
)
from stream_app.cdc.json_records.dialect import DocumentImages, NoRow, Truncate
from stream_app.cdc.rows.record_images import RecordImages
from stream_app.cdc.source_tables import table_name
from stream_app.model.source.origin import Origin

OP_FIELD = "__op"
ADDED_PREFIX = "__"
"""The prefix of the fields that ExtractNewRecordState adds to a flattened record."""
DELETED_FIELD = "__deleted"
ROW_OPS = frozenset("crud")
HEARTBEAT_FIELDS = frozenset({"ts_ms", "ts_us", "ts_ns"})
TABLE_FIELDS = ("db", "schema", "table")
"""The names of an envelope's `source`, by `AbstractSourceInfo.java`."""
FLAT_FIELDS = tuple(f"{ADDED_PREFIX}{name}" for name in TABLE_FIELDS)
"""These names as ExtractNewRecordState adds them to a flattened record."""


@dataclass(frozen=True, slots=True)
class RowRecord(RecordImages):
    """A change of one row, and Debezium's other fields.

    Attributes:
        connector: the name of Debezium's connector, such as ``postgresql``; empty if unknown.
        table: the known names of database, schema and table, joined by dots.
        has_op: False for a flattened record without ``__op``, which counts as a create.
    """

    drift: Drift
    connector: str = ""
    table: str = ""
    has_op: bool = True


@dataclass(frozen=True, slots=True)
class EnvelopedRecord:
    """A schema envelope: the schema, its numbers as their text, and the payload's exact text."""

    schema: Any
    payload: bytes


def read_record(
    value: bytes, columns: frozenset[str], keys: frozenset[str]
) -> RowRecord | Truncate | NoRow | EnvelopedRecord:
    """Read one message with a value.

    Args:
        columns, keys: the table's columns, and its primary key if it has one.

    Raises:
        UnreadableRecordError: the message is not JSON, or not a record of Debezium.
    """
    document = load_document(value)
    if document is None:
        return NoRow()
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    if document.keys() == {"schema", "payload"}:
        check_once(document, frozenset({"schema", "payload"}))
        return EnvelopedRecord(document["schema"], json_text(document["payload"]).encode())
    has_row = not document.keys().isdisjoint(keys or columns)
    if is_envelope(document):
        check_once(document, frozenset({"op", "before", "after"}))
        return _read_envelope(document, document["op"], columns)
    if OP_FIELD not in document and _is_no_row(document, has_row=has_row):
        return NoRow()
    if not has_row and document.keys().isdisjoint({OP_FIELD, DELETED_FIELD}):
        subject = "the primary key" if keys else "a column"
        raise UnreadableRecordError(f"has neither op, before and after nor {subject} of the table")
    return _read_flattened(document, columns)


def origin_in(value: bytes) -> Origin | None:
    """Return the source table of a message, or None if the message has no row.

    Raises:
        UnreadableRecordError: the message is not a JSON object, or is a row without the name of its
            table.
    """
    document = load_document(value)
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    if document is None:
        return None
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    if is_envelope(document):
        if document["op"] == "m":
            return None
        names = _field_texts(document.get("source"), *TABLE_FIELDS)
    elif OP_FIELD not in document and _is_no_row(document, has_row=False):
        return None
    else:
        names = _field_texts(document, *FLAT_FIELDS)
    if not names[-1]:
        raise UnreadableRecordError(
            "does not name its table: it has neither source.table nor __table (flattened messages "
            "need add.fields=op,db,schema,table)"
        )
    return Origin(*names)


def _field_texts(source: Any, *names: str) -> list[str]:
    """Return the texts of the fields, empty for fields that the record lacks."""
    values = (source.get(name) if isinstance(source, dict) else None for name in names)
    return [
        value if isinstance(value, str) and not isinstance(value, JsonNumber) else ""
        for value in values
    ]


def is_envelope(document: dict[str, Any]) -> bool:
    """Return whether a message is an envelope, not a row with columns named op and source."""
    has_image = "before" in document or "after" in document
    return "op" in document and (has_image or isinstance(document.get("source"), dict))


def _read_envelope(
    document: dict[str, Any], op: Any, columns: frozenset[str]
) -> RowRecord | Truncate | NoRow:
    """Read a record with an envelope, by its op."""
    if op == "m":
        return NoRow()
    if op == "t":
        return Truncate()
    # A list or an object cannot be a member of a set.
    if not isinstance(op, str) or op not in ROW_OPS:
        raise UnreadableRecordError(f"has the unknown op {str(op)[:40]!r}")
    before = image_of(document.get("before"), "before", columns)
    after = image_of(document.get("after"), "after", columns)
    image, image_name = (before, "before") if op == "d" else (after, "after")
    if image is None:
        raise UnreadableRecordError(f"has op {op!r} and no {image_name!r}")
    connector, *names = _field_texts(document.get("source"), "connector", *TABLE_FIELDS)
    return RowRecord(op, before, after, _drift(document, columns), connector, table_name(*names))


def _read_flattened(document: dict[str, Any], columns: frozenset[str]) -> RowRecord | Truncate:
    """Read a record of ExtractNewRecordState; without ``__op`` it counts as a create."""
    check_once(document, frozenset({OP_FIELD, DELETED_FIELD}))
    op = document.get(OP_FIELD)
    has_op = op is not None
    if op is None:
        op = "c"
    if document.get(DELETED_FIELD) in ("true", True):
        op = "d"
    if op == "t":
        return Truncate()
    if not isinstance(op, str) or op not in ROW_OPS:
        raise UnreadableRecordError(f"has the unknown {OP_FIELD} {str(op)[:40]!r}")
    image = image_of(document, "record", columns)
    before, after = (image, None) if op == "d" else (None, image)
    drift = _drift(document, columns)
    table = table_name(*_field_texts(document, *FLAT_FIELDS))
    return RowRecord(op, before, after, drift, "", table, has_op or op == "d")


def _is_no_row(document: dict[str, Any], *, has_row: bool) -> bool:
    """Return whether a message is a heartbeat, marker, schema change or logical message."""
    fields = document.keys()
    return (
        {"ts_ms"} <= fields <= HEARTBEAT_FIELDS
        or fields >= {"status", "id", "event_count", "data_collections"}
        or fields >= {"ddl", "databaseName"}
        or (document.get("op") == "m" and not (has_row and document.get("message") is None))
    )


def _drift(document: dict[str, Any], columns: frozenset[str]) -> Drift:
    images = document_images_of(document)
    return NO_DRIFT if images is None else images.drift(columns)


def document_images_of(document: dict[str, Any]) -> DocumentImages | None:
    """Return the images of a message; None if it is not a change of rows."""
    if not ("op" in document and ("after" in document or "before" in document)):
        is_delete = document.get(DELETED_FIELD) in ("true", True) or document.get(OP_FIELD) == "d"
        befores, afters = ((document,), ()) if is_delete else ((), (document,))
        return DocumentImages(
            befores, afters, len(document), is_flat=True, ignored_prefix=ADDED_PREFIX
        )
    before, after = document.get("before"), document.get("after")
    if not all(image is None or isinstance(image, dict) for image in (before, after)):
        return None
    return DocumentImages(
        () if before is None else (before,),
        () if after is None else (after,),
        len(document) + len(before or ()) + len(after or ()),
    )
