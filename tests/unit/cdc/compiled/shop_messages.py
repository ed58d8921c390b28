"""Debezium messages of one table with a column of each type, usual and odd ones, from a seed."""

from __future__ import annotations

import base64
import json
import random

COLUMNS = (
    "id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), big DECIMAL(38,4), ratio DOUBLE, "
    "single FLOAT, flag BOOLEAN, n INT, updated_at TIMESTAMP(6), day DATE, body BYTES, "
    "dt STRING NOT NULL"
)
NAMES = tuple(column.split()[0] for column in COLUMNS.split(", "))
NUMBERS = (
    "0", "-0", "7", "-7", "007", "-", "+1", "9223372036854775807", "-9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551617", "99999999999999999999",
    "2147483648", "1.0", "1.50", "1.5e2", "1E2", "1e-2", "-0.0", "0.1", "1.", ".5", "1e", "1e400",
    "123456789012.34", "12345678901234567.8", "1234567890123456789.01", "0.001", "1.005", "NaN",
    "Infinity", "-Infinity", "0x10", "00", "-00.1", "5e-41", "1" * 40, "1" * 37 + ".25",
    "0.1234567890123456789", "3.4028236e38", "1e39", "16777217", "4.9e-324", "123 ", " 123\t\r\n",
    "9" * 18 + ".5", "-" + "9" * 20 + ".123456789012345678", "1" + "0" * 19, "-1" + "0" * 37,
    "9" * 38,
)  # fmt: skip
TEXTS = (
    '""', '"a"', '"plain"', '"with \\"quotes\\" and \\\\"', '"\\b\\f\\n\\r\\t\\/"', '"\\u00e9"',
    '"\\ud83d\\ude00"', '"\\ud83d"', '"\\u0000"', '"\\x"', '"é"', '"漢字"', '"😀"', '"a\tb"',
    '"\x7f"', '"}"', '"{\\"after\\":null}"', '",\\"source\\":{"', '"true"', '"1.50"', '"-7.25"',
    '"7"', '" 7"', '"7 "', '"1e3"', '"NaN"', '"+7.5"', '".5"', '"0012.50"', '"AA=="', '"AAA="',
    '"AQ=="', '"AR=="', '"AQ"', '"AQ=A"', '"AQ==AQ=="', '"////"', '"/w=="', '"//8="', '"gA=="',
    '"AIA="', '"f/////////8="', '"gAAAAAAAAAA="', '"AQIDBAUGBw=="', '"AQIDBAUGBwg="', '"==="',
    '"\\u00fc\\u6f22\\u0022x"', '"\\uD83D\\uDE00 \\u00E9"', '"\\ude00"', '"\\ud83d\\u0041"',
    '"\\u00g0"',
    '"\\u12', '"\\ud83d\\ud83d"', '"\\u07ff\\u0800\\uffff"', '"12345678901234567890.5"',
    '"AQIDBAUGBwgJ"', '"2024-02-29"', '"__debezium_unavailable_value"',
    '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="', '"' + "long " * 40 + '"', '"unterminated',
)  # fmt: skip
OTHERS = (
    "null", "true", "false", "nul", "nulll", "True", "{}", "[]", '{"scale":2,"value":"AQ=="}',
    "[1,2,[3]]", '{"a":{"b":[{}]}}', "[" * 70 + "]" * 70, "[1,]", '{"a":1,}', '{"a"}', "[1}", "",
    '{"a":1,"a":2}', "null ", "\ttrue", '{ "a" : 1}', '{"a": [1, {"b":2 }, [ ] , { }\n]}', "[ 1 2]",
    " ",
)  # fmt: skip
TAILS = (
    ',"source":{"connector":"postgresql","db":"d","schema":"s","table":"t","lsn":%d},"op":"%s",'
    '"ts_ms":1795232574433}',
    ',"source":{"version":"3.7.0.Final","connector":"mysql","db":"d","table":"t","pos":%d},'
    '"transaction":null,"op":"%s","ts_ms":17}',
)


def usual_value(name: str, rng: random.Random) -> str:
    """JSON that fits the column, as a connector with its default modes writes it."""
    match name:
        case "id" | "updated_at":
            return str(rng.choice([rng.randrange(100), 1709251199123456 + rng.randrange(10**9)]))
        case "n" | "day":
            return str(rng.randrange(-(2**15), 2**15))
        case "amount" | "big":
            cents = rng.randrange(-(10**9), 10**9) // 10 ** rng.randrange(9)
            raw = cents.to_bytes(cents.bit_length() // 8 + 1, "big", signed=True)
            return f'"{base64.b64encode(raw).decode()}"'
        case "ratio" | "single":
            return repr(rng.choice([rng.random(), float(rng.randrange(1000)), rng.gauss(0, 1e20)]))
        case "flag":
            return rng.choice(["true", "false"])
        case "body":
            return f'"{base64.b64encode(rng.randbytes(rng.randrange(9))).decode()}"'
        case _:
            text = "".join(rng.choices('ab é漢😀"\\\n/', k=rng.randrange(12)))
            return json.dumps(text, ensure_ascii=False)


def image(rng: random.Random, odd: float) -> str:
    """An object; each value and each of its features is an odd one with this probability."""
    fields = [
        f'"{name}":{odd_value(rng) if rng.random() < odd else usual_value(name, rng)}'
        for name in NAMES
        if rng.random() >= odd / 4
    ]
    if rng.random() < odd:
        rng.shuffle(fields)
    if rng.random() < odd:
        name = rng.choice(["zz", "zz", "é", 'q\\"', "\\u0069d", "ID", ""])
        fields.insert(rng.randrange(len(fields) + 1), f'"{name}":{odd_value(rng)}')
    if rng.random() < odd / 2 and fields:
        fields.append(rng.choice(fields))
    comma = ", " if rng.random() < odd / 4 else ","
    return f"{{{comma.join(fields)}}}"


def odd_value(rng: random.Random) -> str:
    """Any JSON, and what is none."""
    return rng.choice(rng.choice((NUMBERS, TEXTS, OTHERS, ("null",))))


def message(rng: random.Random, odd: float) -> str:
    """Return one record in its envelope."""
    op = rng.choice("ccuuuudr")
    before = image(rng, odd) if op in "ud" and rng.random() < 0.95 else "null"
    after = "null" if op == "d" else image(rng, odd)
    tail = rng.choice(TAILS) % (rng.randrange(10**6, 10**7), op)
    return f'{{"before":{before},"after":{after}{tail}'


def flat_message(rng: random.Random, odd: float) -> str:
    """Return one flattened record, as ExtractNewRecordState makes it."""
    fields = [image(rng, odd)[1:-1]]
    fields += [f'"__op":"{rng.choice("ccuuuudr")}"'] * (rng.random() >= odd)
    fields += ['"__deleted":"false"', '"__db":"d","__table":"t"']
    fields += ['"op":"c","before":null'] * (rng.random() < odd / 4)
    return f"{{{','.join(filter(None, fields))}}}"


def mutated(value: bytes, rng: random.Random) -> bytes:
    """The message with bytes changed, lost, doubled or put in."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        start, end = sorted((rng.randrange(len(value) + 1), rng.randrange(len(value) + 1)))
        match rng.randrange(7):
            case 0:
                value = value[:start] + bytes([rng.randrange(256)]) + value[start + 1 :]
            case 1:
                value = value[:start] + value[start + 1 :]
            case 2:
                value = (
                    value[:start] + rng.choice(b'{}[]":,\\0129eE-.x \n\x80\xc3\xe2\xf0').to_bytes()
                )
                value += b"" if start == len(value) else value[start:]
            case 3:
                value = value[:start]
            case 4:
                value = value[:start] + value[end:]
            case 5:
                value = value[:end] + value[start:]
            case _:
                value = value[:start] + value[start:end][::-1] + value[end:]
    return value or b"x"
