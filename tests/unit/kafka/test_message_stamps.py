"""Timestamps are read behind librdkafka's public struct, or by its functions elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.arrow_buffers import Int64s
from stream_app.kafka.librdkafka import Message, load_librdkafka
from stream_app.kafka.message_columns import words_of
from stream_app.kafka.message_stamps import TimestampReader, stamp_word

WORDS = 40
STAMPS = [1_700_000_000_000, -1, 0, 1_700_000_000_001, 5]


def messages(word: int) -> tuple[Int64s, Int64s]:
    """Memory of messages with their stamps at a word, and their addresses out of order."""
    memory = np.full((len(STAMPS), WORDS), 77, np.int64)
    memory[:, 0] = 0
    memory[:, word] = STAMPS
    return memory, memory.ctypes.data + 8 * WORDS * np.arange(len(STAMPS), dtype=np.int64)


class Calls:
    """Asks librdkafka, and counts the messages."""

    def __init__(self) -> None:
        self.message_count = 0

    def __call__(self, pointers: Int64s) -> Int64s:
        self.message_count += len(pointers)
        return load_librdkafka().timestamps(pointers)


def librdkafkas_word() -> int:
    word = stamp_word(load_librdkafka().timestamps)
    assert word is not None, "this librdkafka has its timestamps elsewhere: a call for each message"
    return word


def test_this_librdkafka_has_them_behind_its_public_struct() -> None:
    assert librdkafkas_word() * 8 >= Message._private.offset + 8


def test_later_batches_ask_for_both_ends() -> None:
    word, calls = librdkafkas_word(), Calls()
    _memory, pointers = messages(word)
    stamps = TimestampReader(calls, word)
    assert stamps.timestamps(pointers).tolist() == STAMPS
    assert calls.message_count == len(STAMPS)
    assert stamps.timestamps(pointers[::-1]).tolist() == STAMPS[::-1]
    assert stamps.timestamps(pointers[1:2]).tolist() == STAMPS[1:2]
    assert calls.message_count == len(STAMPS) + 4


@pytest.mark.parametrize("agrees_first", [False, True])
def test_a_word_that_differs_is_never_read_again(agrees_first: bool) -> None:
    word, calls = librdkafkas_word(), Calls()
    _memory, pointers = messages(word)
    stamped_memory, others = messages(word + 1)
    stamped_memory[:, word] = stamped_memory[:, word + 1]
    stamps = TimestampReader(calls, word + 1)
    if agrees_first:
        assert stamps.timestamps(others).tolist() == STAMPS
    assert stamps.timestamps(pointers).tolist() == STAMPS
    calls.message_count = 0
    assert stamps.timestamps(others).tolist() == STAMPS
    assert calls.message_count == len(STAMPS)


def test_without_a_word_all_are_asked_for() -> None:
    _memory, pointers = messages(librdkafkas_word())
    calls = Calls()
    stamps = TimestampReader(calls, None)
    assert stamps.timestamps(pointers).tolist() == stamps.timestamps(pointers).tolist() == STAMPS
    assert calls.message_count == 2 * len(STAMPS)


def test_functions_that_return_no_word_of_the_message() -> None:
    assert stamp_word(lambda pointers: np.full(len(pointers), -1)) is None
    assert stamp_word(lambda pointers: np.zeros(len(pointers), np.int64)) is None
    assert stamp_word(lambda pointers: words_of(words_of(pointers, 8), 3)) is None  # follows one
    assert stamp_word(lambda pointers: words_of(pointers, 21)) == 21
