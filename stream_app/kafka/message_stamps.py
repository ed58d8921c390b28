"""Reads timestamps of messages at their addresses, without a call for each message.

librdkafka has no public field for the timestamp, only a function. The function returns one word of
the memory after the public struct. `stamp_word` finds the word by the function itself: it passes
memory of its own, in which no two words are the same. So no layout is assumed, and only memory that
the function itself reads is read. Real messages verify the word: all of a reader's first batch,
then the first and last of each batch. After a difference the reader calls the function for every
message.

Source: librdkafka `rdkafka_msg.c`, `rd_kafka_message_timestamp`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.message_columns import words_of

_LOG = logging.getLogger(__name__)
_PROBE_WORD_COUNT = 512
"""The number of words of the memory that is passed to the function.

librdkafka allocates less for a message with all that belongs to it.
"""

Timestamps = Callable[[Int64s], Int64s]
"""Addresses of messages without an error [n] → milliseconds since 1970 [n]; -1 without one."""


class TimestampReader:
    """A reader of messages' timestamps, for one `RangeReader`.

    Args:
        by_calls: asks librdkafka for the timestamp of each message.
        word: the index of the word that has the stamp, or None if unknown.
    """

    def __init__(self, by_calls: Timestamps, word: int | None) -> None:
        self._by_calls = by_calls
        self._word = word
        self._is_verified = False

    def timestamps(self, pointers: Int64s) -> Int64s:
        """Return the timestamps of one or more messages without errors."""
        if self._word is None:
            return self._by_calls(pointers)
        stamps = words_of(pointers, self._word)
        checked_indices = np.array([0, -1]) if self._is_verified else np.arange(len(pointers))
        if not np.array_equal(self._by_calls(pointers[checked_indices]), stamps[checked_indices]):
            _LOG.warning("librdkafka's timestamps are read one by one: word %d differs", self._word)
            self._word = None
            return self._by_calls(pointers)
        self._is_verified = True
        return stamps


def timestamp_reader() -> TimestampReader:
    """Return the timestamps' reader of a new `RangeReader`; librdkafka must be installed."""
    return TimestampReader(load_librdkafka().timestamps, _library_word())


def stamp_word(by_calls: Timestamps) -> int | None:
    """Return the number of the word that is a message's timestamp; None without one."""
    # Each word is an address of empty memory, which the function may follow unharmed.
    empty_memory = np.zeros(2 * _PROBE_WORD_COUNT, np.int64)
    words: Int64s = empty_memory.ctypes.data + 8 * np.arange(_PROBE_WORD_COUNT, dtype=np.int64)
    words[0] = 0  # no error
    [stamp] = by_calls(np.array([words.ctypes.data], np.int64)).tolist()
    word_indices = np.flatnonzero(words == stamp).tolist()
    return word_indices[0] if word_indices and word_indices[0] else None


@cache
def _library_word() -> int | None:
    return stamp_word(load_librdkafka().timestamps)
