"""Registers the CDC formats by their names; no other module knows them all.

It is above `cdc` because it joins the formats of `cdc`, which uses no network, with the client
of schema registries in `kafka`. A new format is a folder of `cdc`, whose module declares a
`FormatDeclaration`, and a line in `_DECLARATIONS`. `app.table_setup.format_pipeline` adds the steps
that a format needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from stream_app.cdc.canal.canal_json import CANAL_JSON
from stream_app.cdc.debezium.avro.debezium_avro import debezium_avro
from stream_app.cdc.debezium.bson.debezium_bson import DEBEZIUM_BSON
from stream_app.cdc.debezium.debezium_cloud_events import DEBEZIUM_CLOUD_EVENTS
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON
from stream_app.cdc.debezium.debezium_json_schema import debezium_json_schema
from stream_app.cdc.dms.dms_json import DMS_JSON
from stream_app.cdc.maxwell.maxwell_json import MAXWELL_JSON
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    MessageFormat,
    SourceExtractor,
)
from stream_app.cdc.ogg.ogg_json import OGG_JSON
from stream_app.cdc.plain.cloud_events import CLOUD_EVENTS
from stream_app.cdc.plain.plain_avro import plain_avro
from stream_app.cdc.plain.plain_json import PLAIN_JSON
from stream_app.cdc.plain.plain_json_schema import plain_json_schema
from stream_app.cdc.plain.plain_protobuf import plain_protobuf
from stream_app.cdc.schema_registry_port import Registries
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.wire.registered_heads import with_any_heads
from stream_app.errors import UsageError
from stream_app.kafka.schema_registry import REGISTRIES
from stream_app.model.near_names import known_names_text

DEFAULT_FORMAT = DEBEZIUM_JSON.name


def _with_registry(declare: Callable[[Registries], FormatDeclaration]) -> FormatDeclaration:
    """Return the declaration of a format whose schemas are in a registry."""
    return with_any_heads(declare(REGISTRIES), REGISTRIES)


_DECLARATIONS = (
    DEBEZIUM_JSON,
    _with_registry(debezium_avro),
    _with_registry(debezium_json_schema),
    DEBEZIUM_BSON,
    CANAL_JSON,
    MAXWELL_JSON,
    OGG_JSON,
    DMS_JSON,
    PLAIN_JSON,
    _with_registry(plain_avro),
    _with_registry(plain_json_schema),
    _with_registry(plain_protobuf),
    CLOUD_EVENTS,
    DEBEZIUM_CLOUD_EVENTS,
)
FORMATS: dict[str, FormatDeclaration] = {
    declaration.name: declaration for declaration in _DECLARATIONS
}


def format_named(name: str) -> FormatDeclaration:
    """Return the declaration of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in FORMATS:
        raise UsageError(
            f"unknown message format {name!r}",
            where="source.format",
            fix=known_names_text(name, FORMATS),
        )
    return FORMATS[name]


def make_source_extractor(name: str, options: Mapping[str, str]) -> SourceExtractor:
    """Return the functions that extract facts about the source from a format's messages.

    Raises:
        UsageError: the format is unknown, or its options are wrong.
    """
    return format_named(name).make_source_extractor(options)


def make_format(name: str, setup: FormatSetup) -> MessageFormat:
    """Make a format by its name, so that a partial of this function can be pickled."""
    return format_named(name).make(setup)


def origins_in(name: str, options: Mapping[str, str], messages: pa.RecordBatch) -> Origins:
    """Return the source table of each message; a partial of this function can be pickled."""
    return make_source_extractor(name, options).find_origins(messages)
