"""The decoder stores one JSON value in one column, by its type, mode and limits."""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import base64
import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.columns.base64_columns import decode_base64, decode_hex
from stream_app.cdc.columns.decimal_columns import decimals_from_bytes
from tests.support.messages.debezium_messages import (
    Bad,
    a_format,
    event,
    messages,
    reasons_of,
    rows_of,
    value_of,
)

UTC = dt.UTC
BAD = "(bad record)"
D = Decimal
STAMP = dt.datetime(2024, 6, 1, 10, 0, 0, 123456)


def check(column_type: str, text: str, want: Any, **options: str) -> None:
    got = value_of(column_type, text, **options)
    if want == BAD:
        assert isinstance(got, Bad), got
    elif isinstance(want, dt.datetime):
        assert got == want
        assert (got.tzinfo is None) == (want.tzinfo is None)
    else:
        assert repr(got) == repr(want)


@pytest.mark.parametrize(
    ("column_type", "text", "want"),
    [
        ("TINYINT", "-128", -128),
        ("TINYINT", "128", BAD),
        ("SMALLINT", "-32768", -32768),
        ("SMALLINT", "32768", BAD),
        ("INT", "2147483647", 2147483647),
        ("INT", "2147483648", BAD),
        ("BIGINT", "9007199254740993", 9007199254740993),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", "-9223372036854775809", BAD),
        ("BIGINT", '"9223372036854775807"', 2**63 - 1),
        ("BIGINT", '" 1"', BAD),
        ("BIGINT", '"1_000"', BAD),
        ("INT", "true", 1),
        ("INT", "1.5", BAD),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("FLOAT", "16777217", 16777216.0),
        ("FLOAT", "3.5e38", BAD),
        ("FLOAT", '"Infinity"', math.inf),
        ("DOUBLE", "0.1", 0.1),
        ("DOUBLE", "-0.0", -0.0),
        ("DOUBLE", "1e400", BAD),
        ("DOUBLE", '"NaN"', math.nan),
        ("DOUBLE", '"-Infinity"', -math.inf),
        ("DOUBLE", '"nan"', BAD),
        ("DOUBLE", '"1.5"', 1.5),
        ("BOOLEAN", "false", False),
        ("BOOLEAN", "0", False),
        ("BOOLEAN", '"true"', True),
        ("BOOLEAN", '"t"', BAD),
        ("STRING", '""', ""),
        ("STRING", '"null"', "null"),
        ("STRING", "null", None),
        ("STRING", "-0", "0"),
        ("STRING", "1.50", "1.50"),
        ("STRING", "123456789012345678901234567890", "123456789012345678901234567890"),
        ("BYTES", '""', b""),
        ("BYTES", '"AP8Q"', b"\x00\xff\x10"),
        ("BYTES", '"AA=A"', BAD),
        ("BYTES", '"A==="', BAD),
        ("BYTES", '"===="', BAD),
        ("BYTES", '"AP8"', BAD),
        ("BYTES", "1", BAD),
        ("DATE", "19782", dt.date(2024, 2, 29)),
        ("DATE", "-1", dt.date(1969, 12, 31)),
        ("DATE", "2932897", BAD),
        ("DATE", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("DATE", '"2024-02-29Z"', dt.date(2024, 2, 29)),
        ("DATE", '"2023-02-29"', BAD),
        ("TIME(3)", "86399999", dt.time(23, 59, 59, 999000)),
        ("TIME(6)", "86399999999", dt.time(23, 59, 59, 999000)),
        ("TIME(0)", "1999", dt.time(0, 0, 1)),
        ("TIME(9)", "86399999999999", dt.time(23, 59, 59, 999000)),
        ("TIME(3)", "86400000", BAD),
        ("TIME(3)", "-1", BAD),
        ("TIME(3)", '"07:30:00Z"', dt.time(7, 30)),
        ("TIME(3)", '"01:30:00+02:00"', dt.time(23, 30)),
        ("TIME(3)", '"25:00:00"', BAD),
        ("TIMESTAMP(3)", "1717236000123", STAMP.replace(microsecond=123000)),
        ("TIMESTAMP(2)", "1717236000129", STAMP.replace(microsecond=120000)),
        ("TIMESTAMP(2)", "-1", dt.datetime(1969, 12, 31, 23, 59, 59, 990000)),
        ("TIMESTAMP(6)", "1717236000123456", STAMP),
        ("TIMESTAMP(9)", "1717236000123456789", "2024-06-01 10:00:00.123456789"),
        ("TIMESTAMP(3)", "1717236000123456", BAD),
        ("TIMESTAMP(6)", "253402300799999999", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("TIMESTAMP(6)", "253402300800000000", BAD),
        ("TIMESTAMP(6)", "9223372036825200000", BAD),
        ("TIMESTAMP(6)", '"2024-06-01T10:00:00.123456Z"', STAMP),
        ("TIMESTAMP(6)", '"2024-06-01T10:00:00.123456"', STAMP),
        ("TIMESTAMP(6)", '"2024-06-01 10:00:00.123456"', STAMP),
        ("TIMESTAMP(6)", '"2024-06-01T12:00:00.123456+02:00"', STAMP),
        ("TIMESTAMP(6)", '"2024-06-01T10:00:00.123456999Z"', STAMP),
        ("TIMESTAMP(9)", '"2024-06-01T10:00:00.123456789Z"', "2024-06-01 10:00:00.123456789"),
        ("TIMESTAMP(6)", '"2024-13-01T10:00:00Z"', BAD),
        ("TIMESTAMP(6)", '"+294247-01-10T04:00:54.775807Z"', BAD),
        ("TIMESTAMP(6)", "1.5", BAD),
        ("TIMESTAMP_LTZ(3)", '"2024-06-01T10:00:00.123Z"', STAMP.replace(microsecond=123000)),
        ("TIMESTAMP_LTZ(6)", "1717236000123456", STAMP),
        ("TIMESTAMP_LTZ(6)", '"infinity"', BAD),
    ],
)
def test_each_value_gets_the_type_of_its_column(column_type: str, text: str, want: Any) -> None:
    if column_type.startswith("TIMESTAMP_LTZ") and isinstance(want, dt.datetime):
        want = want.replace(tzinfo=UTC)
    check(column_type, text, want)


@pytest.mark.parametrize(
    ("mode", "text", "want"),
    [
        ("double", "1.0E-4", D("0.0001")),
        ("double", "9.99999999999E9", D("9999999999.9900")),
        ("double", "0E-10", D("0.0000")),
        ("double", "1e-5", BAD),
        ("double", "1e40", BAD),
        ("double", "1e999999999999999999999", BAD),
        ("double", "5e-43", BAD),
        ("double", "1e-1000000000", BAD),
        ("double", '"NaN"', BAD),
        ("double", "12345678901234567890123456.7891", D("12345678901234567890123456.7891")),
        ("string", '"19.99"', D("19.9900")),
        ("string", '"-0.00010"', D("-0.0001")),
        ("string", '"5E-43"', BAD),
        ("string", '"5\\u0065-43"', BAD),
        ("string", '"0.' + "0" * 24 + '5e-9"', BAD),
        ("string", '"1e-1000000000"', BAD),
        ("string", '"0e-1000000000"', D("0.0000")),
        ("string", '"1.5000' + "0" * 100 + '"', D("1.5000")),
        ("string", '"123456e-2"', D("1234.5600")),
        ("string", '""', BAD),
        ("string", '"1,5"', BAD),
        ("string", '"AeI6"', BAD),
        ("precise", '"Awzc"', D("19.9900")),
        ("precise", '"AA=="', D("0.0000")),
        ("precise", '"/w=="', D("-0.0001")),
        ("precise", '""', BAD),
        ("precise", '{"scale":0,"value":"Ag=="}', D("2.0000")),
        ("precise", '{"scale":-2,"value":"Ag=="}', D("200.0000")),
        ("precise", '{"scale":5,"value":"AQ=="}', BAD),
        ("precise", '{"scale":"0","value":"Ag=="}', BAD),
        ("precise", "2.5", D("2.5000")),
    ],
)
def test_each_mode_of_decimals_keeps_their_value(mode: str, text: str, want: Any) -> None:
    check("DECIMAL(30,4)", text, want, **{"decimal.handling.mode": mode})


@pytest.mark.parametrize(
    ("column_type", "mode", "text", "want"),
    [
        ("DATE", "connect", "19782", dt.date(2024, 2, 29)),
        ("DATE", "isostring", '"2024-02-29Z"', dt.date(2024, 2, 29)),
        ("TIME(6)", "connect", "86399999", dt.time(23, 59, 59, 999000)),
        ("TIME(3)", "adaptive_time_microseconds", "86399999999", dt.time(23, 59, 59, 999000)),
        ("TIME(3)", "microseconds", "86399999999", dt.time(23, 59, 59, 999000)),
        ("TIME(3)", "nanoseconds", "86399999999999", dt.time(23, 59, 59, 999000)),
        ("TIME(3)", "isostring", '"23:59:59.999999Z"', dt.time(23, 59, 59, 999000)),
        ("TIMESTAMP(6)", "connect", "1717236000123", STAMP.replace(microsecond=123000)),
        (
            "TIMESTAMP(3)",
            "adaptive_time_microseconds",
            "1717236000123",
            STAMP.replace(microsecond=123000),
        ),
        ("TIMESTAMP(3)", "microseconds", "1717236000123456", STAMP.replace(microsecond=123000)),
        ("TIMESTAMP(6)", "nanoseconds", "1717236000123456789", STAMP),
        ("TIMESTAMP(6)", "isostring", '"2024-06-01T10:00:00.123456Z"', STAMP),
    ],
)
def test_time_precision_mode(column_type: str, mode: str, text: str, want: Any) -> None:
    check(column_type, text, want, **{"time.precision.mode": mode})


@pytest.mark.parametrize(
    ("mode", "text", "want"),
    [
        ("bytes", '"+/8="', b"\xfb\xff"),
        ("base64", '"+/8="', b"\xfb\xff"),
        ("base64", '"-_8="', BAD),
        ("base64-url-safe", '"-_8="', b"\xfb\xff"),
        ("hex", '"00fF"', b"\x00\xff"),
        ("hex", '"0"', BAD),
        ("hex", '"0g"', BAD),
    ],
)
def test_binary_handling_mode(mode: str, text: str, want: Any) -> None:
    check("BYTES", text, want, **{"binary.handling.mode": mode})


@pytest.mark.parametrize(
    ("column_type", "encoding", "text", "want"),
    [
        ("TIMESTAMP(6)", "epoch-seconds", "1717236000", dt.datetime(2024, 6, 1, 10)),
        ("DATE", "epoch-millis", "-1", dt.date(1969, 12, 31)),
        ("BIGINT", "base64", '"/w=="', -1),
        ("BIGINT", "base64", '"AP//////////"', BAD),
        ("DECIMAL(20,0)", "base64", '"AP//////////"', D(2**64 - 1)),
        ("BYTES", "text", '"é"', "é".encode()),
    ],
)
def test_column_encoding(column_type: str, encoding: str, text: str, want: Any) -> None:
    check(column_type, text, want, **{"column.v.encoding": encoding})


def test_base64_of_every_length() -> None:
    rng = random.Random(1)
    raw = [rng.randbytes(length) for length in range(40)] + [None, b"", b"x"]
    texts = [None if value is None else base64.b64encode(value).decode() for value in raw]
    for start in (0, 5, 41):
        decoded_values, has_failed = decode_base64(pa.array(texts).slice(start))
        assert decoded_values.to_pylist() == raw[start:]
        assert has_failed is None
        hex_texts = pa.array([None if value is None else value.hex() for value in raw])
        assert decode_hex(hex_texts.slice(start))[0].to_pylist() == raw[start:]


@pytest.mark.parametrize("precision", [1, 9, 10, 17, 18, 19, 20, 37, 38])
def test_a_decimal_takes_exactly_the_numbers_of_its_precision(precision: int) -> None:
    """Exactly the numbers of so many digits fit, whatever their number of bytes."""
    end = 10**precision
    numbers = [end - 1, 1 - end, end, -end, 0, -1, 255, -256, 2**127 - 1, -(2**127)]
    numbers += [2**64, 2**63, -(2**63), 2**200, -(2**64)]
    raw = [n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True) for n in numbers]
    target = pa.decimal128(precision, 0)
    decoded_decimals, has_failed = decimals_from_bytes(pa.array(raw), 0, target)
    want = [D(n) if abs(n) < end else None for n in numbers]
    assert decoded_decimals.to_pylist() == want
    assert has_failed is not None
    assert has_failed.tolist() == [value is None for value in want]


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("identity", ["full", "default"])
def test_decimals_that_have_their_scale_in_both_images(keeps: bool, identity: str) -> None:
    """PostgreSQL's NUMERIC without a scale, also in the key."""

    def row(key: str, amount: str) -> str:
        numbers = [f'{{"scale":1,"value":"{value}"}}' for value in (key, amount)]
        return f'{{"id":{numbers[0]},"d":{numbers[1]}}}'

    decode = a_format(
        "id DECIMAL(10,2), d DECIMAL(10,2)", keeps_update_before=keeps,
        options={"replica-identity": identity},
    )  # fmt: skip
    decoded_batch = decode.decode(
        messages(
            event(after=row("AQ==", "BQ==")),
            event("u", before=row("AQ==", "BQ=="), after=row("AQ==", "Bg==")),
            event("u", before=row("AQ==", "Bg=="), after=row("Ag==", "Bg==")),
            event("d", before=row("Ag==", "Bg==")),
        )
    )
    old = {amount: D(amount) if identity == "full" else None for amount in ("0.50", "0.60")}
    want = [
        (0, "+I", D("0.10"), D("0.50")),
        *([(1, "-U", D("0.10"), old["0.50"])] if keeps else []),
        (1, "+U", D("0.10"), D("0.60")),
        (2, "-U", D("0.10"), old["0.60"]),
        (2, "+U", D("0.20"), D("0.60")),
        (3, "-D", D("0.20"), old["0.60"]),
    ]
    assert rows_of(decoded_batch) == want
    assert reasons_of(decoded_batch) == {}


def test_many_different_kinds_in_one_batch() -> None:
    """NaN among numbers, text among integers: each record is read as what it is."""
    texts = ["1.5", '"NaN"', '"Infinity"', "null", "2"] * 200 + ['"x"']
    batch = messages(
        *(event(after=f'{{"id":{index},"f":{text}}}') for index, text in enumerate(texts))
    )
    decoded_batch = a_format("id BIGINT, f DOUBLE").decode(batch)
    want = [1.5, math.nan, math.inf, None, 2.0] * 200
    assert repr([row[3] for row in rows_of(decoded_batch)]) == repr(want)
    assert list(reasons_of(decoded_batch)) == [1000]
