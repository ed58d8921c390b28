"""Debezium's messages as CloudEvents: the format ``debezium-cloudevents``.

An event's data has the images, with or without their schema. The operation and the source table are
extension attributes. This module joins them into a message for `debezium_json`.

Source: Debezium's "CloudEvents converter"; tests/fixtures/cdc holds real messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, own_bytes, slices_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.debezium.debezium_json import DEBEZIUM_JSON
from stream_app.cdc.debezium.debezium_options import JSON_OPTIONS, parse_options
from stream_app.cdc.json_message import json_text
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.wire.event_data import EventFormat, EventSourceExtractor, unwrap_events

_NAME = "debezium-cloudevents"
_PREFIX = "iodebezium"
_OP, _TIME = f"{_PREFIX}op", f"{_PREFIX}tsms"
_SOURCE = ("connector", "db", "schema", "table")
_ENVELOPE = b'{"schema":'
_DIGITS = r"^-?[0-9]{1,18}$"


class _ChangeData:
    """The change in an event, whose data are the row. Implements `event_data.EventData`."""

    attributes: tuple[str, ...] = (_OP, _TIME, *(_PREFIX + name for name in _SOURCE))

    def unwrap_together(
        self, data: pa.Array, attributes: Mapping[str, pa.Array]
    ) -> tuple[pa.Array, Bools]:
        """See `EventData`; events without an operation or a usual time are read one by one."""
        if not len(data):
            return data, np.zeros(0, np.bool_)
        times = attributes[_TIME]
        is_suspect = ~bools_of(attributes[_OP].is_valid())
        is_suspect |= ~bools_of(pc.match_substring_regex(times, _DIGITS))
        is_enveloped = bools_of(pc.starts_with(data, pattern=_ENVELOPE))
        raw, offsets = own_bytes(data)
        is_suspect |= is_enveloped & (raw.take(offsets[1:] - 2, mode="clip") != ord("}"))
        names = [_OP, *(_PREFIX + name for name in _SOURCE)]
        joined_attributes = pc.binary_join_element_wise(
            *(attributes[name] for name in names), "\0", null_handling="replace",
            null_replacement="",
        ).dictionary_encode()  # fmt: skip
        envelopes = [
            _envelope_around(text.split("\0")) for text in joined_attributes.dictionary.to_pylist()
        ]
        beginnings, endings = (
            pa.array([pair[side] for pair in envelopes], pa.binary()).take(
                joined_attributes.indices
            )
            for side in (0, 1)
        )
        closing = pa.array([b"", b"}"], pa.binary()).take(pa.array(is_enveloped.astype(np.int8)))
        parts = [
            _without_braces(data, is_enveloped),
            beginnings,
            times.cast(pa.binary()),
            endings,
            closing,
        ]
        return pc.binary_join_element_wise(
            *parts, b"", null_handling="replace", null_replacement=b"0"
        ), is_suspect

    def unwrap_one(self, event: Mapping[str, Any]) -> bytes:
        """See `EventData`."""
        op, data = event.get(_OP), event["data"]
        if not isinstance(op, str):
            raise UnreadableRecordError(
                f"has no {_OP}, which names the operation: set extension.attributes.enable = true "
                "in Debezium's converter"
            )
        if not isinstance(data, dict):
            raise UnreadableRecordError("has data that is not a JSON object")
        source = {name: event[key] for name in _SOURCE if (key := _PREFIX + name) in event}
        time = str(event.get(_TIME))
        if time.removeprefix("-").isdecimal() and len(time) <= len("-") + 18:
            source["ts_ms"] = int(time)
        added_fields = {"source": source, "op": op}
        if data.keys() == {"schema", "payload"} and isinstance(data["payload"], dict):
            return json_text({**data, "payload": {**data["payload"], **added_fields}}).encode()
        return json_text({**data, **added_fields}).encode()


def _envelope_around(names: list[str]) -> tuple[bytes, bytes]:
    """Return an envelope's text before and after the time of its change."""
    op, *source = names
    source_fields = {name: text for name, text in zip(_SOURCE, source, strict=True) if text}
    members = orjson.dumps(source_fields)[1:-1]
    comma = b"," if members else b""
    return b',"source":{%b%b"ts_ms":' % (members, comma), b'},"op":%b}' % orjson.dumps(op)


def _without_braces(data: pa.Array, is_enveloped: Bools) -> pa.Array:
    """Cut the closing braces off; an envelope's data has two, flattened data has one."""
    raw, offsets = own_bytes(data)
    return slices_of(raw, offsets[:-1], offsets[1:] - 1 - is_enveloped)


_DATA = _ChangeData()


def _format(setup: FormatSetup) -> EventFormat:
    return EventFormat(DEBEZIUM_JSON.make(setup), _DATA)


def _survey(setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> SourceSurvey:
    inner_messages = {topic: unwrap_events(batch, _DATA) for topic, batch in messages.items()}
    return DEBEZIUM_JSON.survey(setup, inner_messages)


def _source_extractor(options: Mapping[str, str]) -> SourceExtractor:
    return EventSourceExtractor(
        DEBEZIUM_JSON.make_source_extractor(options), _DATA
    ).as_source_extractor()


DEBEZIUM_CLOUD_EVENTS: FormatDeclaration = replace(
    DEBEZIUM_JSON,
    name=_NAME,
    introduction='for example `debezium."time.precision.mode" = "connect"`. '
    "[Other formats](setup/formats.md#cloudevents) describes how the messages are read.",
    check=partial(parse_options, name=_NAME, format_options=JSON_OPTIONS),
    make=_format,
    survey=_survey,
    make_source_extractor=_source_extractor,
    telltale_fields=(frozenset({"specversion", "data", _OP}),),
)
