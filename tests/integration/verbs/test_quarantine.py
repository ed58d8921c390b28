"""The verb `quarantine` lists, replays and drops the records that a real job has quarantined."""

from __future__ import annotations

import json

import pytest

from stream_app.app.cli.main import main
from tests.support.jobs.job_bench import JobBench, Message, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def flattened(key: int, v: str) -> Message:
    """A row with a column that the table does not have."""
    value = {"before": None, "after": {"id": key, "v": v, "phone": 1}, "op": "c"}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert main(["quarantine", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_records_are_replayed_once_and_never_over_a_newer_change(
    bench: JobBench, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = bench.topic(
        [
            flattened(1, "old"),
            flattened(2, "two"),
            change(1, "new"),
            flattened(3, "gone"),
            change(3, None, before="gone"),
            (b"k", b"no json"),
            change(4, "four"),
        ]
    )
    strict = {"debezium.unknown-columns": "quarantine"}
    folder = str(bench.folder / "quarantine")
    bench.configure(topic, source=strict, stream={"quarantine": folder})
    bench.run()
    assert bench.rows() == {1: "new", 4: "four"}

    conf = ["--conf", str(bench.conf)]
    listed = [json.loads(line) for line in run(capsys, "list", *conf, "--format", "jsonl")]
    assert [(line["reason"], line["records"], line["offsets"]) for line in listed] == [
        ("not-json", 1, "5..5"),
        ("unknown-column", 3, "0..3"),
    ]
    (shown,) = run(capsys, "show", folder, "--offset", "5", "--format", "jsonl")
    assert json.loads(shown)["value"] == "no json"
    # By the configuration of that time they are as bad as they were.
    printed = run(capsys, "replay", *conf, "--reason", "unknown-column")
    assert [line.split(":")[0] for line in printed] == [*["still bad"] * 3, "nothing to do"]

    bench.configure(topic, stream={"quarantine": folder})
    printed = run(capsys, "replay", *conf, "--all")
    assert printed[-1] == "replayed 1 record: 1 changes in snapshot 2"
    assert printed[-2].startswith(
        "2 records: a newer change of their row is in the table; the first"
    )
    assert bench.rows() == {1: "new", 2: "two", 4: "four"}
    assert ("+I", 2, "two") in bench.changes()

    assert run(capsys, "replay", *conf, "--all")[-1] == "nothing to do"
    assert bench.snapshots() == ["APPEND 0", "APPEND 0"]
    assert run(capsys, "drop", *conf, "--all")[-1] == "dropped 1 record"
    assert run(capsys, "list", *conf) == [f"no record waits in {folder}"]

    # The job continues behind it.
    bench.send(topic, [change(2, "second")])
    bench.run()
    assert bench.rows() == {1: "new", 2: "second", 4: "four"}
