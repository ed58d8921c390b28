"""Every format of `cdc.json_records` decodes a message alike in columns and one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch
from stream_app.cdc.column_drift import ColumnPolicy, DriftReaction
from stream_app.cdc.json_records.batch_outcome import BatchOutcome
from stream_app.cdc.json_records.decoder import PlacedValues, SchemaGroup
from stream_app.cdc.json_records.decoder_choice import ARRAYS, COMPILED, DECODER, DECODER_OPTION
from stream_app.cdc.json_records.dialect_format import DialectDecoder
from stream_app.cdc.json_records.json_options import OnTruncate
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_format_registry import FORMATS
from stream_app.model.schema.data_type import RowType, parse_columns
from tests.support.messages.debezium_messages import reasons_of, rows_of

COLUMNS = parse_columns(
    "id INT, v STRING, n DECIMAL(10,2), t TIMESTAMP(3), b BYTES, f BOOLEAN, e STRING, "
    "l ARRAY<DECIMAL(9,2)>, o ROW<a INT NOT NULL, b ARRAY<STRING>>, m MAP<STRING, INT>"
)
PLAIN_COLUMNS = RowType(COLUMNS.fields[:-3])
"""Those that machine code takes."""
SEEDS = 10
Row = dict[str, Any]


def a_row(rng: random.Random, *, texts: bool) -> Row:
    row: Row = {
        "id": rng.randrange(5),
        "v": rng.choice(["a", "null", '"old":{"v":null}', "ü\u0001", "{", ""]),
        "n": rng.choice([1.5, 12, -0.01, 1e20]),
        "t": rng.choice(["2024-02-29 23:59:59.123", "2024-02-29", "0000-00-00"]),
        "b": rng.choice(["AQID", "", "ÿ", "0xFF", "00ff"]),
        "f": rng.choice([0, 1, 2]),
        "e": rng.choice(["1", "2", "3", "x"]),
        "l": rng.choice([[], [1.5, None], [2], [1, 1e20], [[1]], '["1"]'] + [[1]] * 9),
        "o": rng.choice([{}, {"a": 1, "c": 5}, {"a": "x"}, 5] + [{"a": 1, "b": ["ü", None]}] * 9),
        "m": rng.choice(['{"a":1,"b":null}', "{}", '{"a":1,"a":2}', '{"a":[1]}', "null"]),
    }
    if texts:
        row = {name: v if isinstance(v, str) else json.dumps(v) for name, v in row.items()}
    for name in row:
        if rng.random() < 0.2:
            row[name] = None
    return row


def some_fields(rng: random.Random, row: Row) -> Row:
    return {name: value for name, value in row.items() if rng.random() < 0.4}


def maxwell(rng: random.Random) -> Row:
    kind = rng.choice(["insert", "update", "update", "delete", "bootstrap-insert", "table-alter"])
    message: Row = {"database": "d", "table": "t", "type": kind, "ts": 1}
    message["data"] = a_row(rng, texts=False)
    if kind == "update":
        message["old"] = some_fields(rng, a_row(rng, texts=False))
    return message


def canal(rng: random.Random) -> Row:
    kind = rng.choice(["INSERT", "UPDATE", "UPDATE", "DELETE", "ROW", "QUERY"])
    rows = [a_row(rng, texts=True) for _ in range(rng.choice([1, 1, 2, 3]))]
    old = [some_fields(rng, a_row(rng, texts=True)) for _ in rows] if kind == "UPDATE" else None
    types = {"id": "int", "e": rng.choice(["enum('a','b')", "set('a','b')", "text", "point"])}
    return {
        "data": rows,
        "database": "d",
        "isDdl": rng.choice([False, False, None]),
        "mysqlType": rng.choice([types, types, None]),
        "old": old,
        "pkNames": ["id"],
        "table": "t",
        "type": kind,
    }


def ogg(rng: random.Random) -> Row:
    kind = rng.choice(["I", "U", "U", "D"])
    message: Row = {"table": "S.T", "op_type": kind}
    before, after = a_row(rng, texts=False), a_row(rng, texts=False)
    if rng.random() < 0.5:
        before, after = some_fields(rng, before), some_fields(rng, after)
        before["id"] = 1
    if rng.random() < 0.1:
        after["v_isMissing"] = rng.choice([True, False, "true"])
    if kind != "I":
        message["before"] = before
    if kind != "D":
        message["after"] = after
    return message


def dms(rng: random.Random) -> Row:
    operation = rng.choice(["load", "insert", "update", "update", "delete", "create-table"])
    data = a_row(rng, texts=False)
    if operation == "update" and rng.random() < 0.8:
        old = a_row(rng, texts=False)
        old = some_fields(rng, old) if rng.random() < 0.5 else old
        data |= {f"BI_{name}": value for name, value in old.items()}
    kind = "control" if operation == "create-table" else "data"
    metadata = {"record-type": kind, "operation": operation, "schema-name": "d", "table-name": "t"}
    return {"data": data, "metadata": metadata}


def plain(rng: random.Random) -> Row:
    return (
        some_fields(rng, a_row(rng, texts=False)) if rng.random() < 0.3 else a_row(rng, texts=False)
    )


GENERATORS: dict[str, Callable[[random.Random], Row]] = {
    "maxwell-json": maxwell,
    "canal-json": canal,
    "ogg-json": ogg,
    "aws-dms-json": dms,
    "json": plain,
}
ODD_VALUES: tuple[Any, ...] = (None, 5, "x", True, [], {}, [1], {"v": None}, [{"id": 1}], 1.5)


def mangled_message(rng: random.Random, document: Row) -> str:
    """A message with one fault, or none."""
    places = [document, *_objects(document)]
    place = rng.choice(places)
    match rng.randrange(9):
        case 0 if place:
            place[rng.choice(list(place))] = rng.choice(ODD_VALUES)
        case 1 if place:
            del place[rng.choice(list(place))]
        case 2:
            place["phone"] = rng.choice(ODD_VALUES)
        case 3:
            return json.dumps(document, indent=1)
        case 4:
            text = json.dumps(document)
            return text[: rng.randrange(len(text))] if rng.random() < 0.3 else text + " "
        case 5:
            text = json.dumps(document, separators=(",", ":"))
            names = [name for name in ("id", "type", "data", "op_type", "after") if name in text]
            twice = rng.choice(names) if names else "id"
            return text.replace(f'"{twice}":', f'"{twice}":null,"{twice}":', 1)
        case 6:
            return json.dumps(document).replace('"v"', '"\\u0076"')
    return json.dumps(document, separators=(",", ":"), ensure_ascii=rng.random() < 0.5)


def _objects(value: Any) -> Iterator[Row]:
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict):
            yield item
        if isinstance(item, dict | list):
            yield from _objects(item)


def format_of(name: str, rng: random.Random, decoder: str) -> DialectDecoder:
    options = {
        "maxwell-json": {},
        "canal-json": {"truncate": "ignore"},
        "ogg-json": {"compressed-updates": rng.choice(["quarantine", "null"])},
        "aws-dms-json": {"update-keys": rng.choice(["proven", "unchanged"])},
        "json": rng.choice([{}, {"key-columns": "id,n"}, {"key-columns": "id,v"}]),
    }[name]
    reaction = rng.choice(["warn", "ignore", "quarantine"])
    columns = rng.choice([COLUMNS, PLAIN_COLUMNS])
    setup = FormatSetup(
        columns=columns,
        arrow_schema=arrow_schema(columns),
        primary_keys=rng.choice([("id",), ("id", "v"), ()]),
        options={
            **options,
            "unknown-columns": reaction,
            "missing-columns": reaction,
            **({DECODER: decoder} if DECODER_OPTION in FORMATS[name].options else {}),
        },
        keeps_update_before=rng.random() < 0.7,
    )
    message_format = FORMATS[name].make(setup)
    assert isinstance(message_format, DialectDecoder)
    return message_format


def a_batch(rng: random.Random, texts: list[str]) -> pa.RecordBatch:
    keys = [
        '{"id":1}',
        '{"id":2,"n":"1.00"}',
        None,
        "5",
        "[]",
        '{"id":null}',
        '{"id":1,"id":2}',
        "{",
    ]
    rows = [
        {
            "topic": "t",
            "partition": 0,
            "offset": index,
            "key": None if (key := rng.choice(keys)) is None else key.encode(),
            "value": text.encode(),
        }
        for index, text in enumerate(texts)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def one_by_one(decoder: DialectDecoder, messages: pa.RecordBatch) -> DecodedBatch:
    """Return the outcome of messages that all take the slow path."""
    policy = ColumnPolicy(
        columns=frozenset(COLUMNS.names),
        unknown_reaction=DriftReaction.WARN,
        missing_reaction=DriftReaction.WARN,
    )
    policy = getattr(decoder, "_policy", policy)
    outcome = BatchOutcome(
        messages=messages, section="x", policy=policy, on_truncate=OnTruncate.IGNORE
    )
    group = getattr(decoder, "_group", None)
    assert isinstance(group, SchemaGroup)
    index = np.arange(messages.num_rows, dtype=np.int32)
    decoder.decode_one_by_one(
        PlacedValues(messages.column("value"), index, messages), group, outcome
    )
    return outcome.decoded_batch(decoder.decode(messages.slice(0, 0)).changes.rows.schema, {})


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.slow
def test_a_message_means_the_same_in_columns_and_alone(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    decoder = format_of(name, rng, ARRAYS)
    generate = GENERATORS[name]
    faulty = rng.choice([0.0, 0.1, 0.5])
    texts = [
        mangled_message(rng, generate(rng))
        if rng.random() < faulty
        else json.dumps(generate(rng), separators=(",", ":"), ensure_ascii=False)
        for _ in range(rng.choice([1, 5, 60, 300]))
    ]
    messages = a_batch(rng, texts)
    fast, slow = decoder.decode(messages), one_by_one(decoder, messages)
    assert by_message(fast, texts) == by_message(slow, texts)
    assert fast.skipped_count == slow.skipped_count
    assert fast.drift == slow.drift
    assert fast.tables == slow.tables


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.slow
def test_machine_code_means_the_same(name: str, seed: int) -> None:
    """Only counts of unknown and missing columns may differ, because they are estimates."""
    pytest.importorskip("numba")
    rng = random.Random(f"compiled {name} {seed}")
    state = rng.getstate()
    arrays = format_of(name, rng, ARRAYS)
    rng.setstate(state)
    machine = format_of(name, rng, COMPILED)
    generate = GENERATORS[name]
    for faulty, size in ((0.02, 300), (0.0, 40), (0.2, 300), (0.9, 40), (0.0, 1)):
        texts = [
            mangled_message(rng, generate(rng))
            if rng.random() < faulty
            else json.dumps(generate(rng), separators=(",", ":"), ensure_ascii=False)
            for _ in range(size)
        ]
        if rng.random() < 0.3:
            texts = [text.replace('":', '":\t ').replace(',"', ' ,\n"') for text in texts]
        batch = a_batch(rng, texts)
        machine_batch, array_batch = machine.decode(batch), arrays.decode(batch)
        assert by_message(machine_batch, texts) == by_message(array_batch, texts)
        assert machine_batch.skipped_count == array_batch.skipped_count
        assert machine_batch.tables == array_batch.tables


@pytest.mark.parametrize("name", GENERATORS)
def test_machine_code_takes_usual_messages(name: str) -> None:
    pytest.importorskip("numba")
    setup = FormatSetup(
        columns=PLAIN_COLUMNS,
        arrow_schema=arrow_schema(PLAIN_COLUMNS),
        primary_keys=("id",),
        options={DECODER: COMPILED},
        keeps_update_before=True,
    )
    decoder = FORMATS[name].make(setup)
    assert isinstance(decoder, DialectDecoder)
    rng = random.Random(name)
    texts = [json.dumps(GENERATORS[name](rng), separators=(",", ":")) for _ in range(40)]
    texts = [text.replace("1e+20", "1") for text in texts]
    batch = a_batch(rng, texts)
    group = getattr(decoder, "_group", None)
    assert isinstance(group, SchemaGroup)
    index = np.arange(batch.num_rows, dtype=np.int32)
    part = decoder.decode_fast(PlacedValues(batch.column("value"), index, batch), group)
    assert part is not None
    assert len(part.indices)


def by_message(decoded_batch: DecodedBatch, texts: list[str]) -> dict[str, Any]:
    outcomes: dict[str, Any] = {
        f"{position} {texts[position]}": why for position, why in reasons_of(decoded_batch).items()
    }
    for position, *cells in rows_of(decoded_batch):
        outcomes.setdefault(f"{position} {texts[position]}", []).append(repr(cells))
    return outcomes


def test_every_such_format_is_tried() -> None:
    of_json = {name for name in FORMATS if name.endswith("json") and name != "debezium-json"}
    assert of_json == set(GENERATORS)


@pytest.mark.parametrize("decoder", [ARRAYS, COMPILED])
@pytest.mark.parametrize("types", ["null", "7", 'null,"mysqlType":null', '{"id":1,"id":2}'])
def test_types_of_canal_that_concern_no_column_are_not_judged(decoder: str, types: str) -> None:
    """Alone as beside a message that is read alone: its type is unknown."""
    if decoder == COMPILED:
        pytest.importorskip("numba")
    columns = parse_columns("id INT, n DOUBLE")
    setup = FormatSetup(
        columns=columns,
        arrow_schema=arrow_schema(columns),
        primary_keys=("id",),
        options={"truncate": "ignore", DECODER: decoder},
        keeps_update_before=True,
    )
    text = f'{{"data":[{{"id":1,"n":7}}],"mysqlType":{types},"table":"t","type":"INSERT"}}'
    odd = text.replace("INSERT", "?")
    batch = a_batch(random.Random(0), [text, odd, text.replace("7}", "7.0}"), *[text] * 3])
    canal = FORMATS["canal-json"].make(setup)
    assert set(reasons_of(canal.decode(batch))) == {1}
    assert isinstance(canal, DialectDecoder)
    assert set(reasons_of(one_by_one(canal, batch))) == {1}
