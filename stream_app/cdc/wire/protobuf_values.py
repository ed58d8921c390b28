"""Reads one Protobuf message by Google's library, as the JSON that the slow path takes.

The verdict on a message's bytes is final here.

Source: Protobuf's "ProtoJSON Format".
"""

from __future__ import annotations

from typing import Any

from stream_app.cdc.rows.record_images import UnreadableRecordError
from stream_app.cdc.wire.protobuf_fields import FieldKind, ProtobufField, fields_of

_NANOS = 10**9
_SHOWN_MAX = 120


def json_of(of: Any, body: bytes, number: int) -> dict[str, Any]:
    """The fields of a message, as values that JSON has.

    Args:
        of: Google's class of the message.
        number: of the schema, for the reason.

    Raises:
        UnreadableRecordError: it is no message of the class.
    """
    from google.protobuf import json_format  # noqa: PLC0415

    message = of()
    try:
        message.ParseFromString(body)
        document: dict[str, Any] = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    except Exception as error:  # each fault of the bytes has an exception of its own
        said = f"{type(error).__name__}: {error}"[:_SHOWN_MAX]
        raise UnreadableRecordError(f"is not Protobuf of schema {number}: {said}") from None
    for one in fields_of(of.DESCRIPTOR):
        if one.name in document:
            document[one.name] = _plain(one, message, document[one.name])
        elif one.has_presence:
            document[one.name] = None
    return document


def _plain(one: ProtobufField, message: Any, shown: Any) -> Any:
    """A value as `connect_field` describes it; ProtoJSON has text for numbers of 64 bits."""
    if one.kind is FieldKind.TIMESTAMP:
        value = getattr(message, one.name)
        return value.seconds * _NANOS + value.nanos
    is_whole = (one.inner or one).kind.avro == "long"
    return int(shown) if is_whole and isinstance(shown, str) else shown
