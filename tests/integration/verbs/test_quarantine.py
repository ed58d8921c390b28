"""The verb `quarantine` lists, replays and drops the records that a real job has quarantined."""

from __future__ import annotations

import json

import pytest

from stream_app.app.cli.main import main
from tests.support.jobs.job_harness import JobHarness, Message, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def flattened_message(key: int, v: str) -> Message:
    """A row with a column that the table does not have."""
    value = {"before": None, "after": {"id": key, "v": v, "phone": 1}, "op": "c"}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["quarantine", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_records_are_replayed_once_and_never_over_a_newer_change(
    harness: JobHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = harness.topic(
        [
            flattened_message(1, "old"),
            flattened_message(2, "two"),
            change(1, "new"),
            flattened_message(3, "gone"),
            change(3, None, before="gone"),
            (b"k", b"no json"),
            change(4, "four"),
        ]
    )
    strict = {"debezium.unknown-columns": "quarantine"}
    folder = str(harness.folder / "quarantine")
    harness.configure(topic, source=strict, stream={"quarantine": folder})
    harness.run()
    assert harness.rows() == {1: "new", 4: "four"}

    conf = ["--conf", str(harness.conf)]
    listed_records = [json.loads(line) for line in run(capsys, "list", *conf, "--format", "jsonl")]
    assert [(line["reason"], line["records"], line["offsets"]) for line in listed_records] == [
        ("not-json", 1, "5..5"),
        ("unknown-column", 3, "0..3"),
    ]
    (shown,) = run(capsys, "show", folder, "--offset", "5", "--format", "jsonl")
    assert json.loads(shown)["value"] == "no json"
    # By the configuration of that time they are as bad as they were.
    output = run(capsys, "replay", *conf, "--reason", "unknown-column")
    assert [line.split(":")[0] for line in output] == [*["still bad"] * 3, "nothing to do"]

    harness.configure(topic, stream={"quarantine": folder})
    output = run(capsys, "replay", *conf, "--all")
    assert output[-1] == "replayed 1 record: 1 changes in snapshot 2"
    assert output[-2].startswith(
        "2 records: a newer change of their row is in the table; the first"
    )
    assert harness.rows() == {1: "new", 2: "two", 4: "four"}
    assert ("+I", 2, "two") in harness.changes()

    assert run(capsys, "replay", *conf, "--all")[-1] == "nothing to do"
    assert harness.snapshots() == ["APPEND 0", "APPEND 0"]
    assert run(capsys, "drop", *conf, "--all")[-1] == "dropped 1 record"
    assert run(capsys, "list", *conf) == [f"no record waits in {folder}"]

    # The job continues behind it.
    harness.send(topic, [change(2, "second")])
    harness.run()
    assert harness.rows() == {1: "new", 2: "second", 4: "four"}
