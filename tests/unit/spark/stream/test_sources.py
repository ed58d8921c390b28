"""The sources give Spark their offsets, and read lines of files, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import SourceError, UsageError
from stream_app.spark.stream.json_lines_source import JsonLinesSource, parse_batches
from stream_app.spark.stream.kafka_source import KafkaSource

OK = b'{"topic":"t","partition":0,"offset":5,"key":null,"value":"v"}'


def test_defaults_of_the_kafka_source() -> None:
    options = KafkaSource(bootstrap_servers="h:1", topics=("a", "b")).options(core_count=6)
    assert options["subscribe"] == "a,b"
    assert options["minPartitions"] == "6"
    assert options["startingOffsets"] == "earliest"
    assert options["failOnDataLoss"] == "true"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.fetch.max.wait.ms"] == "10"
    assert options["kafka.max.poll.records"] == "50000"
    assert not {"subscribePattern", "maxOffsetsPerTrigger"} & options.keys()


def test_the_users_options_win() -> None:
    source = KafkaSource(
        bootstrap_servers="h:1",
        topic_pattern="a.*",
        starting_offsets='{"a":{"0":3}}',
        max_offsets_per_trigger=7,
        min_partitions=2,
        fails_on_loss=False,
        kafka_options={"isolation.level": "read_uncommitted", "security.protocol": "SSL"},
    )
    options = source.options(core_count=6)
    assert options["kafka.isolation.level"] == "read_uncommitted"
    assert options["kafka.security.protocol"] == "SSL"
    assert options["subscribePattern"] == "^(?:a.*)$"
    assert options["startingOffsets"] == '{"a":{"0":3}}'
    assert options["maxOffsetsPerTrigger"] == "7"
    assert options["minPartitions"] == "2"
    assert options["failOnDataLoss"] == "false"
    assert "subscribe" not in options


def parsed_lines(*lines: bytes) -> list[dict[str, Any]]:
    files = ["file:///folder/a%20b.jsonl"] * len(lines)
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()), files], ["line", "file"])
    return [row for part in parse_batches([batch]) for row in part.to_pylist()]


def test_lines_become_messages() -> None:
    line = (
        b'{"headers":{"x":[1]},"value":"{\\"a\\":1.10} \\u00e9","key":"k",'
        b'"offset":9007199254740993,"partition":2,"topic":"t","timestamp":1700000000123}'
    )
    message = {
        "topic": "t",
        "partition": 2,
        "offset": 9007199254740993,
        "timestamp": 1700000000123,
        "key": b"k",
        "value": '{"a":1.10} é'.encode(),
    }
    least = {"topic": "t", "partition": 0, "offset": 5, "timestamp": None, "key": None}
    assert parsed_lines(line, b"", b"  ", OK + b"\r", b" " + OK) == [
        message,
        {**least, "value": b"v"},
        {**least, "value": b"v"},
    ]
    assert parsed_lines(b"", b"\r") == []
    assert parsed_lines() == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"topic":"t","partition":0,"offs', "not JSON"),
        (b"\xff", "not JSON"),
        (OK.replace(b'"v"', b'"\xff"'), "not JSON"),
        (OK + OK, "not JSON"),
        (b"null", "lacks a field"),
        (b"[1]", "lacks a field"),
        (b"{}", "lacks a field"),
        (OK.replace(b'"topic"', b'"topik"'), "lacks a field"),
        (OK.replace(b'"t"', b"null"), "lacks a field"),
        (OK.replace(b"5", b"null"), "lacks a field"),
        (OK.replace(b"5", b'"5"'), "wrong type"),
        (OK.replace(b"5", b"5.5"), "wrong type"),
        (OK.replace(b":0", b":4294967296"), "wrong type"),
        (OK.replace(b'"v"', b'{"op":"c"}'), "wrong type"),
        (OK.replace(b'"key":null', b'"key":7'), "wrong type"),
    ],
)
def test_a_line_that_is_not_a_message_is_an_error_that_shows_it(line: bytes, problem: str) -> None:
    with pytest.raises(SourceError) as caught:
        parsed_lines(OK, line, OK)
    assert problem in caught.value.problem
    assert line[:20].decode(errors="replace") in caught.value.problem
    assert caught.value.where == "/folder/a b.jsonl"
    assert '"topic": text' in caught.value.fix


@pytest.mark.variant
def test_the_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        JsonLinesSource(path=str(tmp_path / "none")).read_stream(None)  # type: ignore[arg-type]
