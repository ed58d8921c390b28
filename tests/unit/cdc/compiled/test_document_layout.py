"""Machine code rewrites messages of MongoDB as other ways do, or not at all."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.json_records.decoder_choice import ARRAYS, COMPILED, DECODER
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of
from tests.unit.cdc.compiled.guarded_memory import guarded_pages
from tests.unit.cdc.compiled.shop_messages import NUMBERS, OTHERS, TEXTS, mutated

pytest.importorskip("numba")
from stream_app.cdc.compiled.document_layout import DocumentLayout

COLUMNS = (
    "_id STRING, name STRING, n BIGINT, amount DECIMAL(12,2), at TIMESTAMP(3), day DATE, "
    "flag BOOLEAN, ratio DOUBLE, body BYTES, tags ARRAY<STRING>, more STRING"
)
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
ID = '{"$oid": "67ab25755c0d5ac87eb8c632"}'
TYPED = (
    ID, '{"$numberLong": "1735934393769"}', '{"$numberLong": "007"}',
    '{"$numberInt":"-5"}', '{ "$numberInt" : "5" }', '{"$date": 1735934393769}', '{"$date": -1}',
    '{"$date": {"$numberLong": "1735934393769"}}', '{"$date": "2025-01-03T19:59:53.769Z"}',
    '{"$numberDecimal": "3.10"}', '{"$numberDouble": "NaN"}', '{"$oid": 5}',
    '{"$oid": "a", "b": 1}',
    '{"$numberLong": 5}', '{"$numberLong": "5"', '{"$numberLong": ""}', '{"$date": 1.5}',
    '{"$minKey": 1}', '{"$binary": "uE2/", "$type": "0"}', '["a", "b"]', '{"a": {"b": 1}}', "{}",
    '{"$numberLong": "99999999999999999999"}', '{"$oid": "\\u0061"}',
)  # fmt: skip
SOURCES = (
    '{"connector":"mongodb","ts_ms":1795232574158,"db":"shop","collection":"orders"}',
    '{"version":"3","connector":"mongodb","ts_ms":1,"snapshot":"false","db":"shop",'
    '"sequence":["1","2"],"collection":"orders","lsid":null}',
)
ODD_SOURCES = (
    '{"connector":"mongodb","ts_ms":null,"db":"sh\\u006fp","collection":"or\\"ders"}',
    '{"connector":1,"db":"shop"}', '{"db":"shop","db":"x","collection":"y"}', "null", "{}", "[]",
    '{"connector":"mongodb","ts_ms":1.5,"db":"shop","collection":null}',
)  # fmt: skip
OPTIONS = {"unproven-keys": "quarantine", "truncate": "ignore", "replica-identity": "full"}


def a_value(name: str, rng: random.Random, odd: float) -> str:
    if rng.random() < odd:
        return rng.choice(rng.choice((TYPED, TYPED, NUMBERS, TEXTS, OTHERS, ("null",))))
    match name:
        case "_id":
            return ID
        case "n":
            return f'{{"$numberLong": "{rng.randrange(10**6)}"}}'
        case "amount" | "ratio":
            return rng.choice(["1.5", "-12.25", "7"])
        case "at":
            return f'{{"$date": {rng.randrange(10**12)}}}'
        case "flag":
            return rng.choice(["true", "false"])
        case "name" | "more":
            return json.dumps(rng.choice(["a", "é漢😀", 'q"', "\\", "x" * 40]), ensure_ascii=False)
        case _:
            return "null"


def a_document(rng: random.Random, odd: float) -> str:
    names = [name for name in NAMES if rng.random() >= odd / 4]
    if rng.random() < odd:
        rng.shuffle(names)
    if rng.random() < odd:
        names.insert(0, rng.choice(["$oid", "_id", "zz", "é", 'q"', ""]))
    comma, colon = rng.choice([(", ", ": "), (",", ":"), (",\n ", ": ")])
    fields = (f"{json.dumps(name)}{colon}{a_value(name, rng, odd)}" for name in names)
    return f"{{{comma.join(fields)}}}"


def an_image(rng: random.Random, odd: float) -> str:
    if rng.random() < odd / 4:
        return rng.choice(["{}", '""', '"[]"', '"{}"', '" {}"', '"{"', "1", '"{} "'])
    return json.dumps(a_document(rng, odd), ensure_ascii=rng.random() < 0.5)


def a_message(rng: random.Random, odd: float) -> str:
    op = rng.choice("ccuuuudr")
    before = an_image(rng, odd) if op in "ud" and rng.random() < 0.9 else "null"
    after = "null" if op == "d" else an_image(rng, odd)
    source = rng.choice(ODD_SOURCES if rng.random() < odd else SOURCES)
    fields = [f'"before":{before}', f'"after":{after}', '"updateDescription":null']
    fields += [f'"source":{source}', f'"op":"{op}"', '"ts_ms":1795232574433']
    if rng.random() < odd:
        rng.shuffle(fields)
    if rng.random() < odd:
        fields.append(rng.choice([*fields, '"op":"x"', '"\\u006fp":"c"']))
    if rng.random() < odd / 2:
        del fields[rng.randrange(len(fields))]
    return f"{{{rng.choice([',', ', ']).join(fields)}}}"


def everything(decoded_batch: DecodedBatch) -> tuple[Any, ...]:
    """All that a decoder tells, comparable.

    But not its counts of columns, which arrays estimate, nor the words of its reasons: those of
    arrays depend on the messages that are read together.
    """
    assert decoded_batch.decoder_error_count == 0
    return (
        repr(rows_of(decoded_batch)),
        sorted(reasons_of(decoded_batch)),
        decoded_batch.skipped_count,
        sorted(decoded_batch.tables.items()),
        decoded_batch.changes.rows.schema,
    )


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.slow
def test_machine_code_and_arrays_make_the_same_of_messages(seed: int) -> None:
    rng = random.Random(seed)
    odd, broken = [(0.0, 0.0), (0.02, 0.0), (0.1, 0.1), (0.0, 0.5)][seed % 4]
    values = [a_message(rng, odd).encode() for _ in range(160)]
    values = [mutated(value, rng) if rng.random() < broken else value for value in values]
    key = json.dumps({"id": ID})
    arrays, machine = (
        a_format(
            COLUMNS, ("_id",), name="debezium-bson", options={**OPTIONS, DECODER: kind}
        ).decoder
        for kind in (ARRAYS, COMPILED)
    )
    for size in (1, 59, 100):
        part, values = messages(*values[:size], key=key), values[size:]
        assert everything(machine.decode(part)) == everything(arrays.decode(part))


def a_layout() -> DocumentLayout:
    layout = DocumentLayout.for_columns({"n": ["null", "number"], "at": ["timestamp"]}, NAMES)
    assert layout is not None
    return layout


def test_usual_messages_are_rewritten() -> None:
    rng = random.Random(1)
    values = [a_message(rng, 0) for _ in range(200)]
    rewritten = a_layout().rewrite(pa.array(values, pa.binary()))
    assert rewritten is not None
    texts, is_rewritten = rewritten
    assert np.count_nonzero(is_rewritten) > 150
    first = json.loads(texts[0].as_py())
    assert list(first) == ["before", "after", "source", "op"]
    assert first["source"] == {
        "connector": "mongodb", "ts_ms": first["source"]["ts_ms"], "db": "shop", "table": "orders",
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("seed", range(3))
def test_no_byte_behind_the_messages_is_read(seed: int) -> None:
    """The last message ends where memory does, and what lies behind it changes nothing."""
    rng, layout = random.Random(seed), a_layout()
    data, _pages = guarded_pages()
    rewritten_count = 0
    for index in range(300):
        values = [a_message(rng, 0.05).encode() for _ in range(rng.choice([1, 2, 4]))]
        values = [value if rng.random() < 0.6 else mutated(value, rng) for value in values]
        values[-1] = values[-1][: rng.randrange(len(values[-1]) + 1)] if index % 2 else values[-1]
        joined_bytes = b"".join(values)[-len(data) :]
        data[len(data) - len(joined_bytes) :] = np.frombuffer(joined_bytes, np.uint8)
        offsets = np.cumsum([0, *map(len, values)]) + len(data) - sum(map(len, values))
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        ends = layout.rewrite(pa.Array.from_buffers(pa.binary(), len(values), buffers))
        others = pa.array([*values, b'1,"x":"y"}' * 9], pa.binary())
        before = layout.rewrite(others.slice(0, len(values)))
        assert ends is not None
        assert before is not None
        assert ends[0].to_pylist() == before[0].to_pylist()
        rewritten_count += int(ends[1].sum())
    assert rewritten_count
