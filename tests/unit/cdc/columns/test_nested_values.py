"""Columns of type ARRAY, MAP and ROW take JSON arrays, objects, and texts of these."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pytest

from stream_app.cdc.change_batch import TableTraits
from tests.support.messages.debezium_messages import (
    Bad,
    a_format,
    event,
    messages,
    reasons_of,
    rows_of,
    value_of,
)

BAD = "(bad record)"
D = Decimal
PLACEHOLDER = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("column_type", "text", "want"),
    [
        ("ARRAY<INT>", "[1,null,3]", [1, None, 3]),
        ("ARRAY<INT>", "[]", []),
        ("ARRAY<INT>", "null", None),
        ("ARRAY<INT>", "5", BAD),
        ("ARRAY<INT>", "true", BAD),
        ("ARRAY<INT>", "{}", BAD),
        ("ARRAY<INT>", "[2147483648]", BAD),
        ("ARRAY<INT>", '["7"]', [7]),
        ("ARRAY<INT>", '[1,"x"]', BAD),
        ("ARRAY<INT>", "[[1]]", BAD),
        ("ARRAY<INT NOT NULL>", "[1,null]", BAD),
        ("ARRAY<ARRAY<BIGINT>>", "[[1],null,[9007199254740993]]", [[1], None, [2**53 + 1]]),
        ("ARRAY<STRING>", '["a","é\\u0001",null]', ["a", "é\x01", None]),
        ("ARRAY<STRING>", r'["\ud83d\ude00"]', ["\U0001f600"]),
        ("ARRAY<STRING>", "[1.50,true]", ["1.50", "true"]),
        ("ARRAY<DECIMAL(5,2)>", "[1.5,12,0.10]", [D("1.50"), D("12.00"), D("0.10")]),
        ("ARRAY<DECIMAL(5,2)>", "[1.005]", BAD),
        ("ARRAY<DECIMAL(38,2)>", '["1e-1000000000"]', BAD),
        ("ARRAY<DATE>", '["2024-02-29"]', [dt.date(2024, 2, 29)]),
        ("ARRAY<DATE>", "[19782]", BAD),
        ("ARRAY<BYTES>", '["AQI="]', [b"\x01\x02"]),
        ("ARRAY<BYTES>", '["?"]', BAD),
        ("ARRAY<BOOLEAN>", "[true,false,null]", [True, False, None]),
        ("ARRAY<DOUBLE>", "[1,2.5,1e3]", [1.0, 2.5, 1000.0]),
        ("VECTOR<FLOAT, 3>", "[1,2.5,-0.1]", [1.0, 2.5, -0.10000000149011612]),
        ("VECTOR<INT, 2>", "[1,2]", [1, 2]),
        ("VECTOR<INT, 2>", "null", None),
        ("VECTOR<INT, 2>", "[1]", BAD),
        ("VECTOR<INT, 2>", "[1,2,3]", BAD),
        ("VECTOR<INT, 2>", "[]", BAD),
        ("VECTOR<INT, 2>", "[1,null]", BAD),
        ("VECTOR<BOOLEAN, 1>", '["x"]', BAD),
        ("ROW<a INT, v VECTOR<INT, 2>>", '{"v":[1,2,3]}', BAD),
        ("ROW<a INT, b STRING>", '{"b":"x","a":1}', {"a": 1, "b": "x"}),
        ("ROW<a INT, b STRING>", '{"c":1}', {"a": None, "b": None}),
        ("ROW<a INT NOT NULL, b STRING>", '{"b":"x"}', BAD),
        ("ROW<a INT>", '{"a":1,"a":2}', BAD),
        ("ROW<a INT>", "[1]", BAD),
        ("ROW<r ROW<s ARRAY<INT>>>", '{"r":{"s":[1]}}', {"r": {"s": [1]}}),
        ("MAP<STRING, INT>", '{"b":1,"a":null}', [("b", 1), ("a", None)]),
        ("MAP<STRING, INT>", "{}", []),
        ("MAP<STRING, INT>", '{"a":1,"a":2}', BAD),
        ("MAP<STRING, INT>", "[]", BAD),
        ("MAP<STRING, INT NOT NULL>", '{"a":null}', BAD),
        ("MAP<INT, STRING>", '{"1":"x","-2":2}', [(1, "x"), (-2, "2")]),
        ("MAP<INT, STRING>", '{"x":"x"}', BAD),
        ("MAP<DATE, ARRAY<INT>>", '{"2024-02-29":[1]}', [(dt.date(2024, 2, 29), [1])]),
        ("ARRAY<MAP<STRING, ROW<v INT>>>", '[{"a":{"v":1}}]', [[("a", {"v": 1})]]),
    ],
)  # fmt: skip
def test_a_value_is_read_alike_as_json_and_as_a_text_of_json(
    column_type: str, text: str, want: Any
) -> None:
    """PostgreSQL's jsonb and MySQL's JSON come as texts."""
    for value in (text, json.dumps(text)):
        got = value_of(column_type, value)
        if want == BAD:
            assert isinstance(got, Bad), (value, got)
        else:
            assert repr(got) == repr(want), value


@pytest.mark.parametrize("text", ['"[1"', '"x"', '"1],[2"', '"[1],\\"x\\":[2]"', '"[1] [2]"', '""'])
def test_a_text_that_is_not_a_single_document_is_bad(text: str) -> None:
    assert isinstance(value_of("ARRAY<INT>", text), Bad)


def test_a_text_of_null_is_null() -> None:
    assert value_of("ARRAY<INT>", '"null"') is None


def test_a_text_that_nests_too_deeply_is_bad() -> None:
    assert isinstance(value_of("ARRAY<STRING>", json.dumps("[" * 200 + "]" * 200)), Bad)


@pytest.mark.parametrize(
    ("column_type", "text"),
    [
        ("ARRAY<STRING>", r'["a","\ud800"]'),
        ("MAP<STRING, STRING>", r'{"\udc00":"a"}'),
        ("ROW<`a` STRING>", r'{"a":"\ud800x","a b":1}'),
    ],
)
def test_a_text_with_half_of_a_surrogate_pair_does_not_fit(column_type: str, text: str) -> None:
    reason = value_of(column_type, json.dumps(text))
    assert reason == f"column 'v' ({column_type}): \"{text}\" is not a value of that type"


def test_the_reason_names_the_column_its_type_and_the_value() -> None:
    assert value_of("ARRAY<INT>", '[1,"x"]') == (
        "column 'v' (ARRAY<INT>): [1,\"x\"] is not a value of that type"
    )
    assert value_of("MAP<STRING, INT>", "7") == "column 'v' (MAP<STRING, INT>): 7 is a JSON number"


@pytest.mark.parametrize("as_text", [False, True])
def test_nested_values_are_parsed_in_a_batch_as_alone(as_text: bool, seed: int) -> None:
    """Good and bad ones are parsed together, then apart."""
    rng = random.Random(seed)
    columns = "id BIGINT, a ARRAY<DECIMAL(9,2)>, r ROW<x INT NOT NULL, y ARRAY<STRING>>"
    pairs = [
        (
            rng.choice([None, [], [1.5, None], [2, 0.25], [1e20] if rng.random() < 0.1 else [3]]),
            rng.choice([None, {"x": 1, "y": None}, {"x": 2, "y": ["a", None]}, {"x": 5, "z": 1},
                        {} if rng.random() < 0.1 else {"x": 7}]),
        )
        for _ in range(500)
    ]  # fmt: skip
    texts = [
        json.dumps({"id": index, "a": json.dumps(a) if as_text and a is not None else a,
                    "r": json.dumps(r) if as_text and r is not None else r})
        for index, (a, r) in enumerate(pairs)
    ]  # fmt: skip
    decoded_batch = a_format(columns).decode(messages(*(event(after=text) for text in texts)))
    bad_indices = {index for index, (a, r) in enumerate(pairs) if a == [1e20] or r == {}}
    assert reasons_of(decoded_batch).keys() == bad_indices
    expected = [
        (index, None if a is None else [None if x is None else D(str(x)) for x in a],
         None if r is None else {"x": r["x"], "y": r.get("y")})
        for index, (a, r) in enumerate(pairs) if index not in bad_indices
    ]  # fmt: skip
    assert [row[2:] for row in rows_of(decoded_batch)] == expected


def test_an_array_that_was_not_sent_takes_the_value_before() -> None:
    """Debezium sends a stand-in for values that PostgreSQL has stored apart and left unchanged."""
    decoder = a_format("id BIGINT, v ARRAY<STRING>, n ARRAY<INT>, j MAP<STRING, INT>")
    old = '{"id":1,"v":["a"],"n":[1,2],"j":"{\\"k\\":1}"}'
    raw = json.dumps(list(PLACEHOLDER.encode()))
    new = f'{{"id":1,"v":["{PLACEHOLDER}"],"n":{raw},"j":"{PLACEHOLDER}"}}'
    decoded_batch = decoder.decode(
        messages(event(after=old), event("u", before=old, after=new), event("u", after=new))
    )
    assert [row[2:] for row in rows_of(decoded_batch)] == [(1, ["a"], [1, 2], [("k", 1)])] * 3
    assert "REPLICA IDENTITY FULL" in reasons_of(decoded_batch)[2]


def test_a_delete_whose_image_has_the_key_alone() -> None:
    columns = "id BIGINT, a ARRAY<INT> NOT NULL, m MAP<STRING, INT>, r ROW<x INT NOT NULL> NOT NULL"
    decoder = a_format(columns, traits=TableTraits(), options={"replica-identity": "default"})
    image = '{"id":1,"a":[0],"m":null,"r":{"x":0}}'
    decoded_batch = decoder.decode(messages(event("d", before=image)))
    assert decoded_batch.bad_records.num_rows == 0
    assert [row[:3] for row in rows_of(decoded_batch)] == [(0, "-D", 1)]
