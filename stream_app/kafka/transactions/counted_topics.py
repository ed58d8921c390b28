"""Finds the topics of the tables that END markers count.

A marker's name of a table has no connector and perhaps no database. `epoch_cut` calls this module.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.kafka.transactions.pending_messages import KEY_SEPARATOR, NO_CODE, PendingMessages

_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
"""Characters of a table's name that Debezium replaces in the topic's."""


def counted_codes_of(pending_messages: PendingMessages, topics: Collection[str]) -> Int64s:
    """Return for each table's code the code of its name in END markers; -1 without a topic.

    It loops over tables.
    """
    names = pending_messages.tables.names
    marker_codes = np.unique(pending_messages.counts.all()["table"]).tolist()
    counted_codes = np.full(len(names), NO_CODE, np.int64)
    suffixes = {code: _in_topic(names[code]) for code in marker_codes}
    for code in marker_codes:
        if any(topic.endswith(suffixes[code]) for topic in topics):
            counted_codes[code] = code
    for code, name in enumerate(names):
        table, is_change, topic = name.partition(KEY_SEPARATOR)
        for marker_code in marker_codes if is_change else ():
            suffix = f".{names[marker_code]}"
            if f".{table}".endswith(suffix) or topic.endswith(suffixes[marker_code]):
                counted_codes[code] = counted_codes[marker_code] = marker_code
    return counted_codes


def is_topic_of(
    pending_messages: PendingMessages, topic: str, table_code: int, counted_codes: Int64s
) -> bool:
    """Return whether a topic has changes of a table that markers count."""
    names = pending_messages.tables.names
    return topic.endswith(_in_topic(names[table_code])) or any(
        names[code].partition(KEY_SEPARATOR)[2] == topic
        for code in np.flatnonzero(counted_codes == table_code).tolist()
    )


def _in_topic(table: str) -> str:
    return f".{_NOT_IN_TOPICS.sub('_', table)}"
