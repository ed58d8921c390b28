"""Columns, the ways in which a source encodes them, and JSON values near what each can hold.

Everything follows from the random generator that is passed in. What a value means is for
`reference_decoder` to say.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.messages.reference_decoder import Column

_INTS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_DECIMALS = ((5, 2), (10, 0), (18, 18), (19, 4), (36, 1), (37, 36), (38, 0), (38, 18), (38, 38))
_TIME_MODES = {
    "adaptive": "",
    "adaptive_time_microseconds": "",
    "connect": "epoch-millis",
    "isostring": "iso",
    "microseconds": "epoch-micros",
    "nanoseconds": "epoch-nanos",
}
_DECIMAL_MODES = {"precise": "base64", "string": "text", "double": "number"}
_BINARY_MODES = {
    "bytes": "base64",
    "base64": "base64",
    "base64-url-safe": "base64-url-safe",
    "hex": "hex",
}


@dataclass(frozen=True)
class Source:
    """A column and the connector that fills it.

    Attributes:
        sql: the column's type.
        options: of the format.
        field: the Connect schema's field of the column; None: no schema is sent.
    """

    sql: str
    column: Column
    options: dict[str, str] = field(default_factory=dict)
    field: dict[str, Any] | None = None

    def __str__(self) -> str:
        field_text = "" if self.field is None else json.dumps(self.field)
        return " ".join(
            [self.sql, *(f"{key}={value}" for key, value in self.options.items()), field_text]
        )


def sources_of_options() -> Iterator[Source]:
    """Yield each column type with each encoding that options can give it."""
    yield Source("BOOLEAN", Column("BOOLEAN"))
    for root in _INTS:
        yield Source(root, Column(root))
        yield Source(root, Column(root, encoding="base64"), {"column.v.encoding": "base64"})
    for root in ("FLOAT", "DOUBLE"):
        yield Source(root, Column(root))
    for precision, scale in _DECIMALS:
        column = Column("DECIMAL", precision, scale, value_scale=scale)
        for mode, encoding in _DECIMAL_MODES.items():
            sql, options = f"DECIMAL({precision},{scale})", {"decimal.handling.mode": mode}
            yield Source(sql, replace(column, encoding=encoding), options)
    for sql in ("STRING", "CHAR(3)", "VARCHAR(5)"):
        yield Source(sql, Column("STRING", encoding="text"))
    for sql in ("BYTES", "BINARY(3)"):
        for mode, encoding in _BINARY_MODES.items():
            column = Column("BYTES", encoding=encoding)
            yield Source(sql, column, {"binary.handling.mode": mode})
        yield Source(sql, Column("BYTES", encoding="text"), {"column.v.encoding": "text"})
    yield from _times_of_options()


def _times_of_options() -> Iterator[Source]:
    for encoding in ("epoch-seconds", "epoch-millis", "epoch-micros", "epoch-nanos"):
        yield Source(
            "DATE", Column("DATE", encoding=encoding), {"column.v.encoding": encoding}
        )  # fmt: skip
    for mode, fixed_format in _TIME_MODES.items():
        options = {"time.precision.mode": mode}
        iso = fixed_format == "iso"
        yield Source("DATE", Column("DATE", encoding="iso" if iso else "epoch-days"), options)
        for root, sql, precision in _TIMES:
            adaptive = _adaptive(precision)
            if mode == "adaptive_time_microseconds" and root == "TIME":
                adaptive = "epoch-micros"
            yield Source(sql, Column(root, precision, encoding=fixed_format or adaptive), options)
    for root, sql, precision in _TIMES:
        column = Column(root, precision, encoding="epoch-seconds")
        yield Source(sql, column, {"column.v.encoding": "epoch-seconds"})


_TIMES = (
    *(("TIME", f"TIME({precision})", precision) for precision in (0, 3, 6)),
    *(("TIMESTAMP", f"TIMESTAMP({precision})", precision) for precision in (0, 3, 6, 7, 9)),
    *(("TIMESTAMP", f"TIMESTAMP_LTZ({precision})", precision) for precision in (2, 6, 9)),
)


def _adaptive(precision: int) -> str:
    if precision <= 3:
        return "epoch-millis"
    return "epoch-micros" if precision <= 6 else "epoch-nanos"


_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_TOLD_TIMES = {
    _DEBEZIUM + "Date": ("int32", "epoch-days"),
    _CONNECT + "Date": ("int32", "epoch-days"),
    _DEBEZIUM + "Time": ("int32", "epoch-millis"),
    _DEBEZIUM + "MicroTime": ("int64", "epoch-micros"),
    _DEBEZIUM + "NanoTime": ("int64", "epoch-nanos"),
    _CONNECT + "Time": ("int32", "epoch-millis"),
    _DEBEZIUM + "Timestamp": ("int64", "epoch-millis"),
    _DEBEZIUM + "MicroTimestamp": ("int64", "epoch-micros"),
    _DEBEZIUM + "NanoTimestamp": ("int64", "epoch-nanos"),
    _CONNECT + "Timestamp": ("int64", "epoch-millis"),
    _DEBEZIUM + "ZonedTimestamp": ("string", "iso"),
    _DEBEZIUM + "IsoDate": ("string", "iso"),
    _DEBEZIUM + "IsoTime": ("string", "iso"),
    _DEBEZIUM + "IsoTimestamp": ("string", "iso"),
    _DEBEZIUM + "Year": ("int32", "epoch-days"),
    _DEBEZIUM + "MicroDuration": ("int64", "epoch-micros"),
}


def sources_with_schema() -> Iterator[Source]:
    """Yield columns whose encoding the message's schema tells, also where both misfit."""
    for name, (literal, encoding) in _TOLD_TIMES.items():
        description: dict[str, Any] = {"type": literal, "name": name, "field": "v"}
        semantic = name.rsplit(".", 1)[1]
        for root, sql, precision in (
            ("DATE", "DATE", 0),
            ("TIME", "TIME(3)", 3),
            ("TIMESTAMP", "TIMESTAMP(6)", 6),
            ("TIMESTAMP", "TIMESTAMP(9)", 9),
            ("TIMESTAMP", "TIMESTAMP_LTZ(3)", 3),
        ):
            yield Source(sql, Column(root, precision, 0, encoding, 0, semantic), field=description)
    for semantic in ("MicroTimestamp", "MicroDuration"):
        description = {"type": "int64", "name": _DEBEZIUM + semantic, "field": "v"}
        yield Source("BIGINT", Column("BIGINT"), field=description)
        yield Source("STRING", Column("STRING", encoding="text"), field=description)
    for scale in (0, 2, 18, -2):
        description = {
            "type": "bytes", "name": _CONNECT + "Decimal", "parameters": {"scale": str(scale)},
            "field": "v",
        }  # fmt: skip
        for precision, own_scale in ((10, 2), (38, 0), (38, 18), (38, 38)):
            column = Column("DECIMAL", precision, own_scale, "base64", scale, "Decimal")
            yield Source(f"DECIMAL({precision},{own_scale})", column, field=description)
        yield Source(
            "BIGINT", Column("BIGINT", 0, 0, "base64", scale, "Decimal"), field=description
        )
        yield Source("STRING", Column("STRING", 0, 0, "text", scale, "Decimal"), field=description)
    parts = [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}]
    name = "io.debezium.data.VariableScaleDecimal"
    description = {"type": "struct", "name": name, "fields": parts, "field": "v"}
    column = Column("DECIMAL", 38, 18, "text", 18, "VariableScaleDecimal")
    yield Source("DECIMAL(38,18)", column, field=description)
    yield Source("STRING", Column("STRING", semantic="VariableScaleDecimal"), field=description)
    for literal in ("string", "double"):
        description = {"type": literal, "field": "v"}
        column = Column("DECIMAL", 38, 18, "text", 18)
        yield Source("DECIMAL(38,18)", column, field=description)
    for sql, literal in (("BOOLEAN", "int16"), ("INT", "int64"), ("DOUBLE", "double")):
        yield Source(sql, Column(sql), field={"type": literal, "field": "v"})
    yield Source("BYTES", Column("BYTES", encoding="base64"), field={"type": "bytes", "field": "v"})


_ANY = (
    "null", "true", "false", "0", "-0", "1", "-1", "7", "1.5", "-0.0", "1.0", "1e2", "1E+2", "1e-2",
    '""', '"0"', '"-0"', '"1"', '"007"', '"x"', '" 1"', '"1 "', '"+1"', '"1_0"', '"1\\n"',
    '"\\u0031"', '"\u0663"', '"é"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\ud83d"', '"0x10"', '"1,5"',
    "[]", "[1]", "{}", '{"x":1}', '{"x":1,"x":2}', '[{"x":{"y":1.50,"y":2}}]', '{"a": [ 1 , "b" ]}',
    "NaN", "Infinity", "-Infinity", "Inf", "[NaN]", '{"x":-Infinity}', "nan", "01", "+1", ".5",
    '"NaN"', '"Infinity"', '"-Infinity"', '"inf"', '"nan"', '"+Infinity"', '"a NaN: Infinity"',
    "9" * 30, "9" * 5000, '"' + "9" * 5000 + '"', '"' + "0" * 400 + '5"', '"true"', '"TRUE"',
    "[" * 100 + "]" * 100, "[" * 600 + "]" * 600, '{"a":' * 600 + "1" + "}" * 600,
    '"' + "[" * 600 + '"', '{"scale":0,"value":"AQ=="}', '{"value":"AQ==","scale":2}',
    '{"scale":2,"value":"AQ==","more":1}', '{"scale":2,"scale":3,"value":"AQ=="}',
    '{"scale":"2","value":"AQ=="}', '{"scale":2.0,"value":"AQ=="}', '{"scale":2,"value":1}',
    '{"scale":2}', '{"scale":null,"value":null}', '{"scale":' + "9" * 5000 + ',"value":"AQ=="}',
)  # fmt: skip
_TEXTS = (
    '"AQ=="', '"AQ"', '"AQ="', '"===="', '"AQ==AQ=="', '"A==="', '"AP8="', '"AP9="', '"-_8="',
    '"+/8="', '"AQ==\\n"', '"A Q="', '"00ff"', '"00fF"', '"0g"', '"0"', '"AA=A"', '"\\u0041Q=="',
)  # fmt: skip
_STAMPS = (
    '"2024-02-29"', '"2023-02-29"', '"2024-02-29Z"', '"0000-01-01"', '"0000-02-29"', '"9999-12-31"',
    '"10000-01-01"', '"-0001-01-01"', '"2024-1-1"', '"2024-13-01"', '"2024-02-30"', '"20240229"',
    '"07:30:00Z"', '"07:30:00"', '"07:30"', '"07"', '"23:59:59.999999999Z"', '"24:00:00"',
    '"23:59:60Z"', '"25:00:00"', '"01:30:00+02:00"', '"23:30:00-0230"', '"07:30:00.Z"', '"7:30:00"',
    '"2024-06-01T07Z"', '"2024-06-01 07"', '"2024-06-01T07:30Z"', '"2024-06-01T07:30:15Z"',
    '"2024-06-01T07:30:15"', '"2024-06-01 07:30:15.1"', '"2024-06-01T07:30:15.123456Z"',
    '"2024-06-01T07:30:15.1234567Z"', '"2024-06-01T07:30:15.12345678"',
    '"2024-06-01T07:30:15.123456789+14:00"', '"2024-06-01T07:30:15.1234567890Z"',
    '"1969-12-31T23:59:59.9999999Z"', '"1500-01-01T00:00:00.1234567Z"',
    '"9999-12-31T23:59:59.999999999Z"', '"0000-01-01T00:00:00.0000001"', '"2262-04-11T23:47:16Z"',
    '"2262-04-11T23:47:16.854775807Z"', '"2262-04-11T23:47:16.854775808Z"', '"2262-04-12T00:00:00"',
    '"1677-09-21T00:12:43.145224193Z"', '"1677-09-20T00:00:00Z"', '"0000-01-01T00:30:00+01:00"',
    '"9999-12-31T23:59:59-01:00"', '"2024-06-01T24:00:00Z"', '"2024-06-01T07:60:00Z"',
    '"2024-06-01T07:30:15,5Z"', '"2024-06-01t07:30:15z"', '"2024-06-01T07:30:15 Z"',
    '" 2024-06-01T07:30:15Z"', '"2024-06-01T07:30:15Z\\n"', '"2024-06-01T07:30:15+0200"',
    '"2024-06-01T07:30:15+02"', '"2024-06-01T07:30:15+2"', '"+12024-06-01T07:30:15Z"',
    '"2024-06-01T07:30:15[UTC]"', '"infinity"', '"-infinity"',
)  # fmt: skip


def texts_for(source: Source, rng: random.Random, most: int) -> list[str]:
    """Return JSON texts for the column: what any column may meet, and what lies near its own
    limits.

    Args:
        most: how many of them are chosen.
    """
    column = source.column
    limits: list[str] = []
    match column.root:
        case "DECIMAL":
            limits = _decimal_texts(column, rng)
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            end = 2 ** (_INTS[column.root] - 1)
            near = [
                end - 1,
                end,
                -end,
                -end - 1,
                2**63,
                2**64,
                rng.randrange(-end, end),
            ]
            limits = [form for number in near for form in _forms(number, column.value_scale)]
        case "FLOAT" | "DOUBLE":
            limits = _float_texts(rng)
        case "DATE" | "TIME" | "TIMESTAMP":
            limits = [*_STAMPS, *_counts(rng)]
        case _:
            limits = [
                *_forms(rng.randrange(-(10**9), 10**9), 2),
                *_forms(5, 2),
                *_forms(-7, 0),
            ]
    texts = [*_ANY, *_TEXTS, *limits]
    return rng.sample(texts, min(most, len(texts)))


def _forms(number: int, scale: int) -> list[str]:
    """Return an unscaled number as a JSON number, a text, base64, and with its scale beside it."""
    raw = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    text = base64.b64encode(raw).decode()
    wider = base64.b64encode((b"\xff" if number < 0 else b"\0") * 3 + raw).decode()
    return [
        str(number), f'"{number}"', f'"{text}"', f'"{wider}"',
        f'{{"scale":{scale},"value":"{text}"}}', f'{{"scale":{-scale},"value":"{text}"}}',
    ]  # fmt: skip


def _decimal_texts(column: Column, rng: random.Random) -> list[str]:
    """Return numbers near the column's limits, and beyond 2^127 when they are scaled."""
    end = 10**column.precision
    units = [end - 1, end, 1 - end, -end, end + 1, 10 * end, 2**127 - 1, -(2**127)]
    units += [(2**128) * times + rng.randrange(end) for times in (1, 2, 3, 5, 29)]
    units += [rng.randrange(10 ** rng.randrange(1, column.precision + 3)) for _ in range(6)]
    units += [-rng.randrange(10 ** rng.randrange(1, column.precision + 3)) for _ in range(4)]
    texts = []
    for number in units:
        for form in (_plain(number, column.scale), f"{number}E{-column.scale}"):
            texts += [form, f'"{form}"']
    beyond = [rng.randrange(1, 10 ** rng.randrange(1, 40)) for _ in range(10)]
    texts += [f'"{number}"' for number in beyond] + [str(number) for number in beyond]
    texts += ["350000000000000000000", "5891076346", '"1e38"', "1e39", "-1e400", '"1e-400"']
    texts += ['"1e-38"', '"1e-39"', '"5e-41"', "5e-41", "1e-1000000000", '"1e1000000000"']
    texts += ["0e-50", '"0E+1000000000"', "0." + "1" * 39, '"0.' + "0" * 39 + '"', '"1.0e0"']
    texts += ['"-.5"', '"5."', '"+5"', '"1e99999999999999999999"', '"--1"', '"1e"', '"1e+"']
    coded_integers = [number for number in units if abs(number) < 2**200][:14]
    return texts + [
        form for number in coded_integers for form in _forms(number, column.value_scale)[2:]
    ]


def _plain(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _float_texts(rng: random.Random) -> list[str]:
    numbers = [
        "3.4028235e38", "3.4028235677973366e38", "3.4028236e38", "-3.5e38", "1e39", "1e400",
        "-1e400", "1.7976931348623157e308", "1.7976931348623159e308", "1e-45", "7e-46", "5e-324",
        "2e-324", "1e-400", "16777217", "0.1", "9007199254740993", "1" + "0" * 400, "-0",
        "0." + "0" * 400 + "1", "1.00000017881393432617187499", "1e-1000000000", "1e1000000000",
    ]  # fmt: skip
    numbers += [repr(rng.uniform(-1, 1) * 10 ** rng.randrange(-50, 50)) for _ in range(10)]
    return [form for text in numbers for form in (text, f'"{text}"')]


def _counts(rng: random.Random) -> list[str]:
    """Return days, and seconds to nanoseconds: near midnight, 0000, 1677, 2262 and 9999."""
    numbers = [19_439, -719_528, -719_529, 2_932_896, 2_932_897, 106_751, 106_752, 2**31, 2**63]
    for digits in (0, 3, 6, 9):
        unit = 10**digits
        for seconds in (1_717_236_000, -1, 86_400, 86_399, -62_167_219_200, 253_402_300_800):
            numbers += [seconds * unit, seconds * unit - 1, seconds * unit + unit // 2]
        numbers += [9_223_372_036 * unit, (9_223_372_037) * unit, -9_223_372_037 * unit]
        numbers.append(rng.randrange(-(10**9), 2 * 10**9) * unit + rng.randrange(unit))
    return [str(number) for number in numbers] + [f'"{number}"' for number in numbers[:4]]
