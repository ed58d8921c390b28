"""Keys of plain text become JSON objects of one field."""

from __future__ import annotations

import json

import pyarrow as pa

from stream_app.cdc.wire.text_keys import text_objects


def test_each_text_is_valid_json_and_stays_what_it_is() -> None:
    texts = [*map(chr, range(0x80)), "ü", 'a"b\\n', "".join(map(chr, range(0x20)))]
    keys = pa.array([text.encode() for text in texts], pa.binary())
    objects = text_objects(keys, "k").to_pylist()
    assert [json.loads(value)["k"] for value in objects] == texts


def test_null_stays_null_and_bytes_that_are_no_text_are_left_to_the_parser() -> None:
    keys = pa.array([None, b"\xff\x01"], pa.binary())
    assert text_objects(keys, "k").to_pylist() == [None, b'{"k":"\xff\\u0001"}']
