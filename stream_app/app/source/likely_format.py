"""Recognises the format of messages by the field names that each format declares as its signs.

A starting job and ``stream-app init`` call it, to warn if the chosen format seems wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.json_message import load_document
from stream_app.cdc.schema_registry_port import URL
from stream_app.cdc.wire.wire_format import HEAD
from stream_app.message_format_registry import FORMATS

_CONFLUENT_MAGIC = b"\0"
"""The byte before the schema's id in a message of Confluent's registry."""
_DEBEZIUM_JSON, _DEBEZIUM_BSON = "debezium-json", "debezium-bson"
_DEBEZIUM_AVRO, _DEBEZIUM_JSON_SCHEMA = "debezium-avro", "debezium-json-schema"
_JSON_SCHEMA = "json-schema"


def likely_format(values: Sequence[bytes]) -> str | None:
    """Return the format that most messages show signs of, or None if too few show any.

    More than a third must show the format's signs, because heartbeats and transaction markers show
    none.
    """
    counts = Counter(filter(None, map(_format_of_message, values)))
    name, count = counts.most_common(1)[0] if counts else (None, 0)
    return name if 3 * count > len(values) else None


def is_read_by(likely_name: str, format_name: str) -> bool:
    """Return whether the chosen format may also read messages with another format's signs.

    Debezium's BSON documents look like its JSON. All messages with a registry's schema id look
    alike.
    """
    if _uses_registry(likely_name):
        return _uses_registry(format_name)
    return (likely_name, format_name) == (_DEBEZIUM_JSON, _DEBEZIUM_BSON)


def _uses_registry(name: str) -> bool:
    return any(option.key == URL for option in FORMATS[name].options)


def _format_of_message(value: bytes) -> str | None:
    """Return the format with most signs in a message, or None if it shows signs of none."""
    if value.startswith(_CONFLUENT_MAGIC):
        return _format_of_registered(value)
    try:
        document = load_document(value)
    except UnreadableRecordError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    names = document.keys() if isinstance(document, dict) else set[str]()
    signs = [
        (len(fields), declaration.name)
        for declaration in FORMATS.values()
        for fields in declaration.telltale_fields
        if fields <= names
    ]
    return max(signs)[1] if signs else None


def _format_of_registered(value: bytes) -> str:
    """Return the likely format of a message that begins with a registry's schema id."""
    if not value[HEAD.size :].startswith(b"{"):
        return _DEBEZIUM_AVRO
    is_debezium = _format_of_message(value[HEAD.size :]) == _DEBEZIUM_JSON
    return _DEBEZIUM_JSON_SCHEMA if is_debezium else _JSON_SCHEMA
