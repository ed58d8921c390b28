"""Plain rows as the data of CloudEvents: the format ``cloudevents``.

Source: CloudEvents' "JSON Event Format" and "Kafka Protocol Binding", structured mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.cdc.json_message import json_text
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.plain.key_options import check_key_columns
from stream_app.cdc.plain.plain_json import PLAIN_ROWS
from stream_app.cdc.wire.event_data import EventFormat, EventSourceExtractor, unwrap_events

_NAME = "cloudevents"
_ROWS = replace(
    PLAIN_ROWS,
    name=_NAME,
    section=_NAME,
    introduction='for example `cloudevents."key-columns" = "id"`. '
    "[Other formats](setup/formats.md#cloudevents) describes how the messages are read.",
    telltale_fields=(frozenset({"specversion", "data"}),),
    check_together=partial(check_key_columns, _NAME, _NAME),
).declaration()


class _RowData:
    """The row in an event's data, which is the whole message. Implements `event_data.EventData`."""

    attributes: tuple[str, ...] = ()

    def unwrap_together(
        self, data: pa.Array, attributes: Mapping[str, pa.Array]
    ) -> tuple[pa.Array, Bools]:
        """See `EventData`."""
        del attributes
        return data, np.zeros(len(data), np.bool_)

    def unwrap_one(self, event: Mapping[str, Any]) -> bytes:
        """See `EventData`."""
        return json_text(event["data"]).encode()


_DATA = _RowData()


def _format(setup: FormatSetup) -> EventFormat:
    return EventFormat(_ROWS.make(setup), _DATA)


def _survey(setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> SourceSurvey:
    rows = {topic: unwrap_events(batch, _DATA) for topic, batch in messages.items()}
    return _ROWS.survey(setup, rows)


def _source_extractor(options: Mapping[str, str]) -> SourceExtractor:
    inner_extractor = _ROWS.make_source_extractor(options)
    # The topic is the table, whatever an event holds.
    return replace(
        EventSourceExtractor(inner_extractor, _DATA).as_source_extractor(),
        find_origins=inner_extractor.find_origins,
    )


CLOUD_EVENTS: FormatDeclaration = replace(
    _ROWS, make=_format, survey=_survey, make_source_extractor=_source_extractor
)
