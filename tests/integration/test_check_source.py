"""A table against its topic, read anew from a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli import main
from stream_app.app.embedded_broker import EmbeddedBroker
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.table.file_store_table import FileStoreTable
from tests.support.damaged_table import Damage
from tests.support.kafka_broker import new_topic, produce
from tests.support.small_table import SmallTable, small_table

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("unsynced")]


def message(op: str, k: int, v: str) -> tuple[bytes, bytes]:
    image = {"k": k, "v": v}
    value = {
        "op": op,
        "before": image if op == "d" else None,
        "after": None if op == "d" else image,
    }
    return json.dumps({"k": k}).encode(), json.dumps(value).encode()


def a_table(folder: Path, topic: str, ends: dict[str, int], rows: dict[int, str]) -> SmallTable:
    table = small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), bucket=2)
    table.commit(*(("+I", {"k": k, "v": v}) for k, v in rows.items()))
    end = json.dumps({topic: ends})
    Damage(table.table).snapshot(properties={SOURCE_END_PROPERTY: end})
    return table


def check(table: FileStoreTable, source: str, capsys: pytest.CaptureFixture[str]) -> Any:
    code = main(["check", table.location, "--source-kafka", source, "--format", "jsonl"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, [(line["kind"], line["what"]) for line in lines]


def test_rows_are_what_the_topic_tells_up_to_where_the_table_is(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker, partitions=2)
    first = [message("c", k, "old") for k in range(20)] + [message("u", 3, "new")]
    produce(kafka_broker, topic, [*first, message("d", 4, "old")], partition=0)
    produce(kafka_broker, topic, [message("c", 99, "x"), message("c", 98, "later")], partition=1)
    right = {k: "old" for k in range(20)} | {3: "new", 99: "x"}
    del right[4]
    source, ends = f"{kafka_broker.bootstrap}/{topic}", {"0": 22, "1": 1}
    sound = a_table(tmp_path / "sound", topic, ends, right)
    assert check(sound.table, source, capsys) == (0, [])
    wrong = {k: v for k, v in right.items() if k != 5} | {6: "wrong", 4: "old"}
    code, found = check(a_table(tmp_path / "wrong", topic, ends, wrong).table, source, capsys)
    assert code == 1
    assert {kind for kind, _ in found} == {"source"}
    text = " ".join(what for _, what in found)
    numbers = [[int(word) for word in what.split() if word.isdigit()][:3] for _, what in found]
    missing, wrong, unexpected = map(sum, zip(*numbers, strict=True))
    assert (missing, wrong, unexpected) == (1, 1, 1), text


def test_a_topic_that_the_table_is_not_written_from_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path, "orders", {"0": 1}, {1: "x"})
    assert main(["check", table.path, "--source-kafka", "localhost:1/other"]) == 2
    assert "no snapshot tells how far a job has read other" in capsys.readouterr().err
    assert main(["check", table.path, "--source-kafka", "other"]) == 2
