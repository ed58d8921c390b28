"""`likely_format` recognizes the messages of the real tools by their fields."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.app.source.first_messages import format_notice
from stream_app.app.source.likely_format import likely_format
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.message_format_registry import FORMATS, make_source_extractor

CAPTURED = Path(__file__).parents[3] / "fixtures" / "cdc"


def values_of(file: str, topic: str = "") -> list[bytes]:
    records = map(json.loads, (CAPTURED / file).read_text(encoding="utf-8").splitlines())
    chosen = (record["value"] for record in records if record["topic"].startswith(topic))
    return [value.encode() for value in chosen if value is not None]


def batch_of(values: list[bytes]) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": 0, "offset": offset, "value": v}
        for offset, v in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


@pytest.mark.parametrize(
    ("file", "topic", "expected"),
    [
        *(
            (f"debezium_{name}.jsonl", "", "debezium-json")
            for name in ("pg_plain", "pg_schema", "pg_flat", "mariadb_plain", "pg_identity")
        ),
        ("maxwell.jsonl", "", "maxwell-json"),
        ("maxwell_full.jsonl", "", "maxwell-json"),
        ("canal.jsonl", "", "canal-json"),
        ("ogg.jsonl", "", "ogg-json"),
        *(("paimon_cdc_tests.jsonl", f"{name}.", f"{name}-json") for name in ("canal", "ogg")),
    ],
)
def test_captured_messages(file: str, topic: str, expected: str) -> None:
    values = values_of(file, topic)
    assert likely_format(values) == expected
    notice = format_notice("json", [batch_of(values)])
    assert notice is not None
    assert f'set source.format = "{expected}"' in notice.fix
    assert format_notice(expected, [batch_of(values)]) is None


MONGO = (
    b'{"before":null,"after":"{\\"_id\\": 1}","updateDescription":null,"op":"c",'
    b'"source":{"db":"shop","collection":"users"}}'
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\0\0\0\0\7abc", "debezium-avro"),
        (MONGO, "debezium-bson"),
        (b'{"id":1,"op":"c"}', None),
        (b'{"ts_ms":1}', None),
        (b"[1]", None),
        (b"no json", None),
        (b'{"schema":null,"payload":null}', None),
        (b'{"schema":null,"payload":{"op":"c","after":{}}}', "debezium-json"),
    ],
)
def test_one_message_shows_its_format(value: bytes, expected: str | None) -> None:
    assert likely_format([value]) == expected


def test_without_messages_and_with_a_few_that_look_so() -> None:
    assert likely_format([]) is None
    assert likely_format([b'{"id":1}'] * 9 + [b'{"op":"c","after":{}}']) is None


def test_numbers_of_a_registry_show_no_format_but_that_they_are_there() -> None:
    framed_batch = batch_of([b"\0\0\0\0\7abc"])
    assert format_notice("avro", [framed_batch]) is None
    assert format_notice("json", [framed_batch]) is not None


def test_flattened_documents_look_like_rows() -> None:
    assert format_notice("debezium-bson", [batch_of([b'{"_id":"1","__op":"c"}'])]) is None


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, declaration in FORMATS.items()
        if all(option.key != "schema.registry.url" for option in declaration.options)
    ],
)
@pytest.mark.parametrize("field", ["source", "op", "table", "metadata", "data", "__table"])
@pytest.mark.parametrize("value", ['"/"', "7", "true", "[]", "{}", "null", '{"table":{}}'])
def test_no_field_of_a_wrong_kind_ends_the_splitter(name: str, field: str, value: str) -> None:
    origins = make_source_extractor(name, {}).find_origins(
        batch_of([b'{"%b":%b}' % (field.encode(), value.encode())])
    )
    assert len(origins.codes) == 1
