"""The four-row examples in docstrings of dense NumPy are what the functions do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import lengths_of, offsets_of
from stream_app.cdc.columns.base64_columns import decode_base64
from stream_app.cdc.columns.byte_patterns import byte_pattern
from stream_app.cdc.debezium.image_heads import find_heads
from stream_app.cdc.debezium.known_frames import KnownFrames
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, UPDATE, plan_rows
from stream_app.format.binary_row_columns import encode_columns
from stream_app.format.bucket_hash import bucket_of, hash_rows
from stream_app.format.deletion_vector import DeletionVector
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    key_order,
    keys_not_after,
    slices_of_whole_keys,
)
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.spilled_runs import cut_between_keys
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns

SCHEMA = pa.schema(
    [("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8()), ("k", pa.int32())]
)
LAYOUT = KeyValueLayout(schema=SCHEMA, key_names=("k",))
INT = parse_columns("a INT").types
INT_AND_STRING = parse_columns("a INT, s STRING").types
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())


def rows(keys: list[int], sequence: list[int] | None = None) -> pa.RecordBatch:
    numbers = list(range(len(keys))) if sequence is None else sequence
    return pa.record_batch([numbers, [0] * len(keys), keys], schema=SCHEMA)


def keys_of(batch: pa.RecordBatch) -> list[int]:
    keys: list[int] = batch.column("k").to_pylist()
    return keys


def test_the_order_of_keys() -> None:
    order, last = key_order(rows([7, 5, 7, 5], [9, 8, 7, 6]), LAYOUT)
    assert order.tolist() == [3, 1, 2, 0]
    assert last.tolist() == [False, True, False, True]
    batch = rows([5, 5, 7, 6])
    assert keys_not_after(batch, ["k"], or_same=False).tolist() == [True, False, True]
    assert keys_not_after(batch, ["k"], or_same=True).tolist() == [False, False, True]


def test_keys_stay_whole() -> None:
    batches = [rows([5, 6]), rows([6, 7])]
    assert [keys_of(batch) for batch in slices_of_whole_keys(batches, ["k"])] == [[5], [6, 6], [7]]
    pieces = cut_between_keys(rows([5, 5, 5, 7]), LAYOUT, 20)
    assert [keys_of(piece) for piece in pieces] == [[5, 5, 5], [7]]


def test_windows_of_two_runs() -> None:
    windows = list(
        merge_windows(
            [iter([rows([1, 3]), rows([9])]), iter([rows([2, 3], [4, 5]), rows([8])])], LAYOUT
        )
    )
    assert [keys_of(window.batch) for window in windows] == [[1, 3, 2, 3], [8], [9]]
    assert windows[0].order is not None
    assert windows[0].order.tolist() == [0, 2, 1, 3]
    assert windows[1].order is None


def test_binary_rows_and_their_hashes() -> None:
    texts = pa.array(["x", "long text", "", None])
    flat, offsets = encode_columns([NUMBERS, texts], INT_AND_STRING)
    assert offsets.tolist() == [0, 24, 64, 88, 112]
    assert flat[8:24].tobytes().hex(" ", 4) == "01000000 00000000 78000000 00000081"
    assert flat[40:56].tobytes().hex(" ", 4) == "09000000 18000000 6c6f6e67 20746578"
    hashes = hash_rows(*encode_columns([NUMBERS], INT))
    assert hashes.tolist() == [1465514398, 1340390384, -771300025, 1447522506]
    assert bucket_of([NUMBERS], INT, 2).tolist() == [0, 0, 1, 0]


def test_rows_of_four_records() -> None:
    has_before = np.array([False, True, True, False])
    has_after = np.array([True, True, False, True])
    ops = np.array([CREATE, UPDATE, DELETE, UPDATE], np.uint8)
    plan = plan_rows(ops, has_before, has_after, True)
    assert plan.record.tolist() == [0, 1, 1, 2, 3]
    assert plan.kinds.tolist() == [
        RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE,
        RowKind.UPDATE_AFTER,
    ]  # fmt: skip
    before, after = pa.array([None, "b1", "b2", None]), pa.array(["a0", "a1", None, "a3"])
    assert plan.assembled_column(before, after).to_pylist() == ["a0", "b1", "a1", "b2", "a3"]


def test_buffers_vectors_and_base64() -> None:
    texts = pa.array(["a", "bc", None, "def"])
    assert offsets_of(texts).tolist() == [0, 1, 3, 3, 6]
    assert lengths_of(texts).tolist() == [1, 2, 0, 3]
    kept = DeletionVector.of_positions([6, 9]).keep_mask(5, 4)
    assert kept.tolist() == [True, False, True, True]
    values, failed = decode_base64(pa.array(["AQID", "", "AQ==", None]))
    assert (values.to_pylist(), failed) == ([b"\x01\x02\x03", b"", b"\x01", None], None)


def test_images_between_frames() -> None:
    tail = b',"source":{"db":"d"},"op":"u"}'
    heads = [
        b'{"before":null,"after":{"k":1}',
        b'{"before":{"k":1},"after":{"k":2}',
        b'{"before":{"k":2},"after":null',
    ]
    values = [*(head + tail for head in heads), b'{"after":{"k":3}}']
    framed = KnownFrames().framed(pa.array(values))
    assert framed is not None
    assert framed.positions.tolist() == [0, 1, 2]
    assert framed.images.to_pylist() == [b'{"k":1}', b'{"k":1}', b'{"k":2}', b'{"k":2}']
    assert framed.has_before.tolist() == [False, True, True]
    assert framed.has_after.tolist() == [True, True, False]
    wanted = [[10, 14, 23, 30], [10, 17, 26, 33], [10, 17, 26, 30], None]
    for value, bounds in zip(values, wanted, strict=True):
        last = max(value.find(tail), 0) or len(value) - 1
        places, has_head = find_heads(
            np.frombuffer(value + tail, np.uint8), np.zeros(1, np.int64), np.array([last])
        )
        assert (places.bounds[0].tolist() if has_head[0] else None) == bounds


def test_bytes_that_fit_a_pattern() -> None:
    pattern = byte_pattern(b"a17", {1: b"19", 2: b"09"})
    assert pattern.lowest.tobytes() == b"a10"
    assert pattern.spread.tolist() == [0, 8, 9]
    data = np.frombuffer(b"a10a07b17a99", np.uint8)
    assert pattern.fits(data, np.array([0, 3, 6, 9])).tolist() == [True, False, False, True]
