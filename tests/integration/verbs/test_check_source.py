"""`check` compares a table with its topic, which it reads from a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from stream_app.app.cli.main import main
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.table.file_store_table import FileStoreTable
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.tables.small_table import small_table
from tests.support.verbs.checked_topic import a_table, message, read_up_to

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("unsynced")]


def check(table: FileStoreTable, source: str, capsys: pytest.CaptureFixture[str]) -> Any:
    code = main(["check", table.location, "--source-kafka", source, "--format", "jsonl"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, [(line["kind"], line["what"]) for line in lines]


def test_rows_are_those_of_the_topic_up_to_the_tables_offsets(
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
    code, findings = check(a_table(tmp_path / "wrong", topic, ends, wrong).table, source, capsys)
    assert code == 1
    assert {kind for kind, _ in findings} == {"source"}
    text = " ".join(text for _, text in findings)
    numbers = [[int(word) for word in text.split() if word.isdigit()][:3] for _, text in findings]
    missing_wrong_unexpected = [sum(counts) for counts in zip(*numbers, strict=True)]
    assert missing_wrong_unexpected == [1, 1, 1], text


def test_a_topic_that_the_table_is_not_written_from_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path, "orders", {"0": 1}, {1: "x"})
    assert main(["check", table.path, "--source-kafka", "localhost:1/other"]) == 2
    assert "no snapshot records how far a job has read other" in capsys.readouterr().err
    assert main(["check", table.path, "--source-kafka", "other"]) == 2


def create_message(key: int, **image: Any) -> tuple[bytes, bytes]:
    value = json.dumps({"op": "c", "before": None, "after": {"k": key, **image}})
    return json.dumps({"k": key}).encode(), value.encode()


def test_check_reports_rows_that_it_cannot_compare(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker)
    messages = [
        create_message(1, v="a"),
        create_message(2, v="a", phone=1),
        create_message(3),
        create_message(4, v="a", phone=2),
    ]
    produce(kafka_broker, topic, [*messages, (b"k", b"no json"), (b"k", b"[]")])
    source, rows = f"{kafka_broker.bootstrap}/{topic}", {1: "a", 2: "a", 3: None, 4: "a"}
    table = a_table(tmp_path / "sound", topic, {"0": 6}, rows).table
    where = f"topic {topic}, partition 0, offset"
    assert check(table, source, capsys) == (
        3,
        [
            (
                "not-compared",
                "bad records of the source, which were not compared: 2 (2 not-json); "
                f"the first is {where} 4: is not JSON: Expecting value at character 0",
            ),
            (
                "not-compared",
                "column 'phone' of the source is not in the table, so it was not compared; such "
                f"records: 2, the first is {where} 1",
            ),
            (
                "not-compared",
                "column 'v' of the table is missing in messages, so it was compared with null; "
                f"such records: 1, the first is {where} 2",
            ),
        ],
    )
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 4})
    admin.close()
    code, findings = check(table, source, capsys)
    finding = next(text for kind, text in findings if kind == "not-compared")
    assert code == 1
    assert finding.startswith(f"the first 4 offsets of {topic}/0 are gone and were not compared")


def test_rows_that_share_a_key_of_the_source(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such rows appear when the table's key has more columns than the source's."""
    topic = new_topic(kafka_broker)
    images = [(1, "mon"), (2, "mon"), (1, "tue"), (3, "tue"), (1, "wed")]
    produce(kafka_broker, topic, [create_message(k, v=v) for k, v in images])
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("v", "k"), ("v",))
    table.commit(*(("+I", {"k": k, "v": v}) for k, v in images))
    read_up_to(table, topic, {"0": 5})
    code, findings = check(table.table, f"{kafka_broker.bootstrap}/{topic}", capsys)
    complaint = "1 keys of the source (k) have several rows in the table, 2 too many, such as k = 1"
    assert (code, findings) == (1, [("source", complaint)])


def test_tables_of_which_not_all_can_be_compared(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker)
    produce(kafka_broker, topic, [create_message(1, v="a")])
    source, rows = f"{kafka_broker.bootstrap}/{topic}", {1: "a", 2: "b"}
    by_value = a_table(tmp_path / "seq", topic, {"0": 1}, rows, sequence__field="v").table
    code, [(kind, text)] = check(by_value, source, capsys)
    assert (code, kind) == (3, "not-compared")
    assert text.startswith("1 rows of the table are not in the source, and may or may not")
    append_table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING")
    append_table.commit(*(("+I", {"k": k, "v": v}) for k, v in rows.items()))
    code, [(kind, text)] = check(read_up_to(append_table, topic, {"0": 1}).table, source, capsys)
    assert (code, kind) == (3, "not-compared")
    assert text.startswith("2 records of the table were not compared with the source: rows of a")
