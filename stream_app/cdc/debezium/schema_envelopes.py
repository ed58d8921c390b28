"""Splits the schema envelope ``{"schema":…,"payload":…}``, and reads its columns' types.

`debezium_json` calls it for converters with ``schemas.enable=true``. Such a message is mostly
schema, and all messages of one table version begin with the same bytes. So each distinct prefix is
parsed once, and removed from other messages by comparing bytes. `connect_readings` decides how the
values of a column with such a type are read.

Source: Kafka Connect `json/JsonConverter.java`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import bools_of
from stream_app.cdc.change_batch import present_values
from stream_app.cdc.columns.nesting_limit import nests_too_deeply
from stream_app.cdc.json_message import refuse_constant
from stream_app.cdc.source_types.connect_fields import ConnectField, connect_fields, struct_fields

_START = b'{"schema":'
_PAYLOAD = b',"payload":'
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=refuse_constant)
SCHEMAS_MAX = 64
"""The most schemas whose messages are decoded together, in a batch and from batch to batch."""


@dataclass(frozen=True, slots=True)
class PayloadGroup:
    """Messages with one schema.

    Attributes:
        message_indices: indices of the messages among the given values.
        payloads: their payloads, binary.
        prefix: the bytes before the payload, which are a key of the parsed schemas; empty without
            an envelope.
    """

    message_indices: npt.NDArray[np.int32]
    payloads: pa.Array
    prefix: bytes


def split_envelopes(
    values: pa.Array, schemas: dict[bytes, Mapping[str, ConnectField]]
) -> Iterator[PayloadGroup]:
    """Group messages by the bytes of their schema; those without one come last.

    Each schema costs a pass over the remaining messages. After `SCHEMAS_MAX` schemas, the remaining
    messages keep their envelope and are read one by one.

    Args:
        values: binary, without nulls.
        schemas: parsed schemas by prefix, kept by the caller from batch to batch.
    """
    all_indices = np.arange(len(values), dtype=np.int32)
    is_enveloped = bools_of(pc.starts_with(values, pattern=_START))
    if not is_enveloped.any():
        yield PayloadGroup(all_indices, values, b"")
        return
    is_plain = ~is_enveloped
    unsplit, unsplit_indices = _pick(values, all_indices, is_enveloped)
    remaining_schema_count = SCHEMAS_MAX
    while len(unsplit):
        if not remaining_schema_count:
            is_plain[unsplit_indices] = True
            break
        prefix = _prefix_of(unsplit[0].as_py(), schemas)
        if prefix is None:
            # This only looks like an envelope, so it is read as a single message.
            is_plain[unsplit_indices[0]] = True
            unsplit, unsplit_indices = unsplit.slice(1), unsplit_indices[1:]
            continue
        has_prefix = bools_of(pc.starts_with(unsplit, pattern=prefix))
        has_prefix &= bools_of(pc.ends_with(unsplit, pattern=b"}"))
        payloads, message_indices = _pick(unsplit, unsplit_indices, has_prefix)
        yield PayloadGroup(message_indices, pc.binary_slice(payloads, len(prefix), -1), prefix)
        unsplit, unsplit_indices = _pick(unsplit, unsplit_indices, ~has_prefix)
        remaining_schema_count -= 1
    if is_plain.any():
        plain_values, message_indices = _pick(values, all_indices, is_plain)
        yield PayloadGroup(message_indices, plain_values, b"")


def split_messages(messages: pa.RecordBatch) -> Iterator[PayloadGroup]:
    """Split the envelopes of all messages except tombstones."""
    values, message_indices = present_values(messages)
    for group in split_envelopes(values, {}):
        yield replace(group, message_indices=message_indices[group.message_indices])


def _pick(
    values: pa.Array, message_indices: npt.NDArray[np.int32], mask: npt.NDArray[np.bool_]
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    if mask.all():
        return values, message_indices
    return values.filter(pa.array(mask)), message_indices[mask]


def _prefix_of(value: bytes, schemas: dict[bytes, Mapping[str, ConnectField]]) -> bytes | None:
    """Return the bytes before the payload, or None without an envelope; learn the schema."""
    for prefix in schemas:
        if value.startswith(prefix) and value.endswith(b"}"):
            return prefix
    try:
        text = value.decode()
        schema, end = _DECODER.raw_decode(text, len(_START))
    except (ValueError, RecursionError):
        return None
    prefix = text[:end].encode() + _PAYLOAD
    if not (value.startswith(prefix) and value.endswith(b"}")) or nests_too_deeply(prefix):
        return None
    schemas[prefix] = connect_fields(schema)
    return prefix


def has_columns(schema: Any) -> bool:
    """Return whether the schema describes a row, rather than a heartbeat or a transaction."""
    names = {field.get("field") for field in struct_fields(schema)}
    return not names.isdisjoint({"before", "after"}) or not (
        "op" in names or "status" in names or names <= {"ts_ms", "ts_us", "ts_ns"}
    )
