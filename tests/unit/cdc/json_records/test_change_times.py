"""The decoders read the time of a change from each tool, and which before-images are complete."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from stream_app.message_format_registry import FORMATS, make_source_extractor
from tests.support.messages.debezium_messages import captured_messages, messages


def times(name: str, batch: pa.RecordBatch) -> list[int | None]:
    read = make_source_extractor(name, {}).find_change_times
    assert read is not None
    times: list[int | None] = read(batch).cast(pa.int64()).to_pylist()
    return times


def millis(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def documents(batch: pa.RecordBatch) -> list[Any]:
    return [json.loads(value or b"{}") for value in batch["value"].to_pylist()]


def test_maxwell_gives_seconds() -> None:
    batch = captured_messages("maxwell", "maxwell")
    assert times("maxwell-json", batch) == [document["ts"] * 1000 for document in documents(batch)]


def test_canal_gives_the_time_of_the_database_and_not_its_own() -> None:
    batch = captured_messages("canal", "shop")
    expected = [document.get("es") for document in documents(batch)]
    assert times("canal-json", batch) == expected
    assert 1709251200000 in expected


def test_goldengate_gives_the_time_in_the_trail() -> None:
    batch = captured_messages("ogg", "SHOP.CUSTOMERS")
    assert times("ogg-json", batch)[0] == millis("2024-02-29 23:59:12.123")


def test_dms_gives_the_time_of_the_commit_or_else_of_the_message() -> None:
    def metadata(**fields: Any) -> str:
        return json.dumps(
            {"metadata": {name.replace("_", "-"): field for name, field in fields.items()}}
        )

    batch = messages(
        metadata(timestamp="2024-10-27T12:39:03.210671Z"),
        metadata(timestamp="2024-10-27T12:39:03Z", commit_timestamp="2024-10-27T12:39:02.5Z"),
    )
    assert times("aws-dms-json", batch) == [
        millis("2024-10-27 12:39:03.210"),
        millis("2024-10-27 12:39:02.500"),
    ]


@pytest.mark.parametrize(
    "text", ["x", "", "2024-13-01 00:00:00", "2024-10-27 12:39", "2024-10-27 12:39:03 +02:00"]
)
def test_a_text_that_is_not_a_time_gives_none_and_harms_no_other(text: str) -> None:
    good = '{"op_ts":"1969-12-31 23:59:59.9"}'
    batch = messages(good, json.dumps({"op_ts": text}), None, "no json", '{"op_ts":5}', "{}", good)
    assert times("ogg-json", batch) == [-100, None, None, None, None, None, -100]


def test_an_envelope_with_blanks_gives_its_time() -> None:
    """Other writers than the converter put blanks between the fields, or turn the two around."""
    change = {"before": None, "after": {"id": 1}, "source": {"ts_ms": 7}, "op": "c"}
    flat = {"id": 1, "__source_ts_ms": 8}
    batch = messages(
        json.dumps({"schema": {"type": "struct"}, "payload": change}),
        json.dumps({"payload": flat, "schema": None}, indent=1),
        json.dumps({"schema": {}, "payload": change}, separators=(",", ":")),
        json.dumps({"schema": {}, "payload": None}),
        json.dumps({"schema": {}, "payload": change, "id": 1}),
        json.dumps(flat | {"schema": 1, "payload": "x"}),
        '{"schema": 1, "payload": ',
        None,
        json.dumps(change),
    )
    assert times("debezium-json", batch) == [7, 8, 7, None, None, 8, None, None, 7]


def test_plain_rows_give_no_time() -> None:
    assert make_source_extractor("json", {}).find_change_times is None
    assert not FORMATS["json"].has_times


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("maxwell-json", {}, True),
        ("canal-json", {}, False),
        ("canal-json", {"missing-columns": "stop"}, True),
        ("ogg-json", {"missing-columns": "stop"}, False),
        ("aws-dms-json", {}, False),
        ("debezium-avro", {"replica-identity": "full"}, True),
    ],
)
def test_each_tools_options_decide_whether_before_images_are_whole(
    name: str, options: dict[str, str], expected: bool
) -> None:
    assert FORMATS[name].has_whole_before(options) is expected
