"""Rewrites Debezium's messages of MongoDB as messages of a relational table.

Then `debezium_json` can read them. Both images are texts of extended JSON, and become objects.
``source.collection`` becomes ``source.table``, and the key's ``id`` becomes ``_id``. A delete
without a before-image gets one that is made of its key.

1. Usual messages are rewritten together, in columns.
2. The others are rewritten one by one.

Source: Debezium documentation, "MongoDB connector", Data change events; Paimon
`format/debezium/DebeziumBsonRecordParser.java`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import (
    Bools,
    Int32s,
    Int64s,
    bools_of,
    children_of,
    gathered_array,
    valid_of,
)
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.json_lines import (
    looks_like_object,
    may_be_misread,
    parse_by_halves,
    parse_objects,
)
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.debezium.bson.compiled_rewriter import CompiledRewriter
from stream_app.cdc.debezium.bson.plain_documents import (
    NO_COLUMNS,
    plain_document,
    plain_documents,
)
from stream_app.cdc.debezium.bson.typed_values import ColumnValueError, TypedColumn
from stream_app.cdc.debezium.schema_envelopes import split_envelopes, split_messages
from stream_app.cdc.json_message import (
    JsonNumber,
    cell_of,
    check_once,
    json_text,
    load_document,
    text_of,
)

KEY = "_id"
_KEY_FIELD = "id"
_SCALAR_KEY = rf'^\{{"{KEY}":(?:"[^"\\\x00-\x1f]*"|-?(?:0|[1-9][0-9]*))\}}$'
"""The document of a key that is a text or a whole number."""
_NAMES = ("connector", "db", "collection")
_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("op", "before", "after")),
        ("source", pa.struct([*((name, pa.string()) for name in _NAMES), ("ts_ms", pa.int64())])),
    ]
)
_KEY_FIELDS = pa.schema([(_KEY_FIELD, pa.string())])
CHANGE_OPS = pa.array(["c", "r", "u", "d"])
_ENVELOPE = frozenset({"op", "before", "after", "source"})


@dataclass(frozen=True, slots=True)
class PlainMessages:
    """The rewritten form of n messages.

    Attributes:
        values, keys: binary [n]; null for a tombstone, for a missing key, or if it is unreadable.
        unreadable_reasons: index of a message → why it cannot be rewritten.
    """

    values: pa.Array
    keys: pa.Array
    unreadable_reasons: dict[int, str]

    def with_keys_and_values(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages with these keys and values in place of their own."""
        for name, column in (("key", self.keys), ("value", self.values)):
            column_index = messages.schema.get_field_index(name)
            if column_index >= 0:
                messages = messages.set_column(column_index, pa.field(name, pa.binary()), column)
        return messages


def plain_messages(
    messages: pa.RecordBatch,
    typed_columns: Mapping[str, TypedColumn] = NO_COLUMNS,
    compiled_rewriter: CompiledRewriter | None = None,
) -> PlainMessages:
    """Rewrite messages of `MESSAGE_SCHEMA`; the key may be left out.

    Args:
        typed_columns: the table's columns that are not STRING, by name.
        compiled_rewriter: machine code, which rewrites usual messages.
    """
    count = messages.num_rows
    keys = messages.column("key") if "key" in messages.schema.names else pa.nulls(count)
    keys = _plain_keys(keys.cast(pa.binary()), typed_columns)
    rewriter = _MessageRewriter(keys, typed_columns, compiled_rewriter)
    for group in split_messages(messages):
        rewriter.rewrite(group.payloads, group.message_indices)
    values = gathered_array(rewriter.parts, count, pa.binary())
    return PlainMessages(values, keys, rewriter.unreadable_reasons)


def _may_be_parsed(values: pa.Array) -> Bools:
    """Return the mask of values to parse together: bool [n]. The others are judged one by one."""
    may_misread = are_too_deep(values) | may_be_misread(values, has_decimals=False)
    return looks_like_object(values) & ~may_misread


@dataclass(slots=True)
class _MessageRewriter:
    """A rewriter that replaces the extended JSON in messages by plain JSON."""

    keys: pa.Array
    typed_columns: Mapping[str, TypedColumn]
    compiled_rewriter: CompiledRewriter | None
    unreadable_reasons: dict[int, str] = field(default_factory=dict)
    parts: list[tuple[Int32s, pa.Array]] = field(default_factory=list)

    def rewrite(self, values: pa.Array, message_indices: Int32s) -> None:
        """Rewrite messages, binary [m]; `message_indices` have their positions."""
        if self.compiled_rewriter is not None:
            texts, is_rewritten = self.compiled_rewriter.rewrite(values)
            self.parts.append(
                (
                    message_indices[is_rewritten],
                    pa.chunked_array(texts, pa.binary()).combine_chunks(),
                )
            )
            if is_rewritten.all():
                return
            values = values.filter(pa.array(~is_rewritten))
            message_indices = message_indices[~is_rewritten]
        may_be_parsed = _may_be_parsed(values)
        self._rewrite_usual(values.filter(pa.array(may_be_parsed)), message_indices[may_be_parsed])
        self._rewrite_one_by_one(
            values.filter(pa.array(~may_be_parsed)), message_indices[~may_be_parsed]
        )

    def _rewrite_usual(self, values: pa.Array, message_indices: Int32s) -> None:
        """Step 1: rewrite the usual messages together."""
        for part, part_indices, columns in parse_by_halves(values, message_indices, _FIELDS):
            if columns is None:
                self._rewrite_one_by_one(part, part_indices)
                continue
            texts, is_suspect = _rewrite_together(
                columns, self.keys.take(pa.array(part_indices)), self.typed_columns
            )
            self.parts.append(
                (part_indices[~is_suspect], texts.filter(pa.array(~is_suspect)).cast(pa.binary()))
            )
            self._rewrite_one_by_one(part.filter(pa.array(is_suspect)), part_indices[is_suspect])

    def _rewrite_one_by_one(self, values: pa.Array, message_indices: Int32s) -> None:
        """Step 2: rewrite each of these messages."""
        keys = self.keys.take(pa.array(message_indices)).to_pylist()
        texts: dict[int, bytes] = {}
        for message_index, value, key in zip(
            message_indices.tolist(), values.to_pylist(), keys, strict=True
        ):
            try:
                texts[message_index] = _rewrite_one(value, key, self.typed_columns)
            except UnreadableRecordError as problem:
                self.unreadable_reasons[message_index] = str(problem)
        part = pa.array(list(texts.values()), pa.binary())
        self.parts.append((np.array(list(texts), np.int32), part))


def _rewrite_together(
    fields: list[pa.Array], keys: pa.Array, typed_columns: Mapping[str, TypedColumn]
) -> tuple[pa.Array, Bools]:
    """Return the rewritten messages, strings [n], and the mask of those left for step 2, bool [n].

    Args:
        fields: the columns of `_FIELDS`.
    """
    op, before, after, source = fields
    connector, db, collection, time = children_of(source)
    is_suspect = ~bools_of(pc.is_in(op, CHANGE_OPS)) | ~valid_of(source)
    images = []
    for image in (before, after):
        plain_texts, is_unreadable = plain_documents(image, typed_columns)
        documents = plain_texts.cast(pa.binary()).fill_null(b"{}")
        is_suspect |= is_unreadable | ~looks_like_object(documents) | are_too_deep(documents)
        images.append(plain_texts)
    names = [_quote(name) for name in (connector, db, collection)]
    is_bare_delete = bools_of(pc.equal(op, "d")) & ~valid_of(before)
    is_suspect |= is_bare_delete & ~valid_of(keys)
    old_images = pc.if_else(pa.array(is_bare_delete), keys.cast(pa.string()), images[0])
    texts = pc.binary_join_element_wise(
        '{"before":', pc.fill_null(old_images, "null"),
        ',"after":', pc.fill_null(images[1], "null"),
        ',"source":{"connector":', names[0],
        ',"ts_ms":', pc.fill_null(time.cast(pa.string()), "null"),
        ',"db":', names[1],
        ',"table":', names[2],
        '},"op":"', op, '"}', "",
    )  # fmt: skip
    return texts, is_suspect | ~valid_of(texts)


def _quote(names: pa.Array) -> pa.Array:
    """Return names as JSON strings [n]; each distinct name is encoded once."""
    encoded_names = names.dictionary_encode()
    texts = [json.dumps(name, ensure_ascii=False) for name in encoded_names.dictionary.to_pylist()]
    return pc.fill_null(pa.array(texts, pa.string()).take(encoded_names.indices), "null")


def _rewrite_one(
    value: bytes, key: bytes | None, typed_columns: Mapping[str, TypedColumn]
) -> bytes:
    """Rewrite one message; a message without images stays as it is.

    Raises:
        UnreadableRecordError: the message is not JSON, or its images are not documents.
    """
    document = load_document(value)
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        check_once(document, frozenset(document))
        document = document["payload"]
    if document is None:
        return b"null"
    if not isinstance(document, dict):
        raise UnreadableRecordError(f"is a JSON {cell_of(document)[0].name.lower()}, not an object")
    check_once(document, _ENVELOPE)
    source = document.get("source")
    if "op" not in document or not isinstance(source, dict):
        return json_text(document).encode()  # a heartbeat, a transaction's marker, or bad
    before, after = (_image(document, name, typed_columns) for name in ("before", "after"))
    op = text_of(document, "op")
    if op == "d" and before is None:
        if key is None:
            raise UnreadableRecordError(
                f"is a delete without 'before', and its key has no {_KEY_FIELD!r}"
            )
        before = key.decode()
    names = {name: source.get(name) for name in ("connector", "ts_ms", "db")}
    names["table"] = source.get("collection")
    return (
        f'{{"before":{before or "null"},"after":{after or "null"},"source":{json_text(names)},'
        f'"op":{json_text(document["op"])}}}'
    ).encode()


def _image(
    document: dict[str, Any], name: str, typed_columns: Mapping[str, TypedColumn]
) -> str | None:
    text = text_of(document, name)
    if text is None:
        return None
    try:
        return plain_document(text, typed_columns)
    except ColumnValueError:
        raise
    except UnreadableRecordError as problem:
        raise UnreadableRecordError(f"has in {name!r} a text that {problem}") from None


def _plain_keys(keys: pa.Array, typed_columns: Mapping[str, TypedColumn]) -> pa.Array:
    """Return keys as JSON with the column `_id`, or null without one: binary [n]."""
    parts: list[tuple[Int64s, pa.Array]] = []
    key_indices = np.flatnonzero(valid_of(keys))
    for group in split_envelopes(keys.drop_null(), {}):
        message_indices = key_indices[group.message_indices]
        may_be_parsed = _may_be_parsed(group.payloads)
        id_columns = parse_objects(group.payloads.filter(pa.array(may_be_parsed)), _KEY_FIELDS)
        texts = (
            pa.nulls(int(may_be_parsed.sum()), pa.string()) if id_columns is None else id_columns[0]
        )
        key_documents = pc.binary_join_element_wise(f'{{"{KEY}":', texts, "}", "")
        plain_texts, is_suspect = plain_documents(key_documents, typed_columns)
        is_scalar = bools_of(pc.match_substring_regex(plain_texts, _SCALAR_KEY)) & ~is_suspect
        key_texts = plain_texts.cast(pa.binary())
        parsed_indices = np.flatnonzero(may_be_parsed)
        parts.append(
            (message_indices[parsed_indices[is_scalar]], key_texts.filter(pa.array(is_scalar)))
        )
        is_unusual = np.ones(len(message_indices), np.bool_)
        is_unusual[parsed_indices[is_scalar]] = False
        unusual_keys = group.payloads.filter(pa.array(is_unusual)).to_pylist()
        plain_keys = [_plain_key(key, typed_columns) for key in unusual_keys]
        parts.append((message_indices[is_unusual], pa.array(plain_keys, pa.binary())))
    return gathered_array(parts, len(keys), pa.binary())


def _plain_key(key: bytes, typed_columns: Mapping[str, TypedColumn]) -> bytes | None:
    try:
        document = load_document(key)
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            document = document["payload"]
        text = document.get(_KEY_FIELD) if isinstance(document, dict) else None
        if not isinstance(text, str) or isinstance(text, JsonNumber):
            return None
        return plain_document(f'{{"{KEY}":{text}}}', typed_columns).encode()
    except UnreadableRecordError:
        return None
