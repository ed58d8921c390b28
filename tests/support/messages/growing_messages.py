"""Messages of kinds that a careless decoder reads in more than linear time, at any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Growing:
    """A kind of messages.

    Attributes:
        values: the messages of a size, whose bytes grow with it.
        size: of the smaller ones that are compared.
    """

    values: Callable[[int], list[str]]
    size: int = 2_000
    columns: str = "id BIGINT, v STRING"
    options: Mapping[str, str] = field(default_factory=dict)


def _row(key: int, fields: str) -> str:
    return f'{{"op":"c","before":null,"after":{{"id":{key},{fields}}}}}'


def _keyed(form: Callable[[int], str]) -> Callable[[int], list[str]]:
    return lambda size: [_row(key, form(key)) for key in range(size)]


def _one(form: Callable[[int], str]) -> Callable[[int], list[str]]:
    return lambda size: [_row(1, form(size))]


def _names(name: Callable[[int], str], size: int) -> str:
    return ",".join(f'"{name(index)}":{index}' for index in range(size))


def _with_schemas(form: str) -> Callable[[int], list[str]]:
    def values(size: int) -> list[str]:
        return [f'{{"schema":{form % key},"payload":{_GOOD}}}' for key in range(size)]

    return values


_ODD = ('"x"', "1.5", "[]")
_KINDS = ("1", "[1]", '"x"', "{}")
_GOOD = _row(1, '"v":"x"')
_DECIMAL = "id BIGINT, v DECIMAL(38, 4)"
_STRUCT = '{"type":"struct","name":"s%d","fields":[]}'
GROWING: dict[str, Growing] = {
    "good ones": Growing(_keyed(lambda key: f'"v":"v{key}"')),
    "a field of the table again and again": Growing(
        _one(lambda size: _names(lambda _: "v", size)), size=10_000
    ),
    "another field again and again": Growing(_one(lambda size: _names(lambda _: "zz", size))),
    "every field twice": Growing(_one(lambda size: _names(lambda index: f"n{index // 2}", size))),
    "names that repeat in a value": Growing(
        _one(lambda size: '"v":{' + _names(lambda index: f"n{index // 2}", size) + "}")
    ),
    "many names": Growing(_one(lambda size: _names(lambda index: f"n{index}", size))),
    "a long list": Growing(_one(lambda size: '"v":[' + ",".join(["[1]"] * size) + "]")),
    "a deep list": Growing(_one(lambda size: '"v":' + "[" * size + "]" * size)),
    "texts with quotes that never end": Growing(
        lambda size: ['{"a":' + "[" * 200 + '"' + '\\"' * size + "}"]
    ),
    "a number of many digits": Growing(_one(lambda size: '"v":' + "9" * size), columns=_DECIMAL),
    "a text of many digits": Growing(
        _one(lambda size: f'"v":"{"9" * size}"'), columns=_DECIMAL,
        options={"decimal.handling.mode": "string"},
    ),
    "a schema with many digits": Growing(
        lambda size: [f'{{"schema":{{"x":{"9" * size}}},"payload":{_GOOD}}}']
    ),
    "schemas of which each is another": Growing(_with_schemas(_STRUCT), size=500),
    "schemas that are broken": Growing(_with_schemas(_STRUCT + ","), size=500),
    "numbers of which each has another scale": Growing(
        _keyed(lambda key: f'"v":{{"scale":{key % 2000 - 1000},"value":"AA=="}}'), columns=_DECIMAL
    ),
    "records that are all refused": Growing(_keyed(lambda _: '"v":"x","v":1')),
    "records that are refused now and then": Growing(
        _keyed(lambda key: '"v":"x","v":1' if key % 100 == 0 else '"v":"x"')
    ),
    "texts in a list of numbers": Growing(
        _one(lambda size: '"v":[' + ",".join(['"x"'] * size) + "]"),
        columns="id BIGINT, v ARRAY<INT>",
    ),
    "texts in a map of numbers": Growing(
        _one(lambda size: '"v":{' + ",".join(f'"k{index}":"x"' for index in range(size)) + "}"),
        columns="id BIGINT, v MAP<STRING, INT>",
    ),
    "values that are refused one by one": Growing(
        _keyed(lambda key: f'"v":{_ODD[key % 3]}'), columns="id BIGINT, v INT"
    ),
    "kinds that take turns": Growing(_keyed(lambda key: f'"v":{_KINDS[key % 4]}')),
    "texts that are not time": Growing(
        _keyed(lambda key: f'"v":"2024-{key}"'), columns="id BIGINT, v TIMESTAMP(6)"
    ),
}  # fmt: skip

_HEAD = '{"op":"c","before":null,"after":'
ENVELOPES = {
    "canal-json": (
        '{"data":[%s],"type":"INSERT","database":"d","table":"t","pkNames":["id"],"ts":1,"es":1,'
        '"isDdl":false,"old":null}'
    ),
    "maxwell-json": '{"database":"d","table":"t","type":"insert","ts":1,"data":%s}',
    "ogg-json": (
        '{"table":"d.t","op_type":"I","op_ts":"2020-01-01 00:00:00.000000","pos":"1","after":%s}'
    ),
    "aws-dms-json": (
        '{"data":%s,"metadata":{"record-type":"data","operation":"insert","schema-name":"d",'
        '"table-name":"t"}}'
    ),
    "json": "%s",
}
"""Other formats: a message of an insert, around its row."""
ROWS = tuple(kind for kind, growing in GROWING.items() if growing.values(1)[0].startswith(_HEAD))
"""The kinds whose rows any format may have; the others are about Debezium's own envelope."""


def in_envelopes(values: list[str], format_name: str) -> list[str]:
    """Return the rows of growing messages, in the messages of another format."""
    envelope = ENVELOPES[format_name]
    return [envelope.replace("%s", value.removeprefix(_HEAD)[:-1]) for value in values]
