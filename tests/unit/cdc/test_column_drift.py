"""The drift of many records is the sum of each record's unknown and missing columns."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.cdc.column_drift import DriftedColumn, DriftKind, Sighting
from stream_app.cdc.json_records.decoder_choice import ARRAYS, COMPILED, DECODER
from tests.support.messages.debezium_messages import a_format, event, messages

COLUMNS = "id BIGINT, v STRING, w STRING, n DECIMAL(38,2), j STRING"
NAMES = {"id", "v", "w", "n", "j"}
Row = dict[str, Any]
Change = Callable[[Row, int], None]
COUNT = 3000


def put(name: str, value: object = "x") -> Change:
    return lambda row, _: row.update({name: value})


def drop(name: str) -> Change:
    return lambda row, _: row.pop(name, None)


def rename(old: str, new: str) -> Change:
    return lambda row, _: row.update({new: row.pop(old)})


def change_between(change: Change, start: int, stop: int = COUNT) -> Change:
    return lambda row, number: change(row, number) if start <= number < stop else None


SCENARIOS: dict[str, list[Change]] = {
    "nothing": [],
    "always": [put("phone", None), drop("w")],
    "from one record on": [change_between(put("phone"), 1717)],
    "one record": [change_between(put("phone"), 1717, 1718)],
    "some records": [change_between(put("phone"), 40, 90), change_between(put("fax"), 60, 61)],
    "dropped": [change_between(drop("v"), 2999)],
    "dropped for a while": [change_between(drop("w"), 5, 7)],
    "renamed": [change_between(rename("v", "v2"), 1000)],
    "renamed and back": [change_between(rename("v", "v2"), 1000, 1001)],
    "one comes, another goes": [change_between(put("phone"), 100), change_between(drop("w"), 2000)],
    "in turns": [lambda row, number: row.update(phone=1) if number % 3 else None],
    "several at once": [
        change_between(put("a"), 9),
        change_between(put("b"), 9),
        change_between(drop("w"), 9),
    ],
    "an object": [change_between(put("o", {"v": 1, "w": [{"j": 2}]}), 8)],
}


def record(rng: random.Random, number: int, changes: list[Change], shape: str) -> str:
    def image() -> Row:
        # n: a number of variable scale is an object, and j a text with names of its own.
        scaled_value = {"scale": 1, "value": "Aw=="} if rng.random() < 0.8 else None
        inner = json.dumps({name: 1 for name in "abcd"[: rng.randrange(5)]})
        row: Row = {"id": number, "v": "v", "w": rng.choice(["w", None]), "n": None, "j": None}
        if shape == "varied":
            row |= {"n": scaled_value, "j": inner}
        for change in changes:
            change(row, number)
        return row

    # Where something comes or goes for a moment there is no delete: one of a renamed column has as
    # many fields as any other, and lacks nothing.
    op = rng.choice("ccuuu" if number in (1000, COUNT - 1) else "ccuuud")
    if shape == "flat":
        return json.dumps(image() | {"__op": op, "__ts": 1}, separators=(",", ":"))
    before = None if op == "c" or rng.random() < 0.2 else image()
    if op == "d":
        before = {"id": number} if before is None else image()
    event = {
        "before": before,
        "after": None if op == "d" else image(),
        "source": {"name": 'a "quoted": name', "lsn": number},
        "op": op,
        "transaction": {"id": "x", "total_order": number, "data_collection_order": 1},
    }
    if shape == "varied" and rng.random() < 0.3:
        event["transaction"] = None
    return json.dumps(event, separators=(",", ":"))


def columns_of_one(value: str) -> set[DriftedColumn]:
    """The rule, without the product."""
    document = json.loads(value)
    if "after" in document:
        before, after = document["before"], document["after"]
    else:
        row = {name: value for name, value in document.items() if not name.startswith("__")}
        before, after = (row, None) if document["__op"] == "d" else (None, row)
    unknown = {*(before or ()), *(after or ())} - NAMES
    missing = NAMES - set(NAMES if after is None else after)
    return {(DriftKind.UNKNOWN, name) for name in unknown} | {
        (DriftKind.MISSING, name) for name in missing
    }


@pytest.mark.parametrize("shape", ["plain", "varied", "flat"])
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.slow
def test_column_drift_of_a_batch_is_the_sum_over_its_records(name: str, shape: str) -> None:
    rng = random.Random(f"{name} {shape}")
    values = [record(rng, index, SCENARIOS[name], shape) for index in range(COUNT)]
    expected: dict[DriftedColumn, Sighting] = {}
    for index, value in enumerate(values):
        for column in columns_of_one(value):
            sighting = Sighting(1, index)
            expected[column] = expected[column].plus(sighting) if column in expected else sighting
    assert bool(expected) == (name != "nothing")
    assert a_format(COLUMNS).decode(messages(*values)).drift == expected


def test_records_that_the_parser_refuses_are_counted_once() -> None:
    """The batch has good and bad records, other kinds of values, and blanks before the colon."""
    plain = '{"op":"c","after":{"id":1,"v":"a","w":"b","n":null,"j":null,"phone":1}}'
    odd = plain.replace('"a"', "[1]")
    blanks = plain.replace('":', '" :')
    bad_message = plain.replace('"id":1', '"id":"x"')
    values = [plain] * 50 + [odd, blanks, bad_message] * 5 + [plain.replace(',"w":"b"', "")]
    random.Random(1).shuffle(values)
    decoded_batch = a_format(COLUMNS).decode(messages(*values))
    assert decoded_batch.bad_records.num_rows == 5
    counts = {name: sighting.record_count for (_, name), sighting in decoded_batch.drift.items()}
    assert counts == {"phone": 61, "w": 1}


@pytest.mark.parametrize("decoder", [ARRAYS, COMPILED])
def test_a_last_record_without_images_hides_no_column(decoder: str) -> None:
    if decoder == COMPILED:
        pytest.importorskip("numba")
    row = '{"id":1,"v":"a","w":"b","n":null,"j":null}'
    plain, more = (event(after=image) for image in (row, row.replace("}", ',"phone":1}')))
    values = [plain] * 9 + [more] * 3 + [event("u")]
    decoded_batch = a_format(COLUMNS, options={DECODER: decoder}).decoder.decode(messages(*values))
    assert decoded_batch.bad_records.num_rows == 1
    assert decoded_batch.drift == {(DriftKind.UNKNOWN, "phone"): Sighting(3, 9)}


@pytest.mark.parametrize("decoder", [ARRAYS, COMPILED])
@pytest.mark.parametrize("name", ["maxwell-json", "debezium-json"])
def test_a_number_that_no_double_holds_hides_no_column(name: str, decoder: str) -> None:
    if decoder == COMPILED:
        pytest.importorskip("numba")
    row = '{"id":1,"v":"a","phone":1e400}'
    maxwell = f'{{"database":"d","table":"t","type":"insert","ts":1,"data":{row}}}'
    value = maxwell if name == "maxwell-json" else event(after=row)
    decode = a_format(name=name, options={DECODER: decoder}).decoder.decode
    few, many = (value.replace("1e400", "1"), *[value] * 5), [value] * 20
    assert decode(messages(*few)).drift == {(DriftKind.UNKNOWN, "phone"): Sighting(6, 0)}
    assert decode(messages(*many)).drift == {(DriftKind.UNKNOWN, "phone"): Sighting(20, 0)}
