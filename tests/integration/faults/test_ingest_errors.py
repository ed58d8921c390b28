"""Errors that stop the job say what is wrong, where, and how to fix it, without a trace.

`JobHarness.fails` checks that the output has no trace of Python or Java.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_app import open_table
from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import plan_orphans
from tests.support.brokers.kafka_broker import delete_topic, new_topic
from tests.support.files.small_disk import make_read_only, make_writable, small_disk
from tests.support.jobs.ingest_process import ROOT
from tests.support.jobs.job_harness import JobHarness, Message, change

__all__ = ["small_disk"]
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NO_JSON: Message = (b"k", b"no json")
TRUNCATE: Message = (None, json.dumps({"before": None, "after": None, "op": "t"}).encode())


def test_a_topic_that_is_missing_or_made_anew(
    harness: JobHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.configure("shop.no.such.topic")
    error = harness.fails()
    assert error.startswith("topic 'shop.no.such.topic' does not exist at 127.0.0.1:")
    assert "  where: source.topics\n  to fix: " in error

    topic = harness.topic([change(1, "a"), change(2, "b")])
    harness.configure(topic)
    harness.run()
    delete_topic(harness.broker, topic)
    new_topic(harness.broker, name=topic)
    harness.send(topic, [change(3, "c"), change(4, "d"), change(5, "e")])
    assert main(["doctor", "--conf", str(harness.conf)]) == 1
    printed_lines = capsys.readouterr().out.splitlines()
    [index] = [number for number, line in enumerate(printed_lines) if line.startswith("problem")]
    assert f"the topic {topic} was recreated since the job has begun" in printed_lines[index]
    error = harness.fails()
    assert printed_lines[index + 1].strip() in error, "the doctor and the job give one remedy"
    assert error.startswith(f"the topic {topic} was deleted and recreated since this checkpoint")
    assert f"  where: {harness.folder}/checkpoint\n  to fix: give the job a new checkpoint" in error
    assert harness.rows() == {1: "a", 2: "b"}


def test_an_unreachable_broker_is_reported_within_15_seconds(harness: JobHarness) -> None:
    harness.configure("t", source={"bootstrap-servers": "127.0.0.1:1"})
    result = harness.run(code=1)
    assert result.error.startswith(
        "no Kafka broker can be reached: 127.0.0.1:1: connection refused"
    )
    assert result.seconds < 15
    assert not (harness.folder / "checkpoint").exists()


def test_a_metrics_port_that_is_taken_is_reported_before_the_broker_is_asked(
    harness: JobHarness,
) -> None:
    harness.configure("t", source={"bootstrap-servers": "127.0.0.1:1"})
    with socket.socket() as taken_port:
        taken_port.bind(("0.0.0.0", 0))
        taken_port.listen()
        port = taken_port.getsockname()[1]
        error = harness.fails(f"stream.metrics-port={port}", code=2)
    assert error.startswith(f"the metrics port {port} cannot be opened: Address already in use")
    assert not (harness.folder / "checkpoint").exists()


@pytest.mark.parametrize("command", [["ingest"], ["ingest", "--print"]])
def test_a_wrong_configuration_shows_all_its_problems_before_spark_starts(
    tmp_path: Path, command: list[str]
) -> None:
    conf = tmp_path / "job.toml"
    conf.write_text(
        '[source]\nbootstrap-server = "x:1"\n[table]\ncolumns = "id BIGINTT"\n'
        'name = "t"\n[table.options]\nbucket = "many"\n[stream]\ntrigger = "soon"\n'
    )
    result = subprocess.run(
        [sys.executable, "-m", "stream_app", *command, "--conf", str(conf), "--set", "nonsense"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for part in (
        "did you mean 'bootstrap-servers'?",
        "table.columns: ",
        "BIGINTT",
        "table.options.bucket: ",
        "stream.trigger: ",
        "stream.checkpoint: is missing",
        "--set nonsense: must be KEY=VALUE",
        str(conf),
    ):
        assert part in result.stderr, result.stderr
    assert "starting Spark" not in result.stderr


@pytest.mark.variant
def test_freshness_needs_the_native_reader_unless_the_job_drains(harness: JobHarness) -> None:
    topic = harness.topic([change(1, "a")])
    pace = {"trigger": None, "freshness": "2 seconds"}
    harness.configure(topic, source={"reader": "spark"}, stream=pace)
    error = harness.fails()
    assert error.startswith("only the native reader chooses the length of epochs")
    assert "  where: stream.freshness\n  to fix: give stream.trigger in its place" in error
    harness.run("stream.trigger=availableNow")
    assert harness.rows() == {1: "a"}


def test_a_checkpoint_belongs_to_one_table(harness: JobHarness) -> None:
    """The job refuses another table, a recreated one, and one that was rolled back by hand."""
    topic = harness.topic([change(1, "a")])
    harness.configure(topic)
    harness.run()
    checkpoint = f"  where: {harness.folder}/checkpoint\n  to fix: give the job a new checkpoint"
    error = harness.fails("table.name=other")
    assert error.startswith(
        f"the checkpoint belongs to the table {harness.table}, not {harness.table.parent}/other\n"
    )
    assert checkpoint in error

    for key, value in ((2, "b"), (3, "c")):
        harness.send(topic, [change(key, value)])
        harness.run()
    for number in (2, 3):
        (harness.table / "snapshot" / f"snapshot-{number}").unlink()
    (harness.table / "snapshot" / "LATEST").write_text("1")
    harness.send(topic, [change(4, "d")])
    error = harness.fails()
    assert error.startswith(
        "the checkpoint has finished epoch 2, the table has only its epochs up to 0\n"
    )
    assert f"  where: {harness.table}\n  to fix: the table was rolled back" in error
    assert harness.rows() == {1: "a"}

    shutil.rmtree(harness.table)
    error = harness.fails()
    assert error.startswith("the table was dropped and recreated since this checkpoint was begun\n")
    assert checkpoint in error


def test_an_older_copy_of_the_checkpoint_loses_nothing(harness: JobHarness) -> None:
    """The job would skip its epochs as those in the table, although they have other messages."""
    topic = harness.topic([change(1, "a")])
    options = {"options.bucket": "1", "options.num-sorted-run.compaction-trigger": "2"}
    harness.configure(topic, table=options)
    harness.run()
    checkpoint, older = harness.folder / "checkpoint", harness.folder / "older"
    shutil.copytree(checkpoint, older)
    harness.send(topic, [change(2, "b")])
    harness.run()
    assert harness.snapshots() == ["APPEND 0", "APPEND 1", "COMPACT 1"]
    harness.send(topic, [change(3, "c")])
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    error = harness.fails()
    assert error.startswith("epoch 1 ends elsewhere in the checkpoint than in the table: at {")
    assert '":3}' in error.splitlines()[0]
    assert f"  where: {harness.table}\n  to fix: " in error
    for kept_by_spark in ("offsets", "commits"):
        shutil.rmtree(checkpoint / kept_by_spark)
    error = harness.fails()
    assert error.startswith(
        "the checkpoint continues with epoch 0, the table already has its epoch 1"
    )
    assert harness.rows() == {1: "a", 2: "b"}


def test_a_table_of_paimon_that_does_not_fit(harness: JobHarness) -> None:
    columns = [("id", "BIGINT NOT NULL"), ("v", "INT"), ("must", "INT NOT NULL")]
    options = {"bucket": "2", "index-file-in-data-file-dir": "true"}
    harness.java.create(harness.table, columns, primary_keys=["id"], options={"bucket": "2"})
    harness.configure(harness.topic([change(1, "a")]))
    assert harness.fails(code=2) == (
        "the configured table does not fit the one that is there: column 'v' is INT in the table, "
        "STRING is configured; the table's column 'must' is NOT NULL and is not configured\n"
        f"  where: {harness.table}\n"
        "  to fix: correct keys and options in the configuration, or give another table name"
    )
    table_path = harness.table.with_name("other")
    harness.java.create(table_path, columns[:1], primary_keys=["id"], options=options)
    error = harness.fails("table.name=other", "table.columns=id BIGINT NOT NULL")
    assert error.startswith("stream_app cannot write this table: ")
    assert "index-file-in-data-file-dir = true" in error
    assert "  to fix: " in error


def test_a_truncate_and_too_many_bad_records(harness: JobHarness) -> None:
    """Errors of tasks come in their own words, and what came before them is in the table."""
    topic = harness.topic([change(1, "a"), change(2, "b")])
    harness.configure(topic)
    harness.run()
    harness.send(topic, [change(3, "c"), TRUNCATE])
    error = harness.fails()
    assert error.startswith("the source table was truncated")
    assert f"  where: topic {topic}, partition 0, offset 3\n  to fix: " in error
    assert harness.rows() == {1: "a", 2: "b"}

    harness.send(topic, [NO_JSON, (b"\xff", b"\xfe"), change(4, "d")])
    ignore = "source.debezium.truncate=ignore"
    error = harness.fails(ignore)
    assert error.startswith("2 records could not be stored, 0 are allowed\n")
    assert f"  where: topic {topic}, partition 0, offset 4: " in error
    assert f"; topic {topic}, partition 0, offset 5: " in error
    assert "\n  to fix: raise stream.max-bad-records" in error
    # The epoch that failed at first had its offsets already; the bad ones came in the next.
    assert harness.rows() == {1: "a", 2: "b", 3: "c"}

    quarantine = f"stream.quarantine={harness.folder}/quarantine"
    error = harness.fails(ignore, quarantine, "stream.max-bad-records=1")
    assert error.startswith("2 records could not be stored, 1 are allowed\n")
    assert f"all of this epoch are in {harness.folder}/quarantine/epoch-2.jsonl" in error

    harness.run(ignore, quarantine, "stream.max-bad-records=2")
    assert harness.rows() == {1: "a", 2: "b", 3: "c", 4: "d"}
    bad_records = harness.quarantine()
    assert all(line.pop("timestamp") > 0 and line.pop("reason") for line in bad_records)
    where = {"topic": topic, "partition": 0}
    assert bad_records == [
        {**where, "offset": 4, "key": "k", "value": "no json"},
        {**where, "offset": 5, "key_base64": "/w==", "value_base64": "/g=="},
    ]


def test_the_doctor_sees_messages_from_the_future(
    harness: JobHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = harness.topic()
    later_ms = int(time.time() * 1000) + 1_800_000  # brokers refuse more than an hour
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap)
    producer.send(topic, value=change(1, "a")[1], timestamp_ms=later_ms).get(60)
    producer.close()
    assert main(["doctor", "--conf", str(harness.configure(topic))]) == 0
    output = capsys.readouterr().out
    assert re.search(r"warning +broker +the time of the newest message is \d+ s ahead of", output)
    assert "the topics may be described and read" in output


def test_records_that_were_deleted_before_they_were_read(
    harness: JobHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = harness.topic([change(1, "a")])
    harness.configure(topic)
    harness.run()
    harness.send(topic, [change(2, "b"), change(3, "c"), change(4, "d")])
    admin = KafkaAdminClient(bootstrap_servers=harness.broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 3})
    admin.close()
    assert main(["doctor", "--conf", str(harness.conf)]) == 1
    [problem] = [line for line in capsys.readouterr().out.splitlines() if line[:7] == "problem"]
    assert f"are gone: topic {topic}, partition 0, offsets 1 to 3" in problem
    error = harness.fails()
    assert "records" in error
    assert "source.fail-on-data-loss" in error
    assert topic in error
    assert harness.rows() == {1: "a"}
    harness.run("source.fail-on-data-loss=false")
    assert harness.rows() == {1: "a", 4: "d"}


def test_compaction_that_cannot_succeed_stops_the_job_only_at_the_stop_trigger(
    harness: JobHarness,
) -> None:
    topic = harness.topic(change(k, "a") for k in range(8))
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 1},
        table={"options.bucket": "1", "options.num-sorted-run.compaction-trigger": "3"},
    )
    harness.run("source.max-offsets-per-trigger=8")
    (data,) = harness.table.glob("bucket-0/data-*")
    data.unlink()
    harness.send(topic, (change(k, "b") for k in range(20)))
    error = harness.fails("table.options.num-sorted-run.stop-trigger=5", code=1)
    assert error.startswith("bucket 0 has 6 sorted runs and its compaction failed 3 times in a row")
    assert f"  where: {harness.table}/bucket-0\n  to fix: " in error
    assert [s for s in harness.snapshots() if "APPEND" in s] == [f"APPEND {n}" for n in range(6)]


def test_a_full_disk_and_a_read_only_one(harness: JobHarness, small_disk: Path) -> None:
    topic = harness.topic([change(1, "a")])
    harness.configure(topic, table={"warehouse": str(small_disk)})
    harness.run()
    table = small_disk / "db.db" / "t"
    filler = small_disk / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}"], capture_output=True, check=False)
    harness.send(topic, [change(2, "b")])
    error = harness.fails(code=1)
    assert "No space left on device" in error
    assert str(table) in error
    filler.unlink()
    make_read_only(small_disk)
    error = harness.fails()
    assert "Read-only file system" in error
    assert str(table) in error
    make_writable(small_disk)
    harness.run()
    assert {row["id"]: row["v"] for row in harness.java.read(table)} == {1: "a", 2: "b"}


def test_a_disk_that_becomes_full_while_an_epoch_is_written(
    harness: JobHarness, small_disk: Path, seed: int
) -> None:
    """The job fills it itself, in the middle of a file of some epoch."""
    rng = random.Random(seed)
    sent = {key: rng.randbytes(1000).hex() for key in range(1600)}
    topic = harness.topic(change(key, value) for key, value in sent.items())
    harness.configure(
        topic,
        source={"max-offsets-per-trigger": 400},
        table={"warehouse": str(small_disk), "options.bucket": "1"},
    )
    error = harness.fails(code=1)
    table = small_disk / "db.db" / "t"
    assert "No space left on device" in error
    assert str(table) in error
    assert "  to fix: " in error
    # What was committed before is whole, and nothing is left of what was not.
    committed_rows = open_table(str(table)).read().read_all().to_pylist()
    assert len(committed_rows) in range(400, 1600, 400)
    assert {row["id"]: row["v"] for row in committed_rows} == dict(
        list(sent.items())[: len(committed_rows)]
    )
    assert plan_orphans(open_file_store_table(str(table)), 10**15).files == ()

    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    harness.run()
    assert {row["id"]: row["v"] for row in harness.java.read(table)} == sent
    changes = [
        (kind, row["id"]) for plan in harness.java.changelog(table) for kind, row in plan.changes
    ]
    assert sorted(changes) == [("+I", key) for key in sent]
