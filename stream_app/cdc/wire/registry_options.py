"""The options that name a schema registry, for every format that asks one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_app.cdc.schema_registry_port import (
    HEADERS,
    ID_HANDLER,
    URL,
    USE_ID,
    USER_INFO,
    HeaderKind,
    IdKind,
    Registries,
    SchemaHeaders,
    Schemas,
)
from stream_app.errors import UsageError
from stream_app.model.options.option import TEXT, Option, choice

AUTO_HANDLER = IdKind.AUTO.value
NARROW_HANDLER = "Default4ByteIdHandler"
WIDE_HANDLER = "Legacy8ByteIdHandler"
"""Apicurio's names of the classes that write numbers of four and of eight bytes."""

_URL_OPTION = Option(
    URL,
    TEXT,
    "",
    "Addresses of the schema registry, comma separated; the next one is asked when one does "
    "not answer.",
    example="http://registry:8081",
)
_USER_INFO_OPTION = Option(
    USER_INFO,
    TEXT,
    "",
    "Login at the registry, USER:PASSWORD. Best written as `${env:NAME}` or `${file:PATH}`.",
)
_USE_ID_OPTION = choice(
    USE_ID,
    "What numbers of messages count at an address of Apicurio's own interface: as its "
    "serializers do by default (`globalId` for `v2`, `contentId` for `v3`), or one of both.",
    tuple(kind.value for kind in IdKind),
)
_ID_HANDLER_OPTION = choice(
    ID_HANDLER,
    "Bytes of the number in a message: as Apicurio's serializers have by default (8 for an "
    "address with `v2`, else 4), 4, or 8.",
    (AUTO_HANDLER, NARROW_HANDLER, WIDE_HANDLER),
)
_HEADERS_OPTION = choice(
    HEADERS,
    "Headers of Kafka that name a message's schema: `confluent` (`__value_schema_id`, as "
    "`HeaderSchemaIdSerializer` writes it), or `apicurio` (`apicurio.value.globalId`). A "
    "message without the header is read by the number in it.",
    tuple(kind.value for kind in HeaderKind),
)
REGISTRY_OPTIONS: tuple[Option[Any], ...] = (
    _URL_OPTION,
    _USER_INFO_OPTION,
    _USE_ID_OPTION,
    _ID_HANDLER_OPTION,
    _HEADERS_OPTION,
)
_APICURIO_2 = "/apis/registry/v2"
_OPTION_KEYS = frozenset(option.key for option in REGISTRY_OPTIONS)


def check_urls(name: str, section: str, registries: Registries, options: Mapping[str, str]) -> None:
    """Check the addresses of the registry.

    Args:
        name, section: the name and section of the format.

    Raises:
        UsageError: one of them is not an address.
    """
    problems = filter(None, (registries.url_problem(url) for url in _urls(options)))
    if problems_text := "; ".join(problems):
        raise UsageError(
            f"options of {name} are wrong: {URL}: {problems_text}",
            where=f"source.{section}",
            fix="give the addresses of the schema registry, such as http://registry:8081",
        )


def registry_schemas(
    name: str, section: str, registries: Registries, options: Mapping[str, str]
) -> Schemas:
    """Return the schemas of the registry that the options name.

    Args:
        name, section: the name and section of the format.

    Raises:
        UsageError: the options name no registry.
    """
    urls = _urls(options)
    if not urls:
        raise UsageError(
            f"options of {name} lack {URL}",
            where=f"source.{section}",
            fix=f'give the address of the schema registry: {section}."{URL}" = "http://…"',
        )
    return registries.schemas_at(urls, _USER_INFO_OPTION.read(options), section, _id_kind(options))


def _id_kind(options: Mapping[str, str]) -> IdKind:
    return IdKind(_USE_ID_OPTION.read(options))


def header_kind(options: Mapping[str, str]) -> HeaderKind:
    """Return the headers in which messages name their schemas."""
    return HeaderKind(_HEADERS_OPTION.read(options))


def schema_headers(options: Mapping[str, str]) -> SchemaHeaders | None:
    """Return the names of the headers that name schemas, or None if messages have none."""
    match header_kind(options):
        case HeaderKind.NONE:
            return None
        case HeaderKind.CONFLUENT:
            return SchemaHeaders("__key_schema_id", "__value_schema_id")
        case HeaderKind.APICURIO:
            kind = _id_kind(options)
            if kind is IdKind.AUTO:
                kind = IdKind.GLOBAL if _is_apicurio_2(options) else IdKind.CONTENT
            return SchemaHeaders(
                f"apicurio.key.{kind.value}", f"apicurio.value.{kind.value}", b"\0"
            )


def has_wide_numbers(options: Mapping[str, str]) -> bool:
    """Return whether the number of a message's schema has eight bytes."""
    handler = _ID_HANDLER_OPTION.read(options)
    if header_kind(options) is HeaderKind.APICURIO:
        return True
    return _is_apicurio_2(options) if handler == AUTO_HANDLER else handler == WIDE_HANDLER


def _is_apicurio_2(options: Mapping[str, str]) -> bool:
    return any(url.rstrip("/").endswith(_APICURIO_2) for url in _urls(options))


def without_registry(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options except those of the registry."""
    return {key: value for key, value in options.items() if key not in _OPTION_KEYS}


def _urls(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, (url.strip() for url in _URL_OPTION.read(options).split(","))))
