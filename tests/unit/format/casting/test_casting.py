"""Casts convert values between types, in cases that need no Java as a judge.

`tests/interop/columns/test_altered_types.py` has every pair before Paimon's Java.
"""

from __future__ import annotations

import datetime as dt
import random
import struct
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.rules import can_be_read_as, cast_rule, read_as
from stream_app.model.schema.data_type import parse_data_type

moment = dt.datetime.fromisoformat


def cast(stored_type: str, wanted_type: str, values: list[Any]) -> list[Any]:
    old, new = parse_data_type(stored_type), parse_data_type(wanted_type)
    array = pa.array([None, *values, None], arrow_type(old))
    # A slice, as a part of a batch is one.
    cells = read_as(array.slice(1, len(values)), old, new)
    assert cells.type == arrow_type(new)
    assert len(read_as(array.slice(0, 0), old, new)) == 0
    assert read_as(array.slice(0, 1), old, new).null_count == 1
    return cells.to_pylist()


@pytest.mark.parametrize(
    ("stored_type", "wanted_type", "values", "expected"),
    [
        ("DATE", "STRING", [dt.date(9999, 12, 31)], ["9999-12-31"]),
        # Paimon up to 1.4 gives the day after, later versions this one.
        ("TIMESTAMP(3)", "DATE", [moment("1969-12-31T23:00")], [dt.date(1969, 12, 31)]),
        ("TIMESTAMP(6)", "TIME(3)", [moment("1969-12-31T23:00")], [dt.time(23)]),
        ("STRING", "DATE", ["2024-12-31 23:59:59"], [dt.date(2024, 12, 31)]),
        ("DOUBLE", "STRING", [1e23, 2e-7, 1e16], ["1.0E23", "2.0E-7", "1.0E16"]),
        ("FLOAT", "STRING", [2147483648.0], ["2.1474836E9"]),
        ("STRING", "DECIMAL(3,1)", ["99.95", "99.94"], [None, Decimal("99.9")]),
        ("DECIMAL(38,0)", "DECIMAL(38,38)", [Decimal(10**37), Decimal(0)],
         [None, Decimal("0E-38")]),
    ],
)  # fmt: skip
def test_a_cast_gives_a_value_of_the_wanted_type(
    stored_type: str, wanted_type: str, values: list[Any], expected: list[Any]
) -> None:
    assert cast(stored_type, wanted_type, values) == expected


def test_inside_a_value_comments_do_not_count_and_null_may_become_possible() -> None:
    """Another engine's ALTER TABLE does so, and readers need no rewrite of earlier files."""
    old = parse_data_type("ARRAY<ROW<a INT NOT NULL, m MAP<STRING, INT NOT NULL>>>")
    new = parse_data_type("ARRAY<ROW<a INT, m MAP<STRING, INT>>>")
    assert new.element is not None
    fields = tuple(replace(field, description="x") for field in new.element.fields)
    new = replace(new, element=replace(new.element, fields=fields))
    values = [[{"a": 1, "m": [("k", 2)]}, None], None, []]
    cells = read_as(pa.array([None, *values], arrow_type(old)).slice(1), old, new)
    assert (cells.type, cells.to_pylist()) == (arrow_type(new), values)
    assert can_be_read_as(old, new)
    assert not can_be_read_as(new, old)

    # Fields of other ids are other fields, added since.
    renumbered_type = new.with_new_ids(count(7))
    assert can_be_read_as(old, renumbered_type)
    cells = read_as(pa.array(values, arrow_type(old)), old, renumbered_type)
    assert cells.to_pylist() == [[{"a": None, "m": None}, None], None, []]


def test_each_pair_keeps_nulls_and_takes_no_rows() -> None:
    kinds = [
        "BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,38)",
        "CHAR(3)", "STRING", "BINARY(3)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(0)",
        "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    ]  # fmt: skip
    pairs = [(a, b) for a in kinds for b in kinds if a != b]
    readable = [pair for pair in pairs if can_be_read_as(*map(parse_data_type, pair))]
    assert len(readable) > 100
    for stored_type, wanted_type in readable:
        assert cast(stored_type, wanted_type, []) == []
        assert cast(stored_type, wanted_type, [None, None]) == [None, None]


def test_doubles_are_written_so_that_they_come_back(seed: int) -> None:
    noise = random.Random(seed)
    values = [struct.unpack("<d", noise.randbytes(8))[0] for _ in range(3000)]
    values = [value for value in values if value == value]  # noqa: PLR0124 - NaN
    texts = cast("DOUBLE", "STRING", values)
    assert [float(text) for text in texts] == values
    for value, text in zip(values, texts, strict=True):
        assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert cast("STRING", "DOUBLE", texts) == values


def test_decimals_are_rounded_half_up_whatever_the_scale(seed: int) -> None:
    noise = random.Random(seed)
    for _ in range(60):
        old_scale, new_scale = noise.randrange(39), noise.randrange(39)
        unscaled_values = [noise.randrange(-(10**38) + 1, 10**38) // 10 ** noise.randrange(38)
                    for _ in range(20)]  # fmt: skip
        with localcontext() as context:
            context.prec = 200
            values = [Decimal(number).scaleb(-old_scale) for number in unscaled_values]
            quantum = Decimal(1).scaleb(-new_scale)
            rounded_values = [value.quantize(quantum, ROUND_HALF_UP) for value in values]
            expected = [
                None if abs(number.scaleb(new_scale)) >= 10**38 else number
                for number in rounded_values
            ]
        cells = cast(f"DECIMAL(38,{old_scale})", f"DECIMAL(38,{new_scale})", values)
        assert cells == expected
        texts = [format(value, "f") for value in values]
        assert cast("STRING", f"DECIMAL(38,{new_scale})", texts) == expected


@pytest.mark.parametrize(
    ("stored_type", "wanted_type", "value"),
    [
        ("DOUBLE", "DECIMAL(5,2)", float("nan")),
        ("STRING", "INT", "x" * 500),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", moment("3000-01-01T00:00")),
        ("STRING", "TIMESTAMP(9)", "0001-01-01"),
    ],
)
def test_values_without_a_counterpart_are_refused(
    stored_type: str, wanted_type: str, value: Any
) -> None:
    with pytest.raises(CastError, match="is not a valid ") as raised:
        cast(stored_type, wanted_type, [value])
    assert len(str(raised.value)) < 150


BERLIN = [
    # What the wall of Berlin shows, in winter, in summer, in the gap and in the hour that is twice.
    (moment("2024-01-01T12:00"), moment("2024-01-01T11:00")),
    (moment("2024-07-01T00:30"), moment("2024-06-30T22:30")),
    (moment("2024-03-31T02:30"), moment("2024-03-31T01:30")),
    (moment("2024-10-27T02:30"), moment("2024-10-27T00:30")),
]


def test_instants_are_seen_on_the_machines_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    local = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    walls, instants = zip(*BERLIN, strict=True)
    utc = [instant.replace(tzinfo=dt.UTC) for instant in instants]
    assert cast("TIMESTAMP(6)", local, list(walls)) == utc
    assert cast("STRING", local, [f"{wall:%Y-%m-%d %H:%M:%S}" for wall in walls]) == utc
    shown = [wall if wall.month != 3 else wall + dt.timedelta(hours=1) for wall in walls]
    assert cast(local, "TIMESTAMP(6)", utc) == shown
    assert cast(local, "STRING", utc) == [f"{wall:%Y-%m-%d %H:%M:%S}.000000" for wall in shown]
    assert cast(local, "DATE", [dt.datetime(2024, 1, 1, 23, 30, tzinfo=dt.UTC)]) == [
        dt.date(2024, 1, 2)
    ]
    assert cast("DATE", local, [dt.date(2024, 7, 1)]) == [
        dt.datetime(2024, 6, 30, 22, tzinfo=dt.UTC)
    ]


def test_there_is_one_rule_for_a_pair() -> None:
    assert cast_rule(parse_data_type("INT"), parse_data_type("STRING")) is not None
    assert cast_rule(parse_data_type("BYTES"), parse_data_type("INT")) is None
