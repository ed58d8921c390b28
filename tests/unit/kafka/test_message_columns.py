"""Messages become columns, wherever their bytes lie in memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kafka.librdkafka import Message, load_librdkafka
from stream_app.kafka.message_columns import copy_cells, message_batch, message_fields

FAR = 200_000


class Memory:
    """Bytes at addresses that stay."""

    def __init__(self) -> None:
        self.buffers: list[object] = []

    def put(self, cell: bytes | None, gap: int = 0) -> int:
        if cell is None:
            return 0
        buffer = ctypes.create_string_buffer(bytes(gap) + cell + b"\0" * gap)
        self.buffers.append(buffer)
        return ctypes.addressof(buffer) + gap


def in_one_buffer(memory: Memory, values: list[bytes | None], gap: int) -> list[int]:
    """Addresses of cells one after another, as they come from a broker."""
    buffer = ctypes.create_string_buffer(sum(len(value or b"") + gap for value in values) + 1)
    memory.buffers.append(buffer)
    address, calls = ctypes.addressof(buffer), []
    for value in values:
        if value is None:
            calls.append(0)
            continue
        ctypes.memmove(address, value, len(value))
        calls.append(address)
        address += len(value) + gap
    return calls


def lengths(values: list[bytes | None]) -> np.ndarray:
    return np.array([len(value or b"") for value in values], np.int64)


VALUES = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=30)


@settings(deadline=None)
@given(values=VALUES, gap=st.sampled_from([0, 1, 17, FAR]), is_reversed=st.booleans())
def test_cells_of_one_buffer(values: list[bytes | None], gap: int, is_reversed: bool) -> None:
    memory = Memory()
    addresses = in_one_buffer(memory, values, gap)
    if is_reversed:
        values, addresses = values[::-1], addresses[::-1]
    column = copy_cells(np.array(addresses, np.int64), lengths(values))
    column.validate(full=True)
    assert column.to_pylist() == values


@settings(deadline=None)
@given(values=VALUES)
def test_cells_that_lie_anywhere(values: list[bytes | None]) -> None:
    memory = Memory()
    addresses = [memory.put(value, gap=3) for value in values]
    column = copy_cells(np.array(addresses, np.int64), lengths(values))
    column.validate(full=True)
    assert column.to_pylist() == values


def test_structs_become_a_batch() -> None:
    memory = Memory()
    structs = (Message * 3)()
    messages = [(7, b"k", b"v7"), (9, None, b""), (10, b"", None)]
    for struct, (offset, key, value) in zip(structs, messages, strict=True):
        struct.offset = offset
        struct.key, struct.key_len = memory.put(key) or None, len(key or b"")
        struct.payload, struct.len = memory.put(value) or None, len(value or b"")
    structs[1].err = -191
    pointers = np.array([ctypes.addressof(struct) for struct in structs], np.int64)
    fields = message_fields(pointers)
    assert fields.errors.tolist() == [0, -191, 0]
    batch = message_batch("t", 4, fields, np.array([1, -1, 1_700_000_000_000], np.int64))
    batch.validate(full=True)
    rows = [tuple(row.values()) for row in batch.drop_columns(["timestamp"]).to_pylist()]
    assert rows == [("t", 4, *message) for message in messages]
    assert batch.column("timestamp").cast("int64").to_pylist() == [
        1000,
        -1000,
        1_700_000_000_000_000,
    ]


def test_the_struct_is_the_librarys() -> None:
    # Four words of pointers and lengths between two of numbers, as the public header has it.
    assert ctypes.sizeof(Message) == 72
    assert (Message.payload.offset, Message.offset.offset) == (24, 56)


def test_the_library_knows_what_wheels_are_built_with() -> None:
    assert {
        "ssl",
        "sasl_plain",
        "sasl_scram",
        "sasl_oauthbearer",
        "zstd",
    } <= load_librdkafka().features


@pytest.mark.parametrize("code", [-191, -140, 3])
def test_codes_have_texts(code: int) -> None:
    assert load_librdkafka().err2str(code)
