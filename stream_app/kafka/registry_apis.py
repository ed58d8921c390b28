"""Requests a schema by its number, with the schemas to which it refers, from a registry.

`schema_registry` sends the requests; this module has their paths and responses. An address that
ends with ``/apis/registry/v2`` or ``v3`` is Apicurio's, and any other is Confluent's.

Source: Confluent's "Schema Registry API reference"; "REST API" of Apicurio Registry 2 and 3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from stream_app.cdc.schema_registry_port import IdKind, RegisteredSchema, SchemaKind

_REFERENCES_MAX = 200
"""The most schemas to which one schema refers, directly or not."""
_SHOWN_LENGTH_MAX = 80
_APICURIO = re.compile(r"/apis/registry/v([23])/*$")
_DEFAULT_CONTEXT = (".", "", None)
Get = Callable[[str, str], bytes]
"""A path, and the beginning of the reason if nothing is there → the body at the path."""


class RegistryRefusalError(Exception):
    """The reason why no message with a schema number can be read."""


def registered_at(url: str, get: Get, schema_number: int, id_kind: IdKind) -> RegisteredSchema:
    """Return the schema of a number.

    Args:
        url: the address, which decides the interface.
        id_kind: the kind of id that Apicurio's numbers are.

    Raises:
        RegistryRefusalError: the registry has no such schema, or no usable one.
        ValueError: the response does not follow the interface.
    """
    if apicurio := _APICURIO.search(url):
        return _apicurio_schema(get, schema_number, apicurio[1], id_kind)
    return _confluent_schema(get, schema_number)


def schema_number_of_guid(get: Get, guid: UUID) -> int:
    """Return the number of a schema with a GUID, which Confluent's interface alone has.

    Raises:
        RegistryRefusalError: the registry's default context has no such schema.
        ValueError: the response does not follow the interface.
    """
    reason_prefix = f"names schema {guid}, which"
    response = json.loads(get(f"/schemas/guids/{guid}/ids", reason_prefix))
    if not isinstance(response, list) or not all(isinstance(entry, dict) for entry in response):
        raise ValueError("the response has no numbers")
    schema_numbers = [entry["id"] for entry in response if entry.get("context") in _DEFAULT_CONTEXT]
    if not schema_numbers or not isinstance(schema_numbers[0], int):
        raise RegistryRefusalError(f"{reason_prefix} the schema registry does not have")
    return schema_numbers[0]


def _confluent_schema(get: Get, schema_number: int) -> RegisteredSchema:
    response = _object(
        get(f"/schemas/ids/{schema_number}", f"names schema {schema_number}, which"), schema_number
    )
    references: dict[str, str] = {}

    def read(reference: Mapping[str, Any], reason_prefix: str) -> tuple[str, Any]:
        subject = _quote(reference.get("subject"), reason_prefix)
        inner = _object(
            get(f"/subjects/{subject}/versions/{reference['version']}", reason_prefix),
            schema_number,
        )
        return _schema_text(inner), inner.get("references")

    _collect_references(schema_number, response.get("references"), references, read)
    schema_type = str(response.get("schemaType") or SchemaKind.AVRO.value)
    return RegisteredSchema(
        schema_number, schema_type, _schema_text(response), tuple(references.items())
    )


def _apicurio_schema(
    get: Get, schema_number: int, version: str, id_kind: IdKind
) -> RegisteredSchema:
    """Ask Apicurio's own API for a schema, and for the schemas to which it refers."""
    named_kind = id_kind
    if named_kind is IdKind.AUTO:
        named_kind = IdKind.GLOBAL if version == "2" else IdKind.CONTENT
    path = f"/ids/{named_kind.value}s/{schema_number}"
    reason_prefix = f"names schema {schema_number}, which"
    references: dict[str, str] = {}

    def read(reference: Mapping[str, Any], reason_prefix: str) -> tuple[str, Any]:
        group, artifact = (
            _quote(reference.get(key) or "default", reason_prefix)
            for key in ("groupId", "artifactId")
        )
        version_path = f"/groups/{group}/artifacts/{artifact}/versions/{reference['version']}"
        text = get(
            version_path if version == "2" else f"{version_path}/content", reason_prefix
        ).decode()
        return text, _document(get(f"{version_path}/references", reason_prefix), schema_number)

    text = get(path, reason_prefix).decode()
    reference_list = _document(get(f"{path}/references", reason_prefix), schema_number)
    _collect_references(schema_number, reference_list, references, read)
    return RegisteredSchema(schema_number, "", text, tuple(references.items()))


def _collect_references(
    schema_number: int,
    reference_list: Any,
    references: dict[str, str],
    read: Callable[[Mapping[str, Any], str], tuple[str, Any]],
) -> None:
    """Collect the schemas to which a schema refers, each after those that it needs itself.

    Args:
        read: returns a reference's text, and the references in this text.
    """
    for reference in reference_list if isinstance(reference_list, list) else ():
        is_object = isinstance(reference, dict)
        name, version = (reference.get(key) if is_object else None for key in ("name", "version"))
        reason_prefix = (
            f"names schema {schema_number}, whose reference {str(name)[:_SHOWN_LENGTH_MAX]!r}"
        )
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", str(version)):
            raise RegistryRefusalError(f"{reason_prefix} has no name and version")
        if name in references:
            continue
        if len(references) >= _REFERENCES_MAX:
            raise RegistryRefusalError(f"{reason_prefix} is one of more than {_REFERENCES_MAX}")
        references[name] = ""  # so that a cycle ends
        text, inner_references = read(reference, reason_prefix)
        _collect_references(schema_number, inner_references, references, read)
        del references[name]
        references[name] = text


def _quote(name: object, reason_prefix: str) -> str:
    """Return a name as a part of a path."""
    try:
        return quote(str(name), safe="")
    except UnicodeEncodeError:
        raise RegistryRefusalError(
            f"{reason_prefix} has half of a surrogate pair in its name"
        ) from None


def _document(body: bytes, schema_number: int) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        raise RegistryRefusalError(
            f"names schema {schema_number}, which is nested too deeply"
        ) from None


def _object(body: bytes, schema_number: int) -> Mapping[str, Any]:
    response = _document(body, schema_number)
    if not isinstance(response, dict):
        raise ValueError("the response has no schema")
    return response


def _schema_text(response: Mapping[str, Any]) -> str:
    if not isinstance(response.get("schema"), str):
        raise ValueError("the response has no schema")
    return str(response["schema"])
