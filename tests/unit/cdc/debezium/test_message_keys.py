"""The names of the columns are found in Kafka keys of any form."""

from __future__ import annotations

import json
import pickle
import sys
from types import FrameType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.cdc.debezium.message_keys import MessageKeys

SCHEMA = '{"type":"struct","fields":[{"type":"int64","field":"id"}],"name":"t.Key"}'


def names_of(*keys: str | bytes | None, reader: MessageKeys | None = None) -> list[set[str] | None]:
    raw = [key.encode() if isinstance(key, str) else key for key in keys]
    codes, fields = (reader or MessageKeys()).fields_of(pa.array(raw, pa.binary()))
    return [None if (names := fields[code]) is None else set(names) for code in codes]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        pytest.param(None, set(), id="none"),
        pytest.param('{"id":1}', {"id"}, id="plain"),
        pytest.param('{ "id" : 1,\n"dt": null }', {"id", "dt"}, id="blanks"),
        pytest.param('{"id":{"scale":0,"value":"AQ=="}}', {"id"}, id="number-without-scale"),
        pytest.param('{"a":"\\",\\"id\\":\\""}', {"a"}, id="a-text-that-looks-like-a-name"),
        pytest.param('{"id\\"x":1}', {'id"x'}, id="quote-in-a-name"),
        pytest.param('{"größe":1}', {"größe"}, id="letters-of-two-bytes"),
        pytest.param('{"a":{"id":1}}', {"a"}, id="inner-name"),
        pytest.param('{"schema":' + SCHEMA + ',"payload":{"id":5}}', {"id"}, id="envelope"),
        pytest.param('{"payload": {"id":5}, "schema":' + SCHEMA + "}", {"id"}, id="turned-around"),
        pytest.param('{"schema":null,"payload":null}', set(), id="envelope-of-nothing"),
        pytest.param('{"schema":{"type":"int64"},"payload":5}', None, id="envelope-of-a-number"),
        pytest.param("5", None, id="number"),
        pytest.param("", None, id="empty"),
        pytest.param("Struct{id=1}", None, id="text-of-a-struct"),
        pytest.param(b"\x00\x00\x00\x00\x01\x02", None, id="avro"),
        pytest.param('{"id":1', None, id="cut-off"),
        pytest.param('{"id":Infinity}', None, id="bare-constant"),
        pytest.param('{"id":"\\ud800"}', None, id="half-a-character"),
        pytest.param('{"id":"\\ud83d\\ude00"}', {"id"}, id="a-character-of-two-halves"),
        pytest.param('{"id":"\\x"}', None, id="an-escape-that-is-none"),
        pytest.param(b'{"id":"\xff"}', None, id="no-utf-8"),
        pytest.param('{"id":1e400}', {"id"}, id="a-number-beyond-doubles"),
        pytest.param('{"id":01}', None, id="a-number-that-is-none"),
        pytest.param('{"id":{"scale":0 "value":1}}', None, id="an-object-that-is-none"),
        pytest.param("{" * 100_000, None, id="nested"),
        pytest.param("[1]", None, id="list"),
    ],
)
def test_names_of_a_key(key: str | bytes | None, names: set[str] | None) -> None:
    assert names_of(key) == [names]
    # Beside others of other shapes, and twice, so that the second meets what the first has taught.
    reader = MessageKeys()
    assert names_of('{"id":7}', key, '{"x":1,"y":2}', key, reader=reader)[1::2] == [names, names]
    assert names_of(key, key, reader=pickle.loads(pickle.dumps(reader))) == [names, names]


VALUES = st.one_of(
    st.integers(), st.text(max_size=5), st.booleans(), st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dictionaries(st.sampled_from(["scale", "value", "id"]), st.text(max_size=3), max_size=2),
)  # fmt: skip
KEYS = st.one_of(
    st.dictionaries(st.sampled_from(["id", "dt", 'a"b', "\\", "schema"]), VALUES, max_size=3),
    VALUES,
)


@pytest.mark.slow
@given(st.lists(KEYS, max_size=12), st.booleans())
def test_names_are_those_that_a_parser_finds(keys: list[object], is_enveloped: bool) -> None:
    raw = [
        json.dumps({"schema": {"id": 1}, "payload": key} if is_enveloped else key) for key in keys
    ]
    want = [
        set(key) if isinstance(key, dict) else set() if key is None and is_enveloped else None
        for key in keys
    ]
    assert names_of(*raw) == want


def test_many_shapes_are_read_in_linear_time() -> None:
    keys = [json.dumps({f"k{number}": 1}) for number in range(5000)]
    reader = MessageKeys()
    assert names_of(*keys, reader=reader) == [{f"k{number}"} for number in range(5000)]
    assert len(reader._shapes) <= 32


@pytest.mark.parametrize("form", ['{"id":[%d]}', '{"id":{"a":{"b":%d}}}', '{"id":%d,"id":0}'])
def test_a_key_that_its_own_shape_does_not_fit_is_read_in_linear_time(form: str) -> None:
    keys, comparisons = [form % number for number in range(500)], 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal comparisons
        comparisons += event == "call" and frame.f_code.co_name == "fits"

    sys.setprofile(count)
    try:
        assert names_of(*keys) == [{"id"}] * len(keys)
    finally:
        sys.setprofile(None)
    assert comparisons <= 32


def test_a_name_too_long_for_an_expression_harms_no_other_key() -> None:
    reader, long = MessageKeys(), "x" * 1_000_000
    keys = ['{"id":1}', f'{{"{long}":1}}', '{"id":2}', '{"dt":1}']
    assert names_of(*keys, reader=reader) == [{"id"}, {long}, {"id"}, {"dt"}]
    assert names_of('{"a":1}', '{"a":2}', reader=reader) == [{"a"}, {"a"}]


def test_keys_of_many_fields_are_read_alone() -> None:
    many = [json.dumps({f"c{index}": None for index in range(1_000)})] * 3
    assert names_of(*many, '{"id":1}') == [{f"c{index}" for index in range(1_000)}] * 3 + [{"id"}]
