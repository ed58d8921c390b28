"""Reads keys that are plain text, as of Kafka's StringSerializer, beside values with schemas.

The text is the only column of the key. A number in it is read like a number in a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s, bytes_of, offsets_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor
from stream_app.cdc.wire.avro.avro_types import AvroType
from stream_app.cdc.wire.row_schema import SchemaKey

_ESCAPES = (b"\\", b"\\\\"), (b'"', b'\\"')
_CONTROL_ESCAPES = [(bytes([code]), b"\\u%04x" % code) for code in range(0x20)]
_CONTROL = "[\\x00-\\x1f]"


@dataclass(frozen=True, slots=True)
class _TextKeySchema:
    """The schema of keys that are plain text. Implements `row_schema.RowSchema`.

    Attributes:
        name: the name of the only column.
    """

    name: str

    @property
    def columns(self) -> Mapping[str, ConnectField]:
        """See `RowSchema`."""
        return {self.name: ConnectField("string", "", {})}

    def values(self, messages: pa.Array) -> tuple[ValueCursor, Mapping[str, AvroValues]]:
        """See `RowSchema`."""
        offsets = offsets_of(messages).astype(np.int64)
        cursor = ValueCursor(bytes_of(messages)[: offsets[-1]], offsets[1:], offsets[1:])
        indices = np.arange(len(messages))
        texts = AvroValues(
            AvroType("string"), indices, starts=offsets[:-1], lengths=np.diff(offsets)
        )
        return cursor, {self.name: texts}

    def json_of(self, message: bytes) -> bytes:
        """See `RowSchema`."""
        try:
            return json.dumps({self.name: message.decode()}).encode()
        except UnicodeDecodeError:
            raise UnreadableRecordError("is not UTF-8") from None


class TextKeyLanguage:
    """The one schema of all text keys. Implements `row_schema.SchemaLanguage`."""

    def split(self, messages: pa.Array) -> Iterator[tuple[SchemaKey, Int64s]]:
        """See `SchemaLanguage`."""
        if len(messages):
            yield (), np.arange(len(messages))

    def schema(self, schemas: Schemas, key: SchemaKey, name: str) -> _TextKeySchema:
        """See `SchemaLanguage`."""
        del schemas, key
        if not name:
            raise UnreadableRecordError("is one text, and several columns come from it")
        return _TextKeySchema(name)


def text_objects(keys: pa.Array, name: str) -> pa.Array:
    """Return keys of text as JSON objects of one field, binary [n]; null keys stay null."""
    texts = keys
    has_control = pc.any(pc.match_substring_regex(keys, _CONTROL)).as_py()
    for plain, escape in (*_ESCAPES, *(_CONTROL_ESCAPES if has_control else ())):
        texts = pc.replace_substring(texts, pattern=plain, replacement=escape)
    head = pa.scalar(b'{%b:"' % json.dumps(name).encode(), pa.binary())
    tail, nothing = (pa.scalar(text, pa.binary()) for text in (b'"}', b""))
    return pc.binary_join_element_wise(head, texts, tail, nothing)
