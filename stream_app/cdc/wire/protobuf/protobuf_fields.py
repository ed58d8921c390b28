"""The fields of Protobuf's messages, as the cursor reads them and as Kafka Connect describes them.

Source: Confluent's `ProtobufData.java`; Protobuf's "Well-Known Types".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any

from stream_app.cdc.source_types.connect import TIME
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.cdc.wire.avro.avro_types import AvroType

WIRE_VARINT, WIRE_64, WIRE_LENGTH, WIRE_32 = 0, 1, 2, 5
"""Wire types."""
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in (
        "Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes",
    )
)  # fmt: skip
_LITERALS = {
    "long": "int64", "boolean": "boolean", "float": "float32", "double": "float64",
    "string": "string", "bytes": "bytes", "enum": "string",
}  # fmt: skip


class FieldKind(Enum):
    """The kind of a field's bytes: its name, Avro's word for its values, its wire type."""

    INT64 = ("int64", "long", WIRE_VARINT)
    INT32 = ("int32", "long", WIRE_VARINT)
    UINT64 = ("uint64", "long", WIRE_VARINT)
    UINT32 = ("uint32", "long", WIRE_VARINT)
    SINT64 = ("sint64", "long", WIRE_VARINT)
    SINT32 = ("sint32", "long", WIRE_VARINT)
    BOOL = ("bool", "boolean", WIRE_VARINT)
    ENUM = ("enum", "enum", WIRE_VARINT)
    FIXED32 = ("fixed32", "long", WIRE_32)
    SFIXED32 = ("sfixed32", "long", WIRE_32)
    FLOAT = ("float", "float", WIRE_32)
    FIXED64 = ("fixed64", "long", WIRE_64)
    SFIXED64 = ("sfixed64", "long", WIRE_64)
    DOUBLE = ("double", "double", WIRE_64)
    STRING = ("string", "string", WIRE_LENGTH)
    BYTES = ("bytes", "bytes", WIRE_LENGTH)
    TIMESTAMP = ("timestamp", "long", WIRE_LENGTH)
    WRAPPER = ("wrapper", "", WIRE_LENGTH)
    OTHER = ("other", "", -1)
    """Repeated fields, maps and other messages: left to the reader of single messages."""

    @property
    def avro(self) -> str:
        """Avro's word for the values."""
        return str(self.value[1])

    @property
    def wire_type(self) -> int:
        """The wire type of the field."""
        return int(self.value[2])


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """A field of a message.

    Attributes:
        has_presence: whether a missing value is null; otherwise it is the type's zero.
        symbols: the names of an enum's values, by number.
        inner: the field of a wrapper's value.
        is_list: whether the field is repeated, but not a map.
        has_default: whether proto2 declares a value for messages without the field.
        choice: the name of the ``oneof`` to which the field belongs; empty without one.
    """

    name: str
    field_number: int
    kind: FieldKind
    _: KW_ONLY
    has_presence: bool
    symbols: Mapping[int, str] = field(default_factory=dict, hash=False)
    inner: ProtobufField | None = None
    is_list: bool = False
    has_default: bool = False
    choice: str = ""

    @property
    def avro_type(self) -> AvroType:
        """The values in Avro's terms."""
        attributes = {"symbols": list(self.symbols.values())} if self.symbols else {}
        return AvroType(self.kind.avro, attributes)


_KINDS = {
    1: FieldKind.DOUBLE, 2: FieldKind.FLOAT, 3: FieldKind.INT64, 4: FieldKind.UINT64,
    5: FieldKind.INT32, 6: FieldKind.FIXED64, 7: FieldKind.FIXED32, 8: FieldKind.BOOL,
    9: FieldKind.STRING, 12: FieldKind.BYTES, 13: FieldKind.UINT32, 14: FieldKind.ENUM,
    15: FieldKind.SFIXED32, 16: FieldKind.SFIXED64, 17: FieldKind.SINT32, 18: FieldKind.SINT64,
}  # fmt: skip
"""Number of a type in `FieldDescriptor` → its kind."""
_INT32_KINDS = frozenset([FieldKind.INT32, FieldKind.SINT32, FieldKind.SFIXED32])


def protobuf_fields_of(message: Any) -> Iterator[ProtobufField]:
    """Yield the fields of a message's descriptor."""
    for descriptor in message.fields:
        yield _protobuf_field(descriptor)


def _protobuf_field(descriptor: Any) -> ProtobufField:
    """Return a field; the kind `OTHER` leaves its values to the reader of single messages."""
    name, field_number = descriptor.name, descriptor.number
    is_message = descriptor.message_type is not None
    choice = descriptor.containing_oneof.name if descriptor.containing_oneof else ""
    if descriptor.is_repeated:
        is_map = is_message and descriptor.message_type.GetOptions().map_entry
        return ProtobufField(
            name, field_number, FieldKind.OTHER, has_presence=False, is_list=not is_map
        )
    if is_message:
        full_name = descriptor.message_type.full_name
        if full_name == _TIMESTAMP:
            return ProtobufField(
                name, field_number, FieldKind.TIMESTAMP, has_presence=True, choice=choice
            )
        if full_name in _WRAPPERS:
            inner_field = _protobuf_field(descriptor.message_type.fields[0])
            return ProtobufField(
                name,
                field_number,
                FieldKind.WRAPPER,
                has_presence=True,
                inner=inner_field,
                choice=choice,
            )
        return ProtobufField(name, field_number, FieldKind.OTHER, has_presence=True, choice=choice)
    field_kind = _KINDS.get(descriptor.type, FieldKind.OTHER)
    symbols: dict[int, str] = {}
    if field_kind is FieldKind.ENUM:
        for symbol in descriptor.enum_type.values:
            symbols.setdefault(symbol.number, symbol.name)
    has_default = descriptor.has_presence and bool(descriptor.has_default_value)
    return ProtobufField(
        name,
        field_number,
        field_kind,
        has_presence=descriptor.has_presence,
        symbols=symbols,
        has_default=has_default,
        choice=choice,
    )


def protobuf_connect_field(field: ProtobufField) -> ConnectField:
    """Return a field as Kafka Connect describes it.

    Every field is optional, because a later version of the schema may lack it.
    """
    value_field = field.inner or field
    if value_field.kind is FieldKind.OTHER:
        literal = "array" if value_field.is_list else "struct"
        return ConnectField(literal, "", {})
    literal = "int32" if value_field.kind in _INT32_KINDS else _LITERALS[value_field.kind.avro]
    semantic = f"{TIME}NanoTimestamp" if value_field.kind is FieldKind.TIMESTAMP else ""
    return ConnectField(literal, semantic, {})
