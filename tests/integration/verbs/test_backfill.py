"""`backfill` brings a table to the state of its topic, which it reads from a real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.clock import SystemClock
from stream_app.errors import OPERATOR_NEEDED
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.overwrite.postponed_move import move_postponed
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.damaged_table import Damage
from tests.support.tables.small_table import CompactHere, SmallTable, small_table
from tests.support.verbs.checked_topic import a_conf, a_table, message, read_up_to

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.usefixtures("unsynced")]
END = 7
DAY_MS = 86_400_000


@pytest.fixture
def topic(kafka_broker: EmbeddedBroker) -> str:
    """Changes of keys 0 to 3, of which the last is behind what the table's job has read."""
    name = new_topic(kafka_broker)
    first = [message("c", k, "old") for k in range(4)]
    later = [message("u", 1, "new"), message("d", 2, "old"), message("u", 3, "new")]
    produce(kafka_broker, name, [*first, *later, message("c", 9, "unread")])
    return name


def backfill(table: SmallTable, *words: str) -> int:
    return main(["backfill", table.path, *words])


def keep_aside(folder: Path, topic: str, records: Mapping[int, tuple[bytes, bytes]]) -> None:
    """Records of a quarantine, by offset."""
    folder.mkdir()
    lines = [
        {"topic": topic, "partition": 0, "offset": offset, "timestamp": 0, "reason": "is bad",
         "key": key.decode(), "value": value.decode()}
        for offset, (key, value) in records.items()
    ]  # fmt: skip
    (folder / "epoch-0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def latest_id(table: SmallTable) -> int:
    """The number of the latest snapshot."""
    latest_id = table.table.snapshots.latest_id()
    assert latest_id is not None
    return latest_id


def rows_of(java: PaimonJava, table: SmallTable) -> dict[int, str]:
    return {row["k"]: row["v"] for row in java.read(Path(table.path))}


def a_wrong_table(folder: Path, topic: str, **options: Any) -> SmallTable:
    """Key 0 is missing, 1 has an old value, 2 should be deleted, and 7 is of no message."""
    rows = {1: "old", 2: "old", 3: "new", 7: "foreign"}
    return a_table(folder, topic, {"0": END}, rows, **options)


def test_a_backfill_writes_the_differences_from_the_topic_once(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    topic: str,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = a_wrong_table(tmp_path, topic, changelog_producer="input")
    source = f"{kafka_broker.bootstrap}/{topic}"
    before = latest_id(table)
    assert backfill(table, "--from-topic", source, "--dry-run") == 0
    summary = "1 row added, 1 changed, 2 deleted"
    assert capsys.readouterr().out.splitlines() == [
        "read 7 changes", f"would write: {summary}", "dry run: nothing was changed",
    ]  # fmt: skip
    assert latest_id(table) == before
    conf = a_conf(tmp_path, kafka_broker, topic)
    keep_aside(tmp_path / "quarantine", topic, {5: message("d", 2, "old"), 8: (b"x", b"y")})
    assert main(["backfill", "t", "--conf", str(conf)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "1 quarantined record among them; once this is written, they no longer wait",
        f"wrote in snapshot {before + 1}: {summary}",
    ]
    assert main(["quarantine", "list", "--conf", str(conf), "--format", "jsonl"]) == 0
    assert [json.loads(line)["offsets"] for line in capsys.readouterr().out.splitlines()] == [
        "8..8"
    ]
    assert rows_of(paimon_java, table) == {0: "old", 1: "new", 3: "new"}
    plans = paimon_java.changelog(Path(table.path), from_snapshot=before + 1)
    assert sorted(
        (row["k"], kind, row["v"]) for plan in plans for kind, row in plan.changes
    ) == [
        (0, "+I", "old"), (1, "+U", "new"), (1, "-U", "old"), (2, "-D", "old"),
        (7, "-D", "foreign"),
    ]  # fmt: skip
    assert main(["check", table.path, "--source-kafka", source]) == 0
    capsys.readouterr()
    assert backfill(table, "--from-topic", source) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to do"
    assert latest_id(table) == before + 1


@pytest.mark.parametrize("moves", [True, False], ids=["with buckets", "all waiting"])
def test_rows_that_wait_for_a_bucket_are_compared_and_written(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    topic: str,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
    moves: bool,
) -> None:
    """Some rows of the topic have a bucket, and some have changes that wait behind them."""
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), bucket=-2, changelog_producer="input"
    )
    table.commit(*(("+I", {"k": k, "v": "old"}) for k in (1, 2, 3, 5)))
    if moves:
        assert move_postponed(table.table) is not None
    table.commit(("+U", {"k": 3, "v": "new"}), ("-D", {"k": 5, "v": "old"}))
    table.commit(("+I", {"k": 7, "v": "foreign"}))
    read_up_to(table, topic, {"0": END})
    source = f"{kafka_broker.bootstrap}/{topic}"
    assert main(["check", table.path, "--source-kafka", source]) != 0
    differing = r"(\d+) rows of the source are not .* (\d+) have other values there, and (\d+) of"
    counts = re.findall(differing, capsys.readouterr().out)
    assert [sum(map(int, column)) for column in zip(*counts, strict=True)] == [1, 1, 2]
    assert backfill(table, "--from-topic", source) == 0
    assert "1 row added, 1 changed, 2 deleted" in capsys.readouterr().out
    assert main(["check", table.path, "--source-kafka", source]) == 0
    assert backfill(table, "--from-topic", source) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert move_postponed(table.table) is not None
    assert rows_of(paimon_java, table) == {0: "old", 1: "new", 3: "new"}


@pytest.mark.parametrize("keys", ["id", "id,p"])
def test_a_table_whose_rows_move_between_partitions(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    keys: str,
) -> None:
    """0 is missing, 1 in another partition, 2 not deleted, 3 has another value, 7 is foreign.

    Then another writer puts 1 and 3 into further partitions beside their rows.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # for the index of keys

    def image(op: str, key: int, p: str, v: int) -> tuple[bytes, bytes]:
        row = {"id": key, "p": p, "v": v}
        sides = {"before": {"id": key}, "after": None} if op == "d" else {"after": row}
        return json.dumps({"id": key}).encode(), json.dumps({"op": op, **sides}).encode()

    topic = new_topic(kafka_broker)
    messages = [image("c", key, "a", 0) for key in range(5)]
    messages += [image("u", 1, "b", 1), image("d", 2, "", 0), image("u", 3, "a", 5)]
    produce(kafka_broker, topic, messages)
    kind = {"bucket": "-1"} if keys == "id" else {"bucket": "1", "partition_lookup": "true"}
    table = cross_partition_table(
        tmp_path / "db.db" / "t", changelog_producer="input", keys=keys, **kind
    )
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": 0}) for key in (1, 2, 3, 4)))
    job.write(("+I", {"id": 7, "p": "b", "v": 0}))
    Damage(table).snapshot(properties={SOURCE_END_PROPERTY: json.dumps({topic: {"0": 8}})})
    source = f"{kafka_broker.bootstrap}/{topic}"
    assert main(["check", table.location, "--source-kafka", source]) == 1
    shown = capsys.readouterr().out
    counts = re.findall(r"(\d+) rows of the source .* (\d+) have .* (\d+) of the table", shown)
    assert [sum(map(int, column)) for column in zip(*counts, strict=True)] == [1, 2, 2], shown
    before = table.snapshots.latest_id()
    assert before is not None
    assert main(["backfill", table.location, "--from-topic", source]) == 0
    assert "1 row added, 2 changed, 2 deleted" in capsys.readouterr().out
    rows = sorted((row["id"], row["p"], row["v"]) for row in paimon_java.read(table.location))
    assert rows == [(0, "a", 0), (1, "b", 1), (3, "a", 5), (4, "a", 0)]
    plans = paimon_java.changelog(Path(table.location), from_snapshot=before + 1)
    changes = [(row["id"], kind, row["p"]) for plan in plans for kind, row in plan.changes]
    assert sorted(changes) == [
        (0, "+I", "a"), (1, "+U", "b"), (1, "-U", "a"), (2, "-D", "a"), (3, "+U", "a"),
        (3, "-U", "a"), (7, "-D", "b"),
    ]  # fmt: skip
    assert main(["check", table.location, "--source-kafka", source]) == 0
    job.commit = StreamTableCommit(table, "other", CompactHere(table))
    job.write_into(0, ("+I", {"id": 1, "p": "a", "v": 8}), ("+I", {"id": 3, "p": "c", "v": 9}))
    assert main(["check", table.location]) == 1
    assert "2 keys have rows in several places" in capsys.readouterr().out
    assert main(["backfill", table.location, "--from-topic", source]) == 0
    assert "2 rows added, 0 changed, 4 deleted" in capsys.readouterr().out
    java_rows = sorted((row["id"], row["p"], row["v"]) for row in paimon_java.read(table.location))
    assert java_rows == rows
    assert main(["check", table.location, "--source-kafka", source]) == 0


def test_from_a_time_only_keys_of_the_topic_are_compared(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(kafka_broker)
    now = SystemClock().now_ms()
    early = [message("c", 0, "old"), message("c", 4, "old")]
    produce(kafka_broker, topic, early, timestamp_ms=now - 2 * DAY_MS)
    changes = [message("u", 1, "new"), message("d", 2, "old"), message("d", 5, "gone before")]
    produce(kafka_broker, topic, changes, timestamp_ms=now)
    table = a_table(
        tmp_path, topic, {"0": 5}, {0: "other", 1: "old", 2: "old", 7: "foreign"},
        changelog_producer="input",
    )  # fmt: skip
    source = f"{kafka_broker.bootstrap}/{topic}"
    yesterday = str(now - DAY_MS)
    assert backfill(table, "--from-topic", source, "--from", yesterday) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["read 3 changes", "keys without a message were left unchanged"]
    assert lines[2].endswith("0 rows added, 1 changed, 1 deleted")
    assert rows_of(paimon_java, table) == {0: "other", 1: "new", 7: "foreign"}
    assert backfill(table, "--from-topic", source, "--from", yesterday) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to do"


def test_backfill_refuses_an_uncertain_topic(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker)
    produce(kafka_broker, topic, [message("c", 0, "old"), (b"k", b"no json")])
    source = f"{kafka_broker.bootstrap}/{topic}"
    table = a_table(tmp_path, topic, {"0": 2}, {0: "other"})
    before = latest_id(table)
    assert backfill(table, "--from-topic", source) == OPERATOR_NEEDED
    assert "1 records cannot be decoded" in capsys.readouterr().err
    ahead = a_table(tmp_path / "ahead", topic, {"0": 9}, {0: "other"})
    assert backfill(ahead, "--from-topic", source) != 0
    assert "recreated" in capsys.readouterr().err
    by_column = a_table(tmp_path / "by", topic, {"0": 1}, {0: "other"}, sequence__field="v")
    assert backfill(by_column, "--from-topic", source) != 0
    assert "sequence.field" in capsys.readouterr().err
    assert latest_id(table) == before
