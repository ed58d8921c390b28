"""The checksum of rows equals hashlib's over texts written by hand."""

from __future__ import annotations

import datetime
import hashlib
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.row_hash.md5_lanes import md5_lanes
from stream_app.format.row_hash.row_hashes import sum_of_changes, sum_of_rows
from stream_app.format.row_hash.row_texts import readable_texts, row_texts
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from stream_app.model.schema.data_type import parse_columns

COLUMNS = parse_columns(
    "k BIGINT NOT NULL, flag BOOLEAN, price DECIMAL(12,2), large DECIMAL(30,4), name STRING, "
    "code BYTES, born DATE, at TIMESTAMP(6), at_ms TIMESTAMP(3), real DOUBLE, half FLOAT"
)
SCHEMA = arrow_schema(COLUMNS)
PLACED = tuple(enumerate(COLUMNS))
EPOCH = datetime.datetime.fromisoformat("1970-01-01")


def value_text(name: str, value: Any) -> str:
    """The text of a value, by the table in docs/operate/checksums.md."""
    match name:
        case "name":
            return f"{len(value.encode())}:{value}"
        case "code":
            return str(value.hex())
        case "price" | "large":
            return str(int(value.scaleb(2 if name == "price" else 4)))
        case "born":
            return str((value - EPOCH.date()).days)
        case "at" | "at_ms":
            return str((value - EPOCH) // datetime.timedelta(microseconds=1))
        case "real":
            return struct.pack(">d", value).hex()
        case "half":
            return struct.pack(">f", value).hex()
        case _:
            return str(int(value))


def row_text(row: dict[str, Any]) -> bytes:
    return "".join(
        f"{position}={value_text(name, row[name])};"
        for position, name in enumerate(COLUMNS.names)
        if row.get(name) is not None
    ).encode()


def model_sum(rows: list[dict[str, Any]]) -> RowSum:
    digests = [hashlib.md5(row_text(row), usedforsecurity=False).digest() for row in rows]
    halves = [(int.from_bytes(digest[:8]), int.from_bytes(digest[8:])) for digest in digests]
    return RowSum.of_totals(
        len(rows), sum(high for high, _ in halves), sum(low for _, low in halves)
    )


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale))


TIMES = st.datetimes(EPOCH.replace(year=1900), EPOCH.replace(year=2200))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.integers(-(2**63), 2**63 - 1),
            "flag": st.none() | st.booleans(),
            "price": st.none() | decimals(12, 2),
            "large": st.none() | decimals(28, 4),
            "name": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
            "code": st.none() | st.binary(max_size=90),
            "born": st.none() | st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
            "at": st.none() | TIMES,
            "at_ms": st.none() | TIMES.map(lambda time: time.replace(microsecond=123_000)),
            "real": st.none() | st.floats(allow_nan=False),
            "half": st.none() | st.floats(allow_nan=False, width=32),
        }
    ),
    max_size=12,
)


@given(ROWS)
def test_the_checksum_is_the_sum_of_md5_over_the_documented_texts(rows: list[Any]) -> None:
    assert sum_of_rows(batch_of(rows), PLACED) == model_sum(rows)


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_the_checksum_ignores_the_order_and_adds_up(
    rows: list[Any], rng: random.Random, cut: int
) -> None:
    shuffled_rows = rng.sample(rows, len(rows))
    parts = [
        sum_of_rows(batch_of(part), PLACED) for part in (shuffled_rows[:cut], shuffled_rows[cut:])
    ]
    assert sum(parts, NO_ROWS) == sum_of_rows(batch_of(rows), PLACED)


@given(ROWS, ROWS)
def test_changes_lead_to_the_checksum_of_the_rows_that_stay(stay: list[Any], go: list[Any]) -> None:
    kinds = [0] * len(stay + go) + [3] * len(go)
    batch = batch_of(stay + go + go)
    changes = batch.add_column(0, "_VALUE_KIND", pa.array(kinds, pa.int8()))
    change = sum_of_changes(changes, PLACED)
    assert change.total == sum_of_rows(batch_of(stay), PLACED)
    assert change.open_update_count == 0


def test_an_update_without_the_row_before_is_open() -> None:
    row = {"k": 1}
    for kinds, is_open in (([1, 2], 0), ([2], 1), ([1, 2, 2], 1)):
        batch = batch_of([row] * len(kinds))
        changes = batch.add_column(0, "_VALUE_KIND", pa.array(kinds, pa.int8()))
        assert sum_of_changes(changes, PLACED).open_update_count == is_open


def test_a_column_that_is_null_everywhere_changes_nothing() -> None:
    rows = batch_of([{"k": 1, "name": "a"}, {"k": 2}])
    fewer = tuple(pair for pair in PLACED if pair[1].name in ("k", "name"))
    assert sum_of_rows(rows, PLACED) == sum_of_rows(rows.select(["k", "name"]), fewer)


def test_texts_of_neighbours_do_not_run_into_each_other() -> None:
    columns = parse_columns("a STRING, b STRING")
    schema = arrow_schema(columns)

    def sums(a: str | None, b: str | None) -> RowSum:
        batch = pa.RecordBatch.from_pylist([{"a": a, "b": b}], schema=schema)
        return sum_of_rows(batch, tuple(enumerate(columns)))

    rows = [("x", "y"), ("x;1=1:y", None), ("", "xy"), (None, "xy"), ("xy", ""), ("xy", None)]
    assert len({sums(*row) for row in rows}) == len(rows)


def test_nan_has_one_text() -> None:
    numbers = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    batch = pa.RecordBatch.from_arrays([pa.array(numbers)], names=["real"])
    columns = ((9, COLUMNS.field("real")),)
    data, _ = row_texts(batch, columns)
    assert bytes(data) == b"9=7ff8000000000000;" * 2


@pytest.mark.parametrize(
    ("kind", "values", "text", "shown"),
    [
        (
            "ARRAY<STRING>",
            ["a", None, "", "é];,"],
            "[1:a,null,0:,5:é];,]",
            "['a', null, '', 'é];,']",
        ),
        ("ARRAY<INT>", [], "[]", "[]"),
        ("ARRAY<INT>", [None], "[null]", "[null]"),
        ("ARRAY<DECIMAL(5,2)>", [Decimal("-1.50")], "[-150]", "[-1.50]"),
        ("ARRAY<BOOLEAN>", [True, False], "[1,0]", "[1, 0]"),
        ("ARRAY<ARRAY<INT>>", [[1, None], None, []], "[[1,null],null,[]]", "[[1, null], null, []]"),
    ],
)
def test_the_text_of_an_array(kind: str, values: list[Any], text: str, shown: str) -> None:
    fields = parse_columns(f"a {kind}, b INT")
    columns, schema = tuple(enumerate(fields)), arrow_schema(fields)
    rows = [{"a": None, "b": 1}, {"a": values, "b": 7}, {"a": values, "b": None}]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    data, offsets = row_texts(batch, columns)
    assert bytes(data).decode() == f"1=1;0={text};1=7;0={text};"
    assert readable_texts(bytes(data[offsets[1] : offsets[2]]), columns) == f"a = {shown}, b = 7"
    sliced_data, _ = row_texts(batch.slice(2), columns)
    assert bytes(sliced_data).decode() == f"0={text};"


@pytest.mark.parametrize("at_once", [0, 1, 3, 499, 500, 20_000])
def test_md5_is_that_of_hashlib_for_every_length(at_once: int, seed: int) -> None:
    rng = random.Random(seed)
    texts = [
        rng.randbytes(rng.choice([0, 55, 56, 63, 64, 65, 119, 120, 300])) for _ in range(at_once)
    ]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    high, low = md5_lanes(np.frombuffer(b"".join(texts), np.uint8), offsets)
    expected = [hashlib.md5(text, usedforsecurity=False).hexdigest() for text in texts]
    assert [
        f"{a:016x}{b:016x}" for a, b in zip(high.tolist(), low.tolist(), strict=True)
    ] == expected
