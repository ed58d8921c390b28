"""Describes the fields of MongoDB's documents that hold documents or arrays as VARIANT.

`debezium_bson` calls it where ``json-as = variant``, because MongoDB's messages have no types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.debezium.bson.extended_json import MongoKind, mongo_kind_of
from stream_app.cdc.json_message import load_document, text_of
from stream_app.model.schema.data_type import VARIANT
from stream_app.model.source.source_table import SourceTable


def with_variants(table: SourceTable, messages: pa.Array) -> SourceTable:
    """Return the table, with VARIANT for columns that have a document or an array."""
    # A loop over the few messages by which a table is described.
    nested_names = {
        name
        for value in messages.drop_null().to_pylist()
        for document in _documents(value)
        for name, field in document.items()
        if mongo_kind_of(field) is MongoKind.NESTED
    }
    columns = (
        replace(column, data_type=VARIANT)
        if column.name in nested_names and column.name not in table.primary_keys
        else column
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def _documents(value: bytes) -> Iterator[dict[str, Any]]:
    """Yield the images of a message that are documents; empty for an unreadable message."""
    try:
        message = load_document(value)
        if isinstance(message, dict) and message.keys() == {"schema", "payload"}:
            message = message["payload"]
        if not isinstance(message, dict):
            return
        for name in ("before", "after"):
            text = text_of(message, name)
            image = None if text is None else load_document(text.encode())
            if isinstance(image, dict):
                yield image
    except UnreadableRecordError:
        return
