"""Malformed CDC messages, each with the results that are allowed for it.

Every value of a good message tells its column, so that one in a wrong column is seen. A hostile
message is a good one with something done to it: a value replaced, its envelope bent, its bytes
broken.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from stream_app.model.schema.data_type import parse_columns

COLUMNS = "id BIGINT, a INT, s STRING, d DECIMAL(10, 2), f DOUBLE, y BOOLEAN, w STRING"
OPTIONS = {"decimal.handling.mode": "string", "truncate": "ignore"}
HUGE_SIZE = 10_000_000
DEPTH = 100_000


class Fate(Enum):
    """What may become of a message."""

    ROW = "its row, exactly"
    BAD = "set aside"
    ROW_OR_BAD = "its row but for the columns that were touched, or set aside"
    NO_ROW = "skipped or set aside"
    ANY = "anything but lost"


@dataclass(frozen=True)
class Hostile:
    """A message.

    Attributes:
        description: of what was done to the good message.
        row: the values of the good message, by column.
        touched_names: columns whose values were replaced.
    """

    description: str
    value: bytes | None
    fate: Fate
    row: dict[str, Any]
    touched_names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Wrapping:
    """How a source wraps rows."""

    name: str
    wrap: Callable[[str, str], str]


def _plain(row: str, op: str) -> str:
    return f'{{"before":null,"after":{row},"source":{{"lsn":1}},"op":{op},"ts_ms":1}}'


_SCHEMA = (
    '{"type":"struct","optional":false,"name":"t.Envelope","fields":['
    '{"type":"struct","optional":true,"field":"before","fields":[]},'
    '{"type":"struct","optional":true,"field":"after","fields":[]},'
    '{"type":"string","optional":false,"field":"op"}]}'
)
WRAPPINGS = (
    Wrapping("plain", _plain),
    Wrapping("schema", lambda row, op: f'{{"schema":{_SCHEMA},"payload":{_plain(row, op)}}}'),
    Wrapping("flat", lambda row, op: f'{row[:-1]},"__op":{op},"__deleted":"false"}}'),
)

VALUES = (
    "NaN", "Infinity", "-Infinity",
    "null", "true", "false", "0", "-0", "-0.0", "1e400", "-1e400", "1e-400", "1E+5", "9" * 400,
    "0." + "1" * 400, "5e-41",
    '"5e-41"', "1e-1000000000", '"1e-1000000000"', '"0\\u0065-1000000000"',
    "9223372036854775808", "-9223372036854775809", "2147483648", "1.5",
    '""', '"x"', '"1"', '" 1 "', '"1e5"', '"NaN"', '"Infinity"', '"-Infinity"', '"0x10"',
    '"12345678901.00"', '"1.234"', '"true"', '"\\u0000"', '"\\ud800\\udc00"', '"a\\nb"',
    "[]", "[1]", "{}", '{"x":1}', '[[[["x"]]]]', '{"scale":0,"value":"AQ=="}',
    '"__debezium_unavailable_value"', "[" * 200 + "]" * 200, '"' + "long " * 2000 + '"',
)  # fmt: skip
"""Correct JSON that a column may not want, and the three words that many take for it."""
NO_VALUES = (
    "nan", "01", "+1", ".5", "1.", "0x10", "1_000", "'x'", "x",
    "tru", "undefined", '"\t"', '"a\nb"', '"\\x"', '"\\u12"', '"open', "[1,]", '{"x":}', "", "1 2",
)  # fmt: skip
"""No JSON at all."""
ALL_COLUMNS = (
    "id BIGINT, y BOOLEAN, ti TINYINT, sm SMALLINT, i INT, f FLOAT, d DOUBLE, s STRING, c CHAR(3), "
    "b BYTES, da DATE, t3 TIME(3), t0 TIME, p0 TIMESTAMP(0), p3 TIMESTAMP(3), p6 TIMESTAMP(6), "
    "p9 TIMESTAMP(9), z3 TIMESTAMP_LTZ(3), z9 TIMESTAMP_LTZ(9), n DECIMAL(10, 2), "
    "w DECIMAL(38, 18), k DECIMAL(18, 0)"
)
MODES: tuple[dict[str, str], ...] = (
    {},
    {"decimal.handling.mode": "string", "time.precision.mode": "isostring",
     "binary.handling.mode": "hex"},
    {"decimal.handling.mode": "double", "time.precision.mode": "nanoseconds",
     "binary.handling.mode": "base64-url-safe"},
    {"time.precision.mode": "connect", "unknown-columns": "strict"},
    {"time.precision.mode": "microseconds", "replica-identity": "default"},
    {"time.precision.mode": "adaptive_time_microseconds", "decimal.handling.mode": "string",
     "replica-identity": "default"},
)  # fmt: skip
FORMED_VALUES = (
    '"2024-02-29"', '"2024-02-30"', '"0000-00-00"', '"10000-01-01"', '"-0001-01-01"',
    '"2024-01-01T24:00:00Z"', '"2024-01-01 00:00:00.123456789+14:00"', '"2262-04-12T00:00:00Z"',
    '"2024-01-01T00:00:00.1234567890Z"', '"07:30:00Z"', '"25:00:00"', '"23:59:59+99:99"',
    "9223372036854775807", "-9223372036854775808", "253402300800", "86400000", "-1",
    '"AQ=="', '"AQ"', '"===="', '"AQ==AQ=="', '"/////////////////////w=="', '"0A"', '"0a1"',
    '{"scale":1000,"value":"AQ=="}', '{"scale":1001,"value":"AQ=="}',
    '{"scale":1.5,"value":"AQ=="}',
    '{"scale":2147483648,"value":"AQ=="}', '{"scale":null,"value":null}', '{"value":"AQ=="}',
    '{"scale":2,"value":""}', '{"scale":2,"value":1}', '{"scale":2,"scale":3,"value":"AQ=="}',
    '{"scale":-40,"value":"f////////////////////w=="}', "0E+1000000000", '"0E+1000000000"',
    '"1e-99999999999999999999"', '"\u0661\u0662"', '"+5"', '"5\\n"', '"2024-01-01\\n"', '"AQ==\\n"',
)  # fmt: skip
"""Values that a date, a time, bytes or a decimal may look like."""
OPS = ('"x"', '"C"', '"cc"', '""', "null", "1", "[]", "{}", '"\\u0063 "', "true")
BROKEN_BYTES = (b"\xff", b"\xc3\x28", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80")
WHOLE_VALUES = (
    b"", b" ", b"\n", b"null", b"true", b"1", b'"x"', b"[]", b"[{}]", b"{", b"}", b"\x00", b"{}{}",
    b"{}", b'{"payload":1}', b'{"payload":[]}', b'{"schema":null,"payload":null}', b'{"op":"c"}',
    b'{"op":"c","after":1}', b'{"op":"c","after":[]}', b'{"op":"u","before":null,"after":null}',
    b'{"op":"d","before":null,"after":null}', b'{"op":"d"}', b'{"op":"t"}', b'{"op":"m"}',
    b'{"schema":1,"payload":{"op":"c","after":{}}}', b'\xef\xbb\xbf{}', b'{"a":1}\n{"a":2}',
    b'{"before":null,"after":{},"op":"c"}', b'{"after":{"id":null},"op":"c","before":null}',
)  # fmt: skip


def values_in_columns(count: int, rng: random.Random) -> list[bytes]:
    """Return messages with one odd value each, in any column, image and kind of event."""
    names = parse_columns(ALL_COLUMNS).names
    pieces = []
    for number in range(count):
        good = f'{{"id":{number}}}'
        name, value = rng.choice(names), rng.choice([*VALUES, *FORMED_VALUES])
        odd = object_of({"id": str(number), name: value})
        pieces.append(rng.choice([
            f'{{"before":null,"after":{odd},"op":"c"}}',
            f'{{"before":{odd},"after":null,"op":"d"}}',
            f'{{"before":{good},"after":{odd},"op":"u"}}',
            f'{{"before":{odd},"after":{good},"op":"u"}}',
            f'{{"before":{odd},"after":{odd},"op":"u"}}',
            f'{odd[:-1]},"__op":"u","__deleted":"false"}}',
        ]).encode())  # fmt: skip
    return pieces


def hostile_messages(wrapping: Wrapping, count: int, rng: random.Random) -> list[Hostile]:
    """Return so many messages, about a third of them good; a few are huge or deep."""
    messages = [_good(wrapping, number, rng) for number in range(count)]
    makers = [
        *(_good, _good, _value, _value, _no_value, _operation, _bytes, _text, _whole, _fields),
        *(_nested, _digits, _repeated),
    ]
    for number in range(count):
        messages[number] = rng.choice(makers)(wrapping, number, rng)
    for number, maker in enumerate((_huge, _deep, _huge, _deep)):
        messages[(number + 1) * count // 5] = maker(wrapping, number, rng)
    return messages


def good_row(number: int) -> dict[str, Any]:
    """Return the values of a good message, of which each tells its column."""
    return {
        "id": number,
        "a": 1_000_000 + number,
        "s": f"s{number}",
        "d": Decimal(30_000_000 + number) / 100,
        "f": number + 0.5,
        "y": number % 2 == 0,
        "w": f"w{number}",
    }


def _texts(row: dict[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(str(value) if isinstance(value, Decimal) else value)
        for name, value in row.items()
    }


def good_texts(number: int) -> dict[str, str]:
    """Return the JSON texts of a good row, by column."""
    return _texts(good_row(number))


def object_of(texts: dict[str, str]) -> str:
    """Return an object of JSON texts by name."""
    return "{" + ",".join(f'"{name}":{text}' for name, text in texts.items()) + "}"


def _good(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    row = good_row(number)
    return Hostile("good", wrapping.wrap(object_of(_texts(row)), '"c"').encode(), Fate.ROW, row)


def _replaced(
    wrapping: Wrapping, number: int, rng: random.Random, text: str, fate: Fate
) -> Hostile:
    row, name = good_row(number), rng.choice(["id", "a", "s", "d", "f", "y", "w"])
    value = wrapping.wrap(object_of({**_texts(row), name: text}), '"c"').encode()
    return Hostile(f"{name} is {text[:60]}", value, fate, row, frozenset([name]))


def _value(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    return _replaced(wrapping, number, rng, rng.choice(VALUES), Fate.ROW_OR_BAD)


def _no_value(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    return _replaced(wrapping, number, rng, rng.choice(NO_VALUES), Fate.BAD)


def _operation(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    row, op = good_row(number), rng.choice(OPS)
    value = wrapping.wrap(object_of(_texts(row)), op).encode()
    # A flattened message need not say what it is.
    fate = Fate.ROW_OR_BAD if op == "null" else Fate.NO_ROW
    return Hostile(f"op {op}", value, fate, row)


def _bytes(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    """Return bytes that are not UTF-8, within a text."""
    good = _good(wrapping, number, rng)
    broken, text = rng.choice(BROKEN_BYTES), f'"s{number}'.encode()
    assert good.value is not None
    value = good.value.replace(text, text + broken)
    return Hostile(f"bytes {broken!r}", value, Fate.BAD, good.row)


def _text(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    """Return the text cut, doubled, or with something around it."""
    good = _good(wrapping, number, rng)
    value = good.value
    assert value is not None
    cut = rng.randrange(1, len(value))
    description, value, fate = rng.choice([
        ("cut", value[:cut], Fate.BAD),
        ("without its head", value[cut:], Fate.BAD),
        ("twice", value + value, Fate.BAD),
        ("twice, on two lines", value + b"\n" + value, Fate.BAD),
        ("rubbish behind", value + b"x", Fate.BAD),
        ("in a list", b"[" + value + b"]", Fate.BAD),
        ("a byte order mark", b"\xef\xbb\xbf" + value, Fate.ROW_OR_BAD),
        ("spaces around", b" \t\r\n" + value + b"\n \n", Fate.ROW_OR_BAD),
        ("lines within", value.replace(b",", b",\n"), Fate.ROW_OR_BAD),
        ("a carriage return within", value.replace(b":", b":\r\n"), Fate.ROW_OR_BAD),
        ("NUL behind", value + b"\0", Fate.BAD),
        ("UTF-16", value.decode().encode("utf-16"), Fate.BAD),
        ("a flipped bit", _flipped(value, rng), Fate.ANY),
        ("a tombstone", None, Fate.NO_ROW),
    ])  # fmt: skip
    return Hostile(description, value, fate, good.row)


def _flipped(value: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(value))
    return (
        value[:position]
        + bytes([value[position] ^ (1 << rng.randrange(8))])
        + value[position + 1 :]
    )


def _whole(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    value = rng.choice(WHOLE_VALUES)
    return Hostile(f"nothing but {value!r}", value, Fate.ANY, good_row(number))


def _fields(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    """Return the fields incomplete, doubled, with unknown ones, or in another order or case."""
    row = good_row(number)
    texts = _texts(row)
    name = rng.choice(list(row))
    shuffled_texts = dict(rng.sample(list(texts.items()), len(texts)))
    doubled_text = object_of(texts)[:-1] + f',"{name}":"s{number + 1}"}}'
    renamed_texts = {(key.upper() if key == name else key): text for key, text in texts.items()}
    missing = {key: text for key, text in texts.items() if key != name}
    touched_names = frozenset([name])
    description, text, fate, touched_names = rng.choice([
        (f"{name} twice", doubled_text, Fate.ROW_OR_BAD, touched_names),
        (f"{name} missing", object_of(missing), Fate.ROW_OR_BAD, touched_names),
        (f"{name} in capitals", object_of(renamed_texts), Fate.ROW_OR_BAD, touched_names),
        ("another order", object_of(shuffled_texts), Fate.ROW, frozenset()),
        ("an unknown column", object_of({"zz": '{"id":1}', **texts}), Fate.ROW, frozenset()),
        ("an escaped name", object_of(texts).replace('"s":', '"\\u0073":'), Fate.ROW_OR_BAD,
         frozenset("s")),
        ("an empty name", object_of({"": "1", **texts}), Fate.ROW_OR_BAD, frozenset()),
    ])  # fmt: skip
    return Hostile(description, wrapping.wrap(text, '"c"').encode(), fate, row, touched_names)


def _nested(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    depth = _size(rng, 2_000)
    deep = rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
    name = rng.choice(["w", "s", "a", "zz"])
    value = wrapping.wrap(object_of({**good_texts(number), name: deep}), '"c"').encode()
    description, fate = f"{name} nests {depth} deep", Fate.ROW_OR_BAD
    return Hostile(description, value, fate, good_row(number), frozenset([name]))


def _digits(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    digits = str(rng.randrange(1, 10)) * _size(rng, 10_000)
    text = rng.choice([digits, f"-{digits}", f"0.{digits}", f'"{digits}"', f"1e{digits}"])
    return _replaced(wrapping, number, rng, text, Fate.ROW_OR_BAD)


def _repeated(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    name = rng.choice(["w", "s", "a", "zz"])
    again = f',"{name}":"w{number}"' * _size(rng, 1_000)
    value = wrapping.wrap(object_of(good_texts(number))[:-1] + again + "}", '"c"').encode()
    fate = Fate.BAD if name != "zz" else Fate.ROW
    return Hostile(f"{name} again and again", value, fate, good_row(number))


def _size(rng: random.Random, most: int) -> int:
    """Return a size from 1 to `most`, of which each order of magnitude is equally likely."""
    return int(most ** rng.random())


def _huge(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    row = {**good_row(number), "w": "h" * HUGE_SIZE}
    value = wrapping.wrap(object_of(_texts(row)), '"c"').encode()
    return Hostile("a huge text", value, Fate.ROW, row)


def _deep(wrapping: Wrapping, number: int, rng: random.Random) -> Hostile:
    deep = rng.choice(["[" * DEPTH + "]" * DEPTH, '{"a":' * DEPTH + "1" + "}" * DEPTH])
    text = object_of({**_texts(good_row(number)), "w": deep})
    value = wrapping.wrap(text, '"c"').encode()
    return Hostile("a deep value", value, Fate.ROW_OR_BAD, good_row(number), frozenset("w"))
