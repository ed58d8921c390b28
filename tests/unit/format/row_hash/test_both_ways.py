"""Machine code gives rows the hashes that Arrow's texts and hashlib give them."""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.row_hash.row_hashes import row_hashes
from stream_app.format.row_hash.row_texts import PlacedColumn
from stream_app.machine_code.loaded_code import loaded_code
from stream_app.model.schema.data_type import parse_columns
from tests.unit.cdc.compiled.guarded_memory import guarded_pages

EPOCH = datetime.datetime.fromisoformat("1970-01-01")
EDGES = [0, 9, 10, 10**8 - 1, 10**8, 10**15, 10**16 - 1, 10**16, 10**17 + 5, 2**63 - 1]


def whole(bits: int) -> Callable[[random.Random], int]:
    most = 1 << (bits - 1)

    def number(rng: random.Random) -> int:
        magnitude = rng.choice([rng.choice(EDGES), rng.randrange(10 ** rng.randint(1, 18))]) % most
        return rng.choice([magnitude, -magnitude, -most, most - 1])

    return number


def decimal(digits: int, scale: int) -> Callable[[random.Random], Decimal]:
    return lambda rng: Decimal(rng.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale)


def moment(rng: random.Random) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=rng.randrange(-(10**12), 9 * 10**12))


def real(rng: random.Random) -> float:
    numbers = [0.0, -0.0, float("nan"), float("inf"), float("-inf")]
    return rng.choice([rng.choice(numbers), *struct.unpack(">f", struct.pack(">f", rng.random()))])


def lists_of_values(value: Callable[[random.Random], Any]) -> Callable[[random.Random], list[Any]]:
    return lambda rng: [value(rng) if rng.random() < 0.8 else None for _ in range(rng.randrange(4))]


VALUES: dict[str, Callable[[random.Random], Any]] = {
    "BOOLEAN": lambda rng: rng.random() < 0.5,
    "TINYINT": whole(8),
    "SMALLINT": whole(16),
    "INT": whole(32),
    "BIGINT": whole(64),
    "DECIMAL(12, 2)": decimal(12, 2),
    "DECIMAL(18, 0)": decimal(18, 0),
    "DECIMAL(38, 9)": decimal(38, 9),
    "FLOAT": real,
    "DOUBLE": real,
    "STRING": lambda rng: "é" * rng.randrange(3) + "x" * rng.randrange(90),
    "CHAR(3)": lambda rng: rng.choice(["", "a", "ab", "abc"]),
    "BYTES": lambda rng: rng.randbytes(rng.randrange(20)),
    "DATE": lambda rng: moment(rng).date(),
    "TIME": lambda rng: moment(rng).time(),
    "TIMESTAMP(0)": lambda rng: moment(rng).replace(microsecond=0),
    "TIMESTAMP(3)": moment,
    "TIMESTAMP(6)": moment,
    "TIMESTAMP(9)": moment,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": moment,
    "ARRAY<STRING>": lists_of_values(lambda rng: "é" * rng.randrange(3) + "x" * rng.randrange(40)),
    "ARRAY<ARRAY<DECIMAL(12, 2)>>": lists_of_values(lists_of_values(decimal(12, 2))),
}
COLUMNS = parse_columns(", ".join(f"c{index} {kind}" for index, kind in enumerate(VALUES)))
PLACED = tuple(enumerate(COLUMNS))


def rows_of(rng: random.Random, count: int, *, nulls: float) -> pa.RecordBatch:
    columns = [
        pa.array([None if rng.random() < nulls else value(rng) for _ in range(count)], field.type)
        for value, field in zip(VALUES.values(), arrow_schema(COLUMNS), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=COLUMNS.names)


def assert_equal_hashes(rows: pa.RecordBatch, columns: Sequence[PlacedColumn]) -> None:
    pytest.importorskip("numba")
    quick, slow = (
        row_hashes(rows, columns, uses_machine_code=is_compiled) for is_compiled in (True, False)
    )
    assert [hashes.tolist() for hashes in quick] == [hashes.tolist() for hashes in slow]


def test_machine_code_is_there() -> None:
    pytest.importorskip("numba")
    code, problem = loaded_code("stream_app.format.row_hash.compiled.hashed_columns")
    assert (code is not None, problem) == (True, "")


@pytest.mark.parametrize("nulls", [0, 0.3, 1])
def test_rows_of_every_type(nulls: float, seed: int) -> None:
    rows = rows_of(random.Random(seed), 300, nulls=nulls)
    for part in (rows, rows.slice(0, 0), rows.slice(3, 1), rows.slice(5, 15), rows.slice(13)):
        assert_equal_hashes(part, PLACED)


def test_columns_of_a_wide_table(seed: int) -> None:
    """Positions of several digits, and rows without any text."""
    rows = rows_of(random.Random(seed), 40, nulls=0.1)
    assert_equal_hashes(rows, [(position**5, field) for position, field in PLACED])
    assert_equal_hashes(rows, [])


def test_texts_of_every_length_and_more_than_one_piece(seed: int) -> None:
    """Lanes whose texts end at different blocks, and a text that is larger than all others."""
    rng = random.Random(seed)
    texts = ["x" * size for size in range(700)] + ["y" * rng.randrange(60) for _ in range(9000)]
    rng.shuffle(texts)
    texts[5000] = "z" * 1_000_000
    columns = parse_columns("a STRING")
    rows = pa.RecordBatch.from_arrays([pa.array(texts)], names=["a"])
    assert_equal_hashes(rows, tuple(enumerate(columns)))


def test_nothing_is_read_behind_a_column() -> None:
    """Strings, offsets and numbers lie where memory ends: a byte more ends the process."""
    columns = parse_columns("a STRING, b BIGINT")
    for size in range(20):
        (texts, _), (bounds, _), (numbers, _) = (guarded_pages() for _ in range(3))
        texts[len(texts) - 2 * size :] = ord("x")
        bounds[-12:] = np.array([0, size, 2 * size], np.int32).view(np.uint8)
        numbers[-16:] = np.array([size, -size], np.int64).view(np.uint8)
        strings = [None, pa.py_buffer(bounds[-12:]), pa.py_buffer(texts[len(texts) - 2 * size :])]
        arrays = [
            pa.Array.from_buffers(pa.string(), 2, strings),
            pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(numbers[-16:])]),
        ]
        rows = pa.RecordBatch.from_arrays(arrays, names=["a", "b"])
        assert_equal_hashes(rows, tuple(enumerate(columns)))
