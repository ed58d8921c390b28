"""The decoder reads CloudEvents of Debezium's real converter, and rows in events."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.app.source.likely_format import likely_format
from stream_app.cdc.wire.event_data import EventFormat
from stream_app.message_format_registry import make_source_extractor
from stream_app.model.source.mapping_options import MappingOptions
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    messages,
    reasons_of,
    rows_of,
)

COLUMNS = "id INT NOT NULL, name STRING, amount DECIMAL(8,2), at TIMESTAMP(6), day DATE"
ROWS = [
    "+I 1 Ada 1.50 2024-02-29 23:59:59.123456 2024-02-29",
    '+I 2 x,"data":{ -0.01 None None',
    "+U 1 Ada 2.50 2024-02-29 23:59:59.123456 2024-02-29",
    "-D 2 None None None None",
    '+I 3 x,"data":{ -0.01 None None',
    "-D 1 None None None None",
    "+I 4 Bob 4.00 None None",
]
EVENT = '{"specversion":"1.0","id":"1","source":"/s","type":"t","data":%s}'


@pytest.mark.parametrize("kind", ["plain", "envelope"])
def test_debeziums_own_converter(kind: str) -> None:
    batch = captured_messages("debezium_cloudevents", f"{kind}.shop.story")
    decoder = a_format(COLUMNS, name="debezium-cloudevents")
    decoded_batch = decoder.decode(batch)
    assert reasons_of(decoded_batch) == {}
    assert [" ".join(map(str, row[1:])) for row in rows_of(decoded_batch)] == ROWS
    assert decoded_batch.skipped_count == 2
    source_extractor = make_source_extractor("debezium-cloudevents", {})
    origins = source_extractor.find_origins(batch)
    assert [str(table).split(".")[1:] for table in origins.tables] == [["shop", "story"]]
    assert origins.unassigned_reasons == {}
    assert source_extractor.find_change_times is not None
    assert source_extractor.find_change_times(batch).null_count == decoded_batch.skipped_count
    table = source_extractor.describe(batch, MappingOptions())
    assert table is not None
    assert table.primary_keys == ("id",)
    is_typed = kind == "envelope"
    assert [str(column.data_type) for column in table.columns] == (
        ["INT NOT NULL", "STRING", "DECIMAL(8, 2)", "TIMESTAMP(6)", "DATE"]
        if is_typed
        else ["STRING NOT NULL", "STRING", "STRING", "STRING", "STRING"]
    )
    values = [value for value in batch.column("value").to_pylist() if value]
    assert likely_format(values) == "debezium-cloudevents"


def test_without_extension_attributes_the_operation_is_unknown() -> None:
    batch = captured_messages("debezium_cloudevents", "bare.shop.story")
    decoded_batch = a_format(COLUMNS, name="debezium-cloudevents").decode(batch)
    assert decoded_batch.changes.rows.num_rows == 0
    reasons = set(reasons_of(decoded_batch).values())
    assert reasons == {
        "has no iodebeziumop, which names the operation: set extension.attributes.enable = true in "
        "Debezium's converter"
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (EVENT % '{"id":1,"v":"a"}', (1, "a")),
        (EVENT % '{"v":"{[\\"}","id":2}', (2, '{["}')),
        ('{"data":{"id":3,"v":null},"specversion":"1.0","time":"x"}', (3, None)),
        ('{"specversion":"1.0","data":{"id":4,"v":"a"},"time":"x"}', (4, "a")),
        ('{"specversion":"1.0","x":"{","data":{"id":5,"v":"a"}}', (5, "a")),
        ('{"specversion":"1.0","x":{"a":1,"data":{"id":9}},"data":{"id":6,"v":"a"}}', (6, "a")),
        ('{"specversion":"1.0","data":{"id":7,"v":"a"},"x":{}}', (7, "a")),
        (' {"specversion" : "1.0", "data" : {"id":8,"v":1.10} } ', (8, "1.10")),
        (EVENT % '{"id":1}'.replace("1}", "9,\"v\":\"a\"}"), (9, "a")),
        ('{"id":1,"v":"a"}', "has no specversion, so it is not a CloudEvent"),
        ('{"data":{"id":1},"x":1}', "has no specversion, so it is not a CloudEvent"),
        ("null", "has no specversion, so it is not a CloudEvent"),
        ("[1]", "has no specversion, so it is not a CloudEvent"),
        (EVENT % "null", "has no data, so it is a CloudEvent without a row"),
        (
            '{"specversion":"1.0","data_base64":"AA=="}',
            "has its data in base64, so it is a CloudEvent without a row",
        ),
        (EVENT % '"text"', "is a JSON string, not an object"),
        (EVENT % "{", "is not JSON"),
        ('{"specversion":"1.0","x":,"data":{"id":1}}', "is not JSON"),
        ('{"specversion":"1.0",x,"data":{"id":1}}', "is not JSON"),
        ('{"specversion":"1.0","data":{"id":1},"data":{"id":2}}', "has the field 'data' twice"),
        ('{"specversion":"1.0","x":"a,"data":{"id":1}}', "is not JSON"),
    ],
)  # fmt: skip
def test_a_row_in_an_event(value: str, expected: Any) -> None:
    usual = EVENT % '{"id":100,"v":"usual"}'
    for before in (0, 1, 30):
        decoder = a_format("id BIGINT NOT NULL, v STRING", name="cloudevents")
        decoded_batch = decoder.decode(messages(*[usual] * before, value, usual))
        rows = {position: tuple(cells) for position, _, *cells in rows_of(decoded_batch)}
        reasons = reasons_of(decoded_batch)
        assert rows[before + 1] == (100, "usual")
        if isinstance(expected, str):
            assert reasons[before].startswith(expected)
            assert decoded_batch.bad_records.column("value")[0].as_py() == value.encode()
        else:
            assert rows[before] == expected
            assert reasons == {}


def _plain(rng: random.Random) -> str:
    row = {"id": rng.randrange(9), "v": rng.choice(["a", '"data":{', None, "x" * 99])}
    return EVENT % json.dumps(row, separators=(",", ":"))


def _debezium(rng: random.Random) -> str:
    image = {"id": rng.randrange(9), "v": rng.choice(["a", ',"data":{', None])}
    data = json.dumps({"before": None, "after": image}, separators=(",", ":"))
    head = '{"specversion":"1.0","iodebeziumop":"c","iodebeziumtsms":"5","iodebeziumtable":"t"'
    return f'{head},"data":{data}}}'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"), [("cloudevents", _plain), ("debezium-cloudevents", _debezium)]
)
def test_random_bytes_stop_no_job_and_harm_no_other_message(
    name: str, make: Callable[[random.Random], str], seed: int
) -> None:
    rng = random.Random(seed)
    good = make(rng)
    values: list[bytes | str | None] = []
    for _ in range(300):
        position = rng.randrange(len(good))
        cut = good[:position].encode() + rng.randbytes(rng.randrange(6))
        values += [
            good,
            rng.choice([cut, cut + good[position + 2 :].encode(), good[:position], None, b""]),
        ]
    decoded_batch = a_format("id BIGINT, v STRING", name=name).decode(messages(*values))
    rows = {position for position, *_ in rows_of(decoded_batch)}
    assert set(range(0, len(values), 2)) <= rows
    assert len(rows) + decoded_batch.bad_records.num_rows + decoded_batch.skipped_count == len(
        values
    )
    assert decoded_batch.decoder_error_count == 0
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    assert all(
        record["value"] == raw[record["offset"]] for record in decoded_batch.bad_records.to_pylist()
    )
    alone = [a_format("id BIGINT, v STRING", name=name).decode(messages(value)) for value in values]
    assert [
        position for position, result in enumerate(alone) if result.changes.rows.num_rows
    ] == sorted(rows)


PIECES = [
    "{", "}", '"', ",", '"data":', ',"data":', ':{"id":7}', ',"x":{}', "[", "]", "null", "\\", ":",
    ',"iodebeziumop":"d"', ',"schema":', '{"schema":', '"payload":',
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "make"), [("cloudevents", _plain), ("debezium-cloudevents", _debezium)]
)
def test_columns_have_what_events_read_alone_have(
    name: str, make: Callable[[random.Random], str], seed: int
) -> None:
    """An event that is read alone is parsed as a whole, so nothing is cut out of it wrongly."""
    rng = random.Random(seed)
    values: list[bytes | str | None] = []
    for _ in range(2000):
        value = make(rng)
        for _ in range(rng.randrange(1, 4)):
            position = rng.randrange(len(value))
            value = value[:position] + rng.choice(PIECES) + value[position + rng.randrange(3) :]
        values.append(value)
    batch = messages(*values)
    pipeline = a_format("id BIGINT, v STRING", name=name)
    decoder = pipeline.decoder
    assert isinstance(decoder, EventFormat)
    decoded_batch, alone = decoder.decode(batch), decoder.decode_one_by_one(batch)
    assert rows_of(decoded_batch) == rows_of(alone)
    assert reasons_of(decoded_batch) == reasons_of(alone)
