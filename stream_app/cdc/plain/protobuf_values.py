"""Decodes one Protobuf message with Google's library into the JSON that the slow path reads.

Its verdict on the validity of a message's bytes is final.

Source: Protobuf's "ProtoJSON Format".
"""

from __future__ import annotations

from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.wire.protobuf.protobuf_fields import (
    FieldKind,
    ProtobufField,
    protobuf_fields_of,
)

_NANOS_OF_SECOND = 10**9
_SHOWN_LENGTH_MAX = 120


def protobuf_document(message_class: Any, body: bytes, schema_number: int) -> dict[str, Any]:
    """Return the fields of a message, as values that JSON has.

    Args:
        message_class: Google's class of the message.
        schema_number: the number of the schema, for the error.

    Raises:
        UnreadableRecordError: the bytes are not a message of the class.
    """
    from google.protobuf import json_format  # noqa: PLC0415

    message = message_class()
    try:
        message.ParseFromString(body)
        _check_values(message)
        _put_defaults(message)
        document: dict[str, Any] = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    except UnreadableRecordError as problem:
        raise UnreadableRecordError(
            f"is not Protobuf of schema {schema_number}: {problem}"
        ) from None
    except Exception as error:  # each fault of the bytes has an exception of its own
        error_text = f"{type(error).__name__}: {error}"[:_SHOWN_LENGTH_MAX]
        raise UnreadableRecordError(
            f"is not Protobuf of schema {schema_number}: {error_text}"
        ) from None
    for field in protobuf_fields_of(message_class.DESCRIPTOR):
        if field.name in document:
            document[field.name] = _plain_value(field, message, document[field.name])
        elif field.has_presence:
            document[field.name] = None
    return document


def _check_values(message: Any) -> None:
    """Check that the library keeps every value of a field; recurses into messages within.

    Raises:
        UnreadableRecordError: a value has another type than in the schema, or an enum of proto2
            has no such number; or a text is not UTF-8.
    """
    from google.protobuf import unknown_fields  # noqa: PLC0415
    from google.protobuf.message import Message  # noqa: PLC0415

    declared_fields = message.DESCRIPTOR.fields_by_number
    for lost_field in unknown_fields.UnknownFieldSet(message):
        if lost_field.field_number in declared_fields:
            name = declared_fields[lost_field.field_number].name
            raise UnreadableRecordError(f"the field {name!r} has a value that its type lacks")
    for field, value in message.ListFields():
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        items = value.values() if is_map else value if field.is_repeated else (value,)
        for item in items:
            if isinstance(item, Message):
                _check_values(item)
            elif field.type == field.TYPE_STRING and isinstance(item, bytes):
                raise UnreadableRecordError(f"the text of {field.name!r} is not UTF-8")


def _put_defaults(message: Any) -> None:
    """Give the defaults of proto2 to a message that lacks their fields."""
    for field in message.DESCRIPTOR.fields:
        has_default = not field.is_repeated and field.has_presence and field.has_default_value
        if has_default and field.containing_oneof is None and not message.HasField(field.name):
            setattr(message, field.name, field.default_value)


def _plain_value(field: ProtobufField, message: Any, json_value: Any) -> Any:
    """Return a value as `protobuf_connect_field` describes it.

    ProtoJSON has text for numbers of 64 bits.
    """
    if field.kind is FieldKind.TIMESTAMP:
        value = getattr(message, field.name)
        return value.seconds * _NANOS_OF_SECOND + value.nanos
    is_whole = (field.inner or field).kind.avro == "long"
    return int(json_value) if is_whole and isinstance(json_value, str) else json_value
