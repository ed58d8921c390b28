"""Describes a source table from Debezium's messages: its columns, their types, and its key.

Implements `describe` and `find_versions` of `message_format.SourceExtractor`. The job calls it when
it creates a table, when messages have columns or types that the table lacks, and for each batch
where ``narrowed-columns = quarantine``.

1. Each distinct schema envelope is read once. It has names, types, nullability and comments.
2. Plain JSON has names alone. Their type is STRING, which holds every value.
3. The key's columns are those of the Kafka key, else those of the field ``pkNames``.

Source: Paimon `flink/action/cdc/format/debezium/DebeziumJsonRecordParser.java` and
`format/AbstractJsonRecordParser.java`. Paimon takes each column of an envelope for nullable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.debezium.decoding.one_record import ADDED_PREFIX, HEARTBEAT_FIELDS, is_envelope
from stream_app.cdc.debezium.schema_envelopes import has_columns, split_messages
from stream_app.cdc.debezium.source_survey import ROUTER_FIELD
from stream_app.cdc.json_records.dialect_description import json_or_none, untyped_table, with_key
from stream_app.cdc.message_format import SeenTableVersion
from stream_app.cdc.source_types.connect_fields import connect_fields, source_column
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable, merged_source_table

_KEY_NAMES = "pkNames"


def describe(
    messages: pa.RecordBatch, options: MappingOptions, *, keeps_nulls: bool = False
) -> SourceTable | None:
    """Return the table that these messages describe; see `message_format.SourceExtractor.describe`.

    Args:
        keeps_nulls: whether the connector's converter keeps nulls, instead of sending the DEFAULT.
    """
    tables: list[tuple[int, SourceTable]] = []
    pk_names: tuple[str, ...] = ()
    for version in _version_messages(messages):
        if (table := _table(version, options, keeps_nulls=keeps_nulls)) is not None:
            tables.append((version.message_indices[0], table))
        pk_names = pk_names or next(filter(None, map(_pk_names, version.payloads)), ())
    if not tables:
        return None
    tables_in_order = [table for _, table in sorted(tables, key=itemgetter(0))]
    merged_table = functools.reduce(merged_source_table, tables_in_order)
    return with_key(merged_table, (*_kafka_keys(messages.column("key")), pk_names))


def versions(messages: pa.RecordBatch, options: MappingOptions) -> Sequence[SeenTableVersion]:
    """See `message_format.SourceExtractor.find_versions`; keys are columns like others."""
    return [
        SeenTableVersion(np.array(version.message_indices, np.int64), table)
        for version in _version_messages(messages)
        if (table := _table(version, options)) is not None
    ]


def versions_of_schemas(
    messages: pa.RecordBatch,
    indices_of_schemas: Iterable[Int64s],
    describe_one: Callable[[pa.RecordBatch], SourceTable | None],
) -> list[SeenTableVersion]:
    """Return a version for each schema, by the first of its messages that shows columns.

    Args:
        indices_of_schemas: the indices of the messages of each schema: int64 [m].
        describe_one: describes the table of one message; None if the message shows no column.
    """
    tables: list[SeenTableVersion] = []
    for indices in indices_of_schemas:
        descriptions = (describe_one(messages.slice(index, 1)) for index in indices.tolist())
        if (table := next(filter(None, descriptions), None)) is not None:
            tables.append(SeenTableVersion(indices, table))
    return tables


@dataclass(frozen=True, slots=True)
class _VersionMessages:
    """The payloads of one version of the source table, and their schema if they have one.

    Attributes:
        message_indices: the indices of its messages, at least one.
    """

    schema: Any
    message_indices: list[int]
    payloads: list[dict[str, Any]]


def _version_messages(messages: pa.RecordBatch) -> Iterator[_VersionMessages]:
    for group in split_messages(messages):
        schema = _parse_object(group.prefix + b"null}") if group.prefix else None
        message_indices = group.message_indices.tolist()
        yield from _versions_of_group(
            group.payloads, message_indices, None if schema is None else schema["schema"]
        )


def _table(
    version: _VersionMessages, options: MappingOptions, *, keeps_nulls: bool = True
) -> SourceTable | None:
    if version.schema:
        return _table_of_schema(version, options, keeps_nulls=keeps_nulls)
    names = [name for payload in version.payloads for name in _row_names(payload)]
    return untyped_table(names, ()) if names else None  # step 2


def _versions_of_group(
    payloads: pa.Array, message_indices: list[int], schema: Any
) -> Iterator[_VersionMessages]:
    """Divide a group of messages by the versions of the source table.

    An envelope in unusual spelling is a version of its own.
    """
    plain_payloads: list[dict[str, Any]] = []
    plain_indices: list[int] = []
    for message_index, payload in zip(message_indices, payloads.to_pylist(), strict=True):
        document = _parse_object(payload)
        if document is None:
            continue
        is_wrapped = document.keys() == {"schema", "payload"}
        row_payload = document["payload"] if is_wrapped else document
        if is_wrapped and document["schema"] is not None:
            yield _VersionMessages(
                document["schema"],
                [message_index],
                [row_payload] if isinstance(row_payload, dict) else [],
            )
        elif isinstance(row_payload, dict):
            plain_indices.append(message_index)
            plain_payloads.append(row_payload)
    if plain_payloads or schema is not None:
        yield _VersionMessages(schema, plain_indices or message_indices[:1], plain_payloads)


def _parse_object(payload: bytes) -> dict[str, Any] | None:
    document = json_or_none(payload)
    return document if isinstance(document, dict) else None


def _table_of_schema(
    version: _VersionMessages, options: MappingOptions, *, keeps_nulls: bool
) -> SourceTable | None:
    """Step 1: return the columns that the schema envelope describes."""
    if not has_columns(version.schema):
        return None
    connector = _connector(version.payloads)
    null_columns = None if keeps_nulls else _null_columns(version.payloads)
    columns = [
        source_column(
            name,
            field,
            options,
            connector=connector,
            loses_nulls=null_columns is not None and name not in null_columns,
        )
        for name, field in connect_fields(version.schema).items()
        if not name.startswith(ADDED_PREFIX)
    ]
    return SourceTable(columns=tuple(columns)) if columns else None


def _null_columns(payloads: Iterable[dict[str, Any]]) -> set[str]:
    """Return the columns that are null in an image, which shows that the converter keeps nulls."""
    images = (payload.get("after") if is_envelope(payload) else payload for payload in payloads)
    return {
        name
        for image in images
        if isinstance(image, dict)
        for name, value in image.items()
        if value is None
    }


def _connector(payloads: Iterable[dict[str, Any]]) -> str:
    """Return the connector's name; empty if unknown."""
    for payload in payloads:
        source = payload.get("source")
        name = source.get("connector") if isinstance(source, dict) else None
        name = name or payload.get(f"{ADDED_PREFIX}connector")
        if isinstance(name, str):
            return name
    return ""


def _row_names(payload: dict[str, Any]) -> Iterator[str]:
    if is_envelope(payload):
        for image in (payload.get("after"), payload.get("before")):
            yield from image if isinstance(image, dict) else ()
    elif not _is_no_row(payload):
        yield from (name for name in payload if not name.startswith(ADDED_PREFIX))


def _is_no_row(payload: dict[str, Any]) -> bool:
    """Return whether the message is a heartbeat, a transaction marker or a schema change."""
    return payload.keys() <= HEARTBEAT_FIELDS or not payload.keys().isdisjoint(
        {"data_collections", "databaseName"}
    )


def _pk_names(payload: dict[str, Any]) -> tuple[str, ...]:
    names = payload.get(_KEY_NAMES)
    is_list = isinstance(names, list) and is_envelope(payload)
    return tuple(map(str, names)) if is_list and names is not None else ()


def _kafka_keys(keys: pa.Array) -> Iterator[tuple[str, ...]]:
    """Yield the field names of each distinct key, in their order."""
    for key in keys.drop_null().unique().to_pylist():
        document = _parse_object(key if isinstance(key, bytes) else str(key).encode())
        if document is not None and document.keys() == {"schema", "payload"}:
            inner = document["payload"]
            document = inner if isinstance(inner, dict) else None
        if document:
            yield tuple(name for name in document if name != ROUTER_FIELD)
