"""Each semantic type of Connect gives each type of column a value, or a bad record.

`datetime`, `decimal` and the definition of the type at its source decide what a value means.
"""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from decimal import Decimal
from typing import Any

import pytest

from tests.support.messages.debezium_messages import (
    Bad,
    a_format,
    event,
    messages,
    reasons_of,
    rows_of,
    value_of,
)

DEBEZIUM, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
D = Decimal
DAY = dt.date(2024, 2, 29)
DAYS = (DAY - dt.date(1970, 1, 1)).days
MIDNIGHT = dt.datetime(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123000)
MILLIS = (NOON - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)
CLOCK = dt.time(12, 30, 15, 123000)
OF_DAY = MILLIS - (MIDNIGHT - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)
TEN_YEARS = 10 * 365 * 86_400 * 10**6

COLUMNS = {
    "date": "DATE",
    "time": "TIME(3)",
    "stamp": "TIMESTAMP(6)",
    "fine": "TIMESTAMP(9)",
    "zoned": "TIMESTAMP_LTZ(3)",
    "flag": "BOOLEAN",
    "raw": "BYTES",
    "count": "BIGINT",
    "real": "DOUBLE",
    "number": "DECIMAL(38,10)",
    "text": "STRING",
}
NUMBERS = ("count", "real", "number", "text")


def aware(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC)


def nanos(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06}000"


def instant(moment: dt.datetime) -> dict[str, Any]:
    return {"stamp": moment, "fine": nanos(moment), "zoned": aware(moment)}


def as_sent(value: int) -> dict[str, Any]:
    return {"count": value, "real": float(value), "number": D(value), "text": str(value)}


DAY_WANT = {"date": DAY, **instant(MIDNIGHT)}
NOON_WANT = {"date": DAY, **instant(NOON)}

CASES: list[tuple[str, str, Any, dict[str, Any]]] = [
    *[("int32", f"{name}Date", DAYS, DAY_WANT | as_sent(DAYS)) for name in (DEBEZIUM, CONNECT)],
    ("string", DEBEZIUM + "IsoDate", "2024-02-29Z", {**DAY_WANT, "text": "2024-02-29Z"}),
    *[
        (literal, name, OF_DAY * unit, {"time": CLOCK} | as_sent(OF_DAY * unit))
        for literal, name, unit in [
            ("int32", CONNECT + "Time", 1),
            ("int32", DEBEZIUM + "Time", 1),
            ("int64", DEBEZIUM + "MicroTime", 10**3),
            ("int64", DEBEZIUM + "NanoTime", 10**6),
        ]
    ],
    *[
        ("string", DEBEZIUM + name, "12:30:15.123Z", {"time": CLOCK, "text": "12:30:15.123Z"})
        for name in ("IsoTime", "ZonedTime")
    ],
    *[
        ("int64", name, MILLIS * unit, NOON_WANT | as_sent(MILLIS * unit))
        for name, unit in [
            (CONNECT + "Timestamp", 1),
            (DEBEZIUM + "Timestamp", 1),
            (DEBEZIUM + "MicroTimestamp", 10**3),
            (DEBEZIUM + "NanoTimestamp", 10**6),
        ]
    ],
    *[
        ("string", DEBEZIUM + name, text, {**instant(NOON), "text": text})
        for name in ("IsoTimestamp", "ZonedTimestamp")
        for text in ("2024-02-29T12:30:15.123Z", "2024-02-29T14:30:15.123+02:00")
    ],
    ("int32", DEBEZIUM + "Year", 2024, as_sent(2024)),
    ("int64", DEBEZIUM + "MicroDuration", TEN_YEARS, as_sent(TEN_YEARS)),
    ("int64", DEBEZIUM + "MicroDuration", 5_000_000, as_sent(5_000_000)),
    ("int64", DEBEZIUM + "NanoDuration", 5 * 10**9, as_sent(5 * 10**9)),
    ("string", DEBEZIUM + "Interval", "P1Y2M3DT4H", {"text": "P1Y2M3DT4H"}),
    ("int64", DEBEZIUM + "Fortnight", 7, as_sent(7)),  # of a connector that is yet to come
]


def base64_of(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal_want(number: Decimal) -> dict[str, Any]:
    want: dict[str, Any] = {"real": float(number), "text": format(number, "f")}
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent <= 10 and abs(number) < 10**28:
        want["number"] = number
    if number == int(number) and -(2**63) <= number < 2**63:
        want["count"] = int(number)
    return want


DECIMALS = [
    *((19_99, 2), (-1, 4), (0, 0), (0, 7), (5, -2), (1200, 2), (1234567, 0), (-7, 20)),
    *((2**63, 0), (10**38 - 1, 3), (-(10**38), 3), (2**127 - 1, 0), (10**60 + 7, 30), (3, 300)),
    (int.from_bytes(base64.b64decode("1234")), 0),  # whose base64 has digits only
]


def scaled_decimal(unscaled_value: int, scale: int) -> Decimal:
    sign, digits = int(unscaled_value < 0), tuple(map(int, str(abs(unscaled_value))))
    return D((sign, digits, -scale))


def enveloped_event(field: dict[str, Any], value: Any) -> str:
    """A change event with its schema, all columns having the same field and value."""
    fields = [{"type": "int64", "field": "id"}] + [{**field, "field": name} for name in COLUMNS]
    images = [{"type": "struct", "fields": fields, "field": name} for name in ("before", "after")]
    schema = {"type": "struct", "fields": images, "name": "x.Envelope"}
    after = {"id": 1, **dict.fromkeys(COLUMNS, value)}
    return json.dumps({"schema": schema, "payload": json.loads(event(after=json.dumps(after)))})


def of_each_column(field: dict[str, Any], value: Any) -> dict[str, Any]:
    """Return each column's value, in the compact spelling and in any other."""
    values: dict[str, Any] = {}
    for name, data_type in COLUMNS.items():
        decoder = a_format(f"id BIGINT, {name} {data_type}")
        text = enveloped_event(field, value)
        compact = json.dumps(json.loads(text), separators=(",", ":"))
        results = []
        for sent in ([text], [compact], [compact] * 9 + [text]):
            decoded_batch = decoder.decode(messages(*sent))
            rows, reasons = rows_of(decoded_batch), reasons_of(decoded_batch)
            assert len(rows) + len(reasons) == len(sent)
            assert not (rows and reasons)
            assert len({repr(row[1:]) for row in rows} | set(reasons.values())) == 1
            results.append(rows[0][3] if rows else Bad(reasons[0]))
        assert len(set(map(repr, results))) == 1, results
        values[name] = results[0]
    return values


def check(values: dict[str, Any], want: dict[str, Any]) -> None:
    bad_values = {name: value for name, value in values.items() if isinstance(value, Bad)}
    good = {name: value for name, value in values.items() if name not in bad_values}
    assert good == {name: value for name, value in want.items() if name in COLUMNS}
    for name, reason in bad_values.items():
        assert reason.startswith(f"column {name!r} ("), reason


@pytest.mark.parametrize(("literal", "semantic", "value", "want"), CASES)
@pytest.mark.slow
def test_a_time_is_converted_or_bad(
    literal: str, semantic: str, value: Any, want: dict[str, Any]
) -> None:
    check(of_each_column({"type": literal, "name": semantic}, value), want)


def test_the_reason_names_the_type() -> None:
    values = of_each_column({"type": "int32", "name": DEBEZIUM + "Year"}, 2024)
    assert values["date"] == (
        "column 'date' (DATE): 2024 is an io.debezium.time.Year in the message's schema, which has "
        "no meaning in the column (column.date.encoding can set another)"
    )


@pytest.mark.parametrize(("unscaled_value", "scale"), DECIMALS)
@pytest.mark.slow
def test_a_decimal_has_the_scale_of_its_schema(unscaled_value: int, scale: int) -> None:
    field = {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": str(scale)}}
    check(
        of_each_column(field, base64_of(unscaled_value)),
        decimal_want(scaled_decimal(unscaled_value, scale)),
    )


@pytest.mark.parametrize(("unscaled_value", "scale"), DECIMALS)
@pytest.mark.slow
def test_a_number_with_a_scale_of_its_own(unscaled_value: int, scale: int) -> None:
    field = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
    value = {"scale": scale, "value": base64_of(unscaled_value)}
    want = decimal_want(scaled_decimal(unscaled_value, scale))
    check(of_each_column(field, value), want)
    # Without a schema the text of an object is kept, unless the user says that it is a number.
    for options, text in [
        ({}, json.dumps(value, separators=(",", ":"))),
        ({"column.text.encoding": "number"}, want["text"]),
    ]:
        decoder = a_format("id BIGINT, text STRING", options=options)
        sent = event(after=json.dumps({"id": 1, "text": value}))
        assert rows_of(decoder.decode(messages(sent)))[0][3] == text
        assert {row[3] for row in rows_of(decoder.decode(messages(*[sent] * 9)))} == {text}


@pytest.mark.parametrize("form", ["base64", "struct"])
def test_many_numbers_at_once_in_text_and_floating_point(form: str) -> None:
    numbers = [
        scaled_decimal(unscaled_value, scale)
        for unscaled_value, scale in DECIMALS * 3
        if form == "struct"
    ]
    numbers += [scaled_decimal(n, 5) for n in range(-300_000, 300_000, 7_001)]
    name = "io.debezium.data.VariableScaleDecimal" if form == "struct" else CONNECT + "Decimal"
    fields = [{"type": "int64", "field": "id"}] + [
        {"type": "bytes", "name": name, "parameters": {"scale": "5"}, "field": column}
        for column in ("text", "real")
    ]
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    sent = []
    for index, number in enumerate(numbers):
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        value: Any = base64_of(int(D((number.is_signed(), number.as_tuple().digits, 0))))
        value = {"scale": -exponent, "value": value} if form == "struct" else value
        row = json.dumps({"id": index, "text": value, "real": value})
        sent.append(f'{{"schema":{schema},"payload":{row}}}')
    decoder = a_format("id BIGINT, text STRING, real DOUBLE")
    rows = rows_of(decoder.decode(messages(*sent)))
    assert [row[3:] for row in rows] == [(format(n, "f"), float(n)) for n in numbers]


@pytest.mark.parametrize("scale", [None, "", "x", "1.5", "--2", "99999", "٣"])
def test_a_scale_that_cannot_be_read_makes_the_record_bad(scale: str | None) -> None:
    field: dict[str, Any] = {"type": "bytes", "name": CONNECT + "Decimal"}
    field |= {} if scale is None else {"parameters": {"scale": scale}}
    values = of_each_column(field, base64_of(1))
    check(values, {})
    for name in NUMBERS:
        assert "whose schema has no scale that can be read" in values[name]


def test_a_chosen_encoding_keeps_the_schemas_scale() -> None:
    field = {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}}
    decoder = a_format(
        "id BIGINT, number DECIMAL(38,10)", options={"column.number.encoding": "base64"}
    )
    assert rows_of(decoder.decode(messages(enveloped_event(field, base64_of(500)))))[0][3] == D(5)


def test_bits_have_their_most_significant_byte_first() -> None:
    """Debezium sends the least significant byte first; Paimon's CDC turns them around."""
    field = {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "20"}}
    bits = 0b1010_00000000_11111111
    sent = base64.b64encode(bits.to_bytes(3, "little")).decode()
    check(of_each_column(field, sent), {"raw": bits.to_bytes(3, "big"), "text": sent})
    decoder = a_format("id BIGINT, b BYTES", options={"column.b.encoding": "base64-little-endian"})
    values = [bits.to_bytes(size, "little") for size in (3, 4, 7)] + [b"", None]
    texts = [None if value is None else base64.b64encode(value).decode() for value in values]
    rows = rows_of(
        decoder.decode(messages(*(event(after=json.dumps({"id": 1, "b": t})) for t in texts)))
    )
    assert [row[3] for row in rows] == [value and value[::-1] for value in values]


def test_bits_fill_a_column_of_fixed_length() -> None:
    """PostgreSQL's connector leaves out the leading bytes that are zero."""
    field = {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "20"}}
    decoder = a_format("id BIGINT, raw BINARY(3)")
    sent = [b"\x01\x02", b"", None, b"\x01\x02\x03", b"\xff"]
    texts = [None if value is None else base64.b64encode(value).decode() for value in sent]
    rows = rows_of(decoder.decode(messages(*(enveloped_event(field, text) for text in texts))))
    expected = [b"\0\x02\x01", b"\0\0\0", None, b"\x03\x02\x01", b"\0\0\xff"]
    assert [row[3] for row in rows] == expected


def test_a_single_is_the_same_number_in_a_double_column() -> None:
    """So rows from before and after an ALTER TABLE from REAL to DOUBLE agree, as in SQL."""
    single = struct.unpack("f", struct.pack("f", 311.09))[0]
    assert single != 311.09
    assert of_each_column({"type": "float"}, 311.09)["real"] == single
    assert of_each_column({"type": "double"}, 311.09)["real"] == 311.09
    plain = {"column.v.encoding": "float32"}
    assert value_of("DOUBLE", "311.09", **plain) == single
    assert value_of("DOUBLE", "311.09") == 311.09


def test_bytes_are_not_a_number() -> None:
    check(of_each_column({"type": "bytes"}, "1234"), {"raw": b"\xd7\x6d\xf8", "text": "1234"})
