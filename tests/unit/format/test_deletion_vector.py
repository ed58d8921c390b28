"""Deletion vectors hold any rows in Java's bytes, and damaged ones are refused."""

from __future__ import annotations

import pickle
import struct
import zlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from stream_app.errors import CorruptFileError
from stream_app.format.deletion_vector import (
    BITMAP32_POSITION_MAX,
    DeletionVector,
    decode_deletion_vectors,
    encode_deletion_vector,
    encode_deletion_vector_files,
    live_rows,
)
from stream_app.model.files.index_file_meta import DeletionVectorMeta
from tests.unit.format.vectors import vectors

NEAR = st.integers(0, 200_000)
POSITIONS = st.sets(NEAR | st.integers(0, BITMAP32_POSITION_MAX), max_size=300)
FAR_POSITIONS = st.sets(NEAR | st.integers(0, 2**34), max_size=50)


def positions_of(vector: dict[str, Any]) -> list[int]:
    positions = vector["deleted_positions"]
    return list(range(5_000)) if isinstance(positions, str) else positions


def a_file(**deleted_positions: list[int]) -> tuple[bytes, tuple[DeletionVectorMeta, ...]]:
    """Return one file; the vectors of names that end in 64 have 64 bits."""
    vectors = {
        name: DeletionVector.of_positions(rows, has_64_bits=name.endswith("64"))
        for name, rows in deleted_positions.items()
    }
    [file] = encode_deletion_vector_files(vectors)
    return file


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("vector", vectors()["deletion_vectors"])
def test_entries_are_javas(vector: dict[str, Any], bits: int) -> None:
    java = bytes.fromhex(vector[f"bitmap{bits}_entry_hex"])
    length = vector[f"bitmap{bits}_f2_length"]
    ours = DeletionVector.of_positions(positions_of(vector), has_64_bits=bits == 64)
    assert encode_deletion_vector(ours) == (java, length)

    meta = DeletionVectorMeta(
        data_file_name="f", offset=1, length=length, cardinality=vector["cardinality"]
    )
    decoded_vector = decode_deletion_vectors(b"\x01" + java, [meta])["f"]
    assert decoded_vector == ours
    assert decoded_vector.is_64 == (bits == 64)
    assert decoded_vector.positions().tolist() == positions_of(vector)


def test_a_64_bit_vector_may_have_empty_parts_as_javas_have() -> None:
    """Java stores a bitmap for each 4 billion rows up to the last deleted one, also empty ones."""
    parts = [BitMap(), BitMap(), BitMap([7])]
    body = b"\xd1\xd3\x39\x64" + struct.pack("<q", len(parts))
    for key, part in enumerate(parts):
        body += struct.pack("<i", key) + part.serialize()
    entry = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    meta = DeletionVectorMeta(data_file_name="f", offset=1, length=len(entry), cardinality=1)
    decoded_vector = decode_deletion_vectors(b"\x01" + entry, [meta])["f"]
    assert decoded_vector.positions().tolist() == [2 * 2**32 + 7]


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), POSITIONS), min_size=1, max_size=5), st.integers(1, 900))
def test_any_vectors_survive_a_file(drawn: list[tuple[bool, set[int]]], target: int) -> None:
    vectors = {
        f"data-{number}": DeletionVector.of_positions(list(rows), has_64_bits=is_64)
        for number, (is_64, rows) in enumerate(drawn)
    }
    decoded_vectors: dict[str, DeletionVector] = {}
    files = list(encode_deletion_vector_files(vectors, target_size=target))
    for data, metas in files:
        decoded_vectors |= decode_deletion_vectors(data, metas)
        without_last = data[: metas[-1].offset]
        assert len(without_last) <= target, "a full file would have taken one more vector"
    assert all(len(data) > target for data, _ in files[:-1])
    assert decoded_vectors == vectors
    for (is_64, rows), vector in zip(drawn, decoded_vectors.values(), strict=True):
        assert (vector.is_64, vector.cardinality) == (is_64, len(rows))
        assert vector.positions().tolist() == sorted(rows)


def test_no_vectors_make_no_file() -> None:
    assert list(encode_deletion_vector_files({})) == []


@settings(deadline=None)
@given(FAR_POSITIONS, st.integers(0, 2**34), st.integers(0, 2_000))
def test_a_mask_keeps_what_is_not_deleted(rows: set[int], start: int, count: int) -> None:
    rows |= {start + row % 2_500 for row in rows}
    expected = [row not in rows for row in range(start, start + count)]
    assert (
        DeletionVector.of_positions(list(rows), has_64_bits=True).keep_mask(start, count).tolist()
        == expected
    )
    if max(rows, default=0) <= BITMAP32_POSITION_MAX:
        assert DeletionVector.of_positions(list(rows)).keep_mask(start, count).tolist() == expected


def test_a_32_bit_vector_keeps_all_rows_beyond_32_bits() -> None:
    """pyroaring itself crashes there."""
    vector = DeletionVector.of_positions([1])
    assert vector.keep_mask(2**33, 3).tolist() == [True] * 3
    assert vector.keep_mask(2**32 - 1, 3).tolist() == [True] * 3


@settings(deadline=None)
@given(st.booleans(), POSITIONS, st.booleans(), POSITIONS)
def test_a_union_deletes_what_either_does(
    is_64: bool, rows: set[int], other_is_64: bool, others: set[int]
) -> None:
    union = DeletionVector.of_positions(list(rows), has_64_bits=is_64).union(
        DeletionVector.of_positions(list(others), has_64_bits=other_is_64)
    )
    assert union.positions().tolist() == sorted(rows | others)
    assert union.is_64 == (is_64 or other_is_64)


@settings(deadline=None)
@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 60), max_size=6),
    st.sets(st.integers(0, 59)),
    st.booleans(),
)
def test_live_rows_are_those_not_deleted(
    row_count: int, cuts: list[int], deleted_positions: set[int], is_64: bool
) -> None:
    deleted_positions = {row for row in deleted_positions if row < row_count}
    table = pa.table({"row": pa.array(range(row_count), pa.int64())})
    bounds = [0, *sorted(min(cut, row_count) for cut in cuts), row_count]
    empty = pa.RecordBatch.from_pylist([], table.schema)
    batches = [
        next(iter(table.slice(low, high - low).to_batches()), empty)
        for low, high in pairwise(bounds)
    ]
    vector = DeletionVector.of_positions(list(deleted_positions), has_64_bits=is_64)
    live = list(live_rows(zip(bounds, batches, strict=False), vector, row_count))
    remaining_rows = pa.Table.from_batches(live, table.schema)["row"].to_pylist()
    assert remaining_rows == [row for row in range(row_count) if row not in deleted_positions]
    assert all(batch.num_rows for batch in live)


def test_a_vector_of_rows_behind_the_file_is_refused() -> None:
    batch = pa.record_batch({"row": pa.array([0, 1, 2])})
    rows = live_rows([(0, batch), (3, batch)], DeletionVector.of_positions([1, 6]), 6)
    with pytest.raises(CorruptFileError, match="deletes row 6 of a file of 6 rows"):
        list(rows)


@pytest.mark.parametrize("is_64", [False, True])
def test_vectors_reach_other_processes(is_64: bool) -> None:
    vector = DeletionVector.of_positions([1, 5, 70_000], has_64_bits=is_64)
    assert pickle.loads(pickle.dumps(vector)) == vector


def test_only_the_asked_vectors_are_decoded() -> None:
    data, metas = a_file(a=[1], b=[2], c64=[3])
    assert decode_deletion_vectors(data, metas[1:]) == {
        "b": DeletionVector.of_positions([2]),
        "c64": DeletionVector.of_positions([3], has_64_bits=True),
    }


DAMAGED: dict[str, tuple[str, Any]] = {
    "another version": ("begins with b'.x02', not", lambda data, meta: (b"\x02" + data[1:], meta)),
    "an empty file": ("begins with b''", lambda _, meta: (b"", meta)),
    "a flipped bit": (
        "of f. at offset 1: its CRC is 0x",
        lambda data, meta: (data[:-6] + bytes([data[-6] ^ 1]) + data[-5:], meta),
    ),
    "a cut file": ("is not within the", lambda data, meta: (data[:-1], meta)),
    "another offset": (
        "at offset 2: no deletion vector begins with the magic number",
        lambda data, meta: (data, replace(meta, offset=2)),
    ),
    "an offset behind the file": (
        "at offset 9999: no deletion vector begins with the magic number",
        lambda data, meta: (data, replace(meta, offset=9_999)),
    ),
    "another length": (
        "bytes, and the index manifest says",
        lambda data, meta: (data, replace(meta, length=meta.length + 1)),
    ),
    "another number of rows": (
        "it deletes 3 rows, and the index manifest says 4",
        lambda data, meta: (data, replace(meta, cardinality=4)),
    ),
}


@pytest.mark.parametrize("name", ["f3", "f64"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_an_error(damage: str, name: str) -> None:
    message, do = DAMAGED[damage]
    data, [meta] = a_file(**{name: [1, 5, 70_000]})
    data, meta = do(data, meta)
    with pytest.raises(CorruptFileError, match=message.replace("f.", name)) as raised:
        decode_deletion_vectors(data, [meta])
    assert "restore the file" in raised.value.fix


@pytest.mark.parametrize("magic", ["5e43f2d0", "d1d33964"])
@pytest.mark.parametrize("bitmap", [b"", b"nonsense", b"\x3a\x30\0\0\xff\xff\xff\x0f"])
def test_bytes_that_are_not_a_bitmap_are_refused(magic: str, bitmap: bytes) -> None:
    body = bytes.fromhex(magic) + bitmap
    entry = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    length = len(body) if magic == "5e43f2d0" else len(entry)
    meta = DeletionVectorMeta(data_file_name="f", offset=1, length=length, cardinality=None)
    with pytest.raises(CorruptFileError, match="the deletion vector of f at offset 1"):
        decode_deletion_vectors(b"\x01" + entry, [meta])


def test_the_rows_of_an_old_writers_vector_are_counted() -> None:
    data, [meta] = a_file(f=[1, 2])
    vectors = decode_deletion_vectors(data, [replace(meta, cardinality=None)])
    assert vectors["f"].cardinality == 2


def test_positions_are_numbers_of_numpy() -> None:
    assert DeletionVector.of_positions([3]).positions().dtype == np.uint32
    assert DeletionVector.of_positions([3], has_64_bits=True).positions().dtype == np.uint64
