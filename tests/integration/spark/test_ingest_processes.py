"""The job runs as processes: with signals, by spark-submit, two at a time, beside Paimon's Java."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.epochs.stages.epoch_seconds import parse_epoch_seconds
from stream_app.fileio.counted_file_io import REQUEST_KINDS
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.model.snapshot import PACE_PROPERTY, SECONDS_PROPERTY, SOURCE_TIME_PROPERTY
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import ROOT, IngestProcess, a_free_port, read_events
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.judges.paimon_java import PaimonError
from tests.support.servers.http_receiver import HttpReceiver, gunzipped_body

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def job(harness: JobHarness) -> Iterator[IngestProcess]:
    """The harness's job as a process; nothing is left of it afterwards."""
    process = IngestProcess(harness.folder / "job.toml", harness.folder)
    yield process
    if process.process is not None and process.process.poll() is None:
        process.kill()


def running(harness: JobHarness, *topics: str, **sections: Any) -> None:
    """Configure a job that goes on until it is stopped."""
    sections["stream"] = {"trigger": "0 seconds", **sections.get("stream", {})}
    sections["spark"] = {"spark.driver.extraJavaOptions": fast_jvm()}
    harness.configure(*topics, **sections)


def count(name: str, at_least: int = 1) -> Any:
    return lambda events: sum(event["event"] == name for event in events) >= at_least


def test_signals_end_the_job_after_its_epoch_and_idle_commits_carry_its_number(
    harness: JobHarness, job: IngestProcess, receiver: HttpReceiver
) -> None:
    """SIGTERM to the JVM alone, as a supervisor does; then to all. (Ctrl-C: test_ctrl_c.py.)"""
    topic = harness.topic(change(k, "a") for k in range(40))
    port, web_port = a_free_port(), a_free_port()
    running(
        harness,
        topic,
        source={"max-offsets-per-trigger": 4},
        table={"options.bucket": "1", "options.num-sorted-run.compaction-trigger": "2"},
        stream={
            "trigger": None,
            "freshness": "2 seconds",
            "metrics-port": port,
            "web-port": web_port,
            "log-format": "json",
            "webhook-url": f"{receiver.url}/hook",
            "otlp-endpoint": receiver.url,
            "openlineage-url": receiver.url,
        },
    )
    job.start()
    job.wait_for(count("epoch", 2))
    assert job.process is not None
    os.kill(job.process.pid, signal.SIGTERM)
    assert job.finish(60) == 0, job.log()
    _check_ended(harness, job)

    job.start()
    job.wait_for(lambda events: sum(event.get("changes", 0) for event in events) == 40)
    harness.send(topic, [change(99, "last")])
    job.wait_for(lambda events: sum(event.get("changes", 0) for event in events) == 41)
    # Nothing comes in any more: what the last epoch began is committed without one.
    epochs = len(harness.events("epoch"))
    job.wait_for(
        lambda events: [e["event"] for e in events if e["event"] != "progress"][-1] == "idle_commit"
    )
    assert len(harness.events("epoch")) == epochs
    idle = harness.events("idle_commit")[-1]
    assert (idle["compactions_running"], idle["sorted_runs"]) == (0, {"1": 1})
    assert harness.snapshots()[-1] == f"COMPACT {epochs - 1}"
    _check_metrics(harness, port)
    _check_page(harness, web_port)
    assert job.stop() == 0, job.log()
    _check_sent(receiver)
    _check_log(job)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "nobody listens any more"
    _check_ended(harness, job)
    assert harness.rows() == dict.fromkeys(range(40), "a") | {99: "last"}
    last = -1
    for snapshot in harness.java.snapshots(harness.table):
        if snapshot["commitKind"] == "COMPACT":
            assert snapshot["commitIdentifier"] == last
        last = snapshot["commitIdentifier"]


def _check_sent(receiver: HttpReceiver) -> None:
    """The webhook got both stops, OTLP each epoch's trace, and the service two runs."""
    lineage = [
        json.loads(gunzipped_body(r)) for r in receiver.requests if r.path == "/api/v1/lineage"
    ]
    states = [event["eventType"] for event in lineage if event["eventType"] != "RUNNING"]
    assert states == ["START", "COMPLETE"] * 2
    [table] = lineage[-1]["outputs"]
    assert table["name"].endswith("/db.db/t")
    assert table["outputFacets"]["outputStatistics"]["rowCount"] > 0
    assert lineage[-1]["inputs"][0]["facets"]["kafkaOffsets"]["offsets"]
    notices = [json.loads(request.body) for request in receiver.requests if request.path == "/hook"]
    assert [(notice["event"], notice["is_error"], notice["job"]) for notice in notices] == [
        ("stopped", False, "db.t")
    ] * 2
    traces = [
        ExportTraceServiceRequest.FromString(gunzipped_body(request))
        for request in receiver.requests
        if request.path == "/v1/traces"
    ]
    spans = {
        span.name
        for trace in traces
        for of_resource in trace.resource_spans
        for scope in of_resource.scope_spans
        for span in scope.spans
    }
    parts = {"read", "decode", "route", "wait", "write", "commit", "compaction"}
    assert spans == {"epoch", "idle commit", *parts}


def _check_log(job: IngestProcess) -> None:
    """Each line of the job itself is an object; those of an epoch say which."""
    lines = job.log_file.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    epochs = [
        event for event in events if event["message"].startswith("epoch ") and "offsets" in event
    ]
    assert {epoch["table"] for epoch in epochs} == {"db.t"}
    assert all(epoch["message"].startswith(f"epoch {epoch['epoch']}: ") for epoch in epochs)
    assert events[-1]["message"] == "ended"


def _check_page(harness: JobHarness, port: int) -> None:
    """The job's page shows its table, its epochs and its compactions."""
    epochs = len(harness.events("epoch"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        tables = answer.read().decode()
    assert "db.t" in tables
    assert "ready" in tables
    assert "up to date" in tables
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/tables/db.t", timeout=60) as answer:
        page = answer.read().decode()
    assert page.count('<rect class="write"') <= epochs
    assert f"<title>epoch {epochs - 1}: 1 messages; wait" in page
    assert re.search(r"; wait [\d.]+ s, read [\d.]+ s, decode [\d.]+ s, route ", page)
    assert "sorted run" in page
    assert "epochs waited, since the job began" in page
    assert "0 running" in page
    written = [
        snapshot.get("properties") or {} for snapshot in harness.java.snapshots(harness.table)
    ]
    of_epochs = [properties for properties in written if SECONDS_PROPERTY in properties]
    paces = [properties[PACE_PROPERTY] for properties in of_epochs]
    assert paces[0] == "epochs of 1.0 s keep rows fresher than 2 s: none is known yet"
    assert paces[-1] in page
    times = [int(p[SOURCE_TIME_PROPERTY]) for p in written if SOURCE_TIME_PROPERTY in p]
    assert len(times) > 1
    assert times == sorted(times)
    seconds_of_epochs = [
        parse_epoch_seconds(properties[SECONDS_PROPERTY]) for properties in of_epochs
    ]
    assert len(seconds_of_epochs) == len(times)
    assert all(
        sum(seconds.values()) > seconds["read"] + seconds["decode"] > 0
        for seconds in seconds_of_epochs
    )


def _check_metrics(harness: JobHarness, port: int) -> None:
    """Prometheus gets over HTTP what the running job's events say."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    values = {
        (sample.name.removeprefix("stream_app_"), sample.labels.get("kind", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("table") == "db.t"
    }
    for path in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            assert answer.read() == b"ok\n"
    all_events = read_events(harness.events_file)
    starts = [number for number, event in enumerate(all_events) if event["event"] == "started"]
    events = all_events[starts[-1] :]
    epochs = [event for event in events if event["event"] == "epoch" and not event["skipped"]]
    snapshots = [snapshot["kind"] for event in events for snapshot in event.get("snapshots", ())]
    compactions = [compaction for event in events for compaction in event.get("compactions", ())]
    idle = events[-1] if events[-1]["event"] == "idle_commit" else events[-2]
    assert compactions
    assert snapshots.count("COMPACT") == len(compactions)
    assert {name: values[name, ""] for name, kind in values if not kind}.items() >= {
        "epochs_total": len(epochs),
        "messages_total": sum(event["messages"] for event in epochs),
        "bad_records_total": 0,
        "lag_messages": 0,
        "partition_lag_messages": 0,
        "table_lag_messages": 0,
        "freshness_seconds": 0,
        "table_records": 41,
        "level0_files_max": 0,
        "sorted_runs_max": 1,
        "sorted_runs": 1,
        "table_files": 1,
        "executors": 1,
        "compaction_queue_age_seconds": 0,
        "compactions_queued": 0,
        "compactions_running": 0,
        "compactions_begun_total": len(compactions),
        "compactions_completed_total": len(compactions),
        "compactions_failed_total": 0,
        "compaction_read_bytes_total": sum(merge["bytes_in"] for merge in compactions),
        "compaction_written_bytes_total": sum(merge["bytes_out"] for merge in compactions),
    }.items()
    for kind in ("APPEND", "COMPACT"):
        assert values["snapshots_total", kind] == snapshots.count(kind)
    # Snapshots of this process, and at least a data file for each, which tasks have written.
    assert values["store_requests_total", "put"] > 2 * len(snapshots)
    assert values["store_requests_total", "get"] > 0
    assert sum(values["store_errors_total", kind] for kind in REQUEST_KINDS) == 0
    assert values["table_bytes", ""] > 0
    assert values["jvm_heap_used_bytes", ""] > 0
    assert values["jvm_resident_memory_bytes", ""] > 0
    ratio = values["write_amplification_ratio", ""]
    assert idle["write_amplification"] == pytest.approx(ratio, abs=0.001)
    assert ratio > 1


def _check_ended(harness: JobHarness, job: IngestProcess) -> None:
    """The last epoch is in the table, and no process is left behind."""
    assert job.events()[-1]["event"] == "ended", job.log()
    assert "Traceback" not in job.log()
    assert "\tat " not in job.log()
    last = max(event["epoch"] for event in harness.events("epoch"))
    assert f"APPEND {last}" in harness.snapshots()
    process_list = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(job.conf) not in process_list.stdout


def test_spark_submit_by_hand_from_another_folder(harness: JobHarness) -> None:
    """A user can run the command of `ingest --print` without the environment of run.sh."""
    running(harness, harness.topic([change(1, "a")]))
    words = ["ingest", "--print", f"--conf={harness.conf}", "--set", "stream.trigger=availableNow"]
    output = subprocess.run(
        [sys.executable, "-P", "-m", "stream_app", *words],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    command = shlex.split(output.stdout)
    assert command[0].endswith("/bin/spark-submit")
    assert command[command.index(str(ROOT / "stream_app/app/submit/ingest.py")) + 1] == "--conf"
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(harness.folder)}
    bare |= {key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ}
    result = subprocess.run(
        command, cwd="/", env=bare, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "epoch 0: 1 messages, 1 changes" in result.stdout + result.stderr
    assert harness.rows() == {1: "a"}


@pytest.mark.variant
def test_a_second_job_with_the_same_checkpoint_loses_no_row(
    harness: JobHarness, job: IngestProcess
) -> None:
    """At least one of both jobs ends with a clear error, and no row is lost or doubled."""
    topic = harness.topic([change(0, "a")])
    running(harness, topic, source={"max-offsets-per-trigger": 5})
    second = IngestProcess(harness.conf, harness.folder / "second")
    second.folder.mkdir()
    job.start()
    job.wait_for(count("epoch"))
    second.start()
    jobs = [job, second]
    number = 1
    try:
        deadline = time.monotonic() + 240
        while all(job.process and job.process.poll() is None for job in jobs):
            assert time.monotonic() < deadline, job.log() + second.log()
            if second.events():  # until it has begun, epochs would only take the cores from it
                harness.send(topic, [change(number, "a")])
                number += 1
            time.sleep(0.1)
        (loser,) = [job for job in jobs if job.process and job.process.poll() is not None]
        (winner,) = [job for job in jobs if job is not loser]
        assert_ended_by_another(loser)
        harness.send(topic, [change(number, "last")])
        winner.wait_for(lambda _: is_there(harness, number) or has_ended(winner), every=0.3)
        if has_ended(winner):  # each has seen what the other committed
            assert_ended_by_another(winner)
            winner.start()
            winner.wait_for(lambda _: is_there(harness, number), every=0.3)
        assert winner.stop() == 0, winner.log()
    finally:
        if second.process is not None and second.process.poll() is None:
            second.kill()
    expected = dict.fromkeys(range(number), "a") | {number: "last"}
    assert harness.rows() == expected
    assert sorted(harness.changes()) == sorted(("+I", key, v) for key, v in expected.items())


def is_there(harness: JobHarness, number: int) -> bool:
    return harness.rows().get(number) == "last"


def has_ended(job: IngestProcess) -> bool:
    return job.process is not None and job.process.poll() is not None


def assert_ended_by_another(job: IngestProcess) -> None:
    assert job.finish() in (1, 2), job.log()  # 2: it has seen what the other committed
    error = job.log().partition("error: ")[2]
    assert "checkpoint" in error
    assert "Traceback" not in error


def test_paimon_writes_before_during_and_after_the_job(
    harness: JobHarness, job: IngestProcess
) -> None:
    """The job continues Paimon's table with its levels, Paimon commits between epochs, and Java
    continues the table. An absent service of lineage only makes the job warn.
    """
    columns = [("id", "BIGINT NOT NULL"), ("v", "STRING")]
    options = {
        "bucket": "2",
        "changelog-producer": "input",
        "num-sorted-run.compaction-trigger": "3",
    }
    harness.java.create(harness.table, columns, primary_keys=["id"], options=options)
    for identifier in range(5):
        _write(harness, range(100), f"java {identifier}", identifier)
    assert {file["level"] for file in harness.java.files(harness.table)} - {0}

    topic = harness.topic(change(k, "job") for k in range(50))
    running(
        harness,
        topic,
        source={"max-offsets-per-trigger": 25},
        stream={"openlineage-url": "http://127.0.0.1:1"},
        table={f"options.{key}": value for key, value in options.items()},
    )
    job.start()
    job.wait_for(count("epoch"))
    for identifier in range(5, 15):  # other keys of the same buckets
        _write(harness, range(200, 220), f"java {identifier}", identifier)
        harness.send(topic, [change(k, f"job {identifier}") for k in range(50, 60)])
    job.wait_for(lambda events: sum(event.get("changes", 0) for event in events) == 150)
    checkpoint = JobFolder(str(harness.folder / "checkpoint"), LocalFileIO())
    job.wait_for(lambda _: state_or_empty(checkpoint).warnings)  # the client tries for seconds
    assert job.stop() == 0, job.log()
    [warning] = state_or_empty(checkpoint).warnings
    assert "OpenLineage's service did not take an event" in warning.problem
    assert "stream.openlineage-url" in warning.fix
    expected = (
        dict.fromkeys(range(50), "job")
        | dict.fromkeys(range(50, 60), "job 14")
        | dict.fromkeys(range(60, 100), "java 4")
        | dict.fromkeys(range(200, 220), "java 14")
    )
    assert harness.rows() == expected
    from_job = [change for change in harness.changes() if change[2].startswith("job")]
    assert len(from_job) == 150

    harness.java.compact(harness.table)
    assert harness.rows() == expected
    _write(harness, range(10), "java again", 15)
    assert harness.rows() == expected | dict.fromkeys(range(10), "java again")


def _write(harness: JobHarness, keys: Sequence[int], value: str, identifier: int) -> None:
    rows = [("+I", {"id": key, "v": value}) for key in keys]
    try:
        harness.java.write(harness.table, rows, identifier=identifier)
    except PaimonError as error:
        # Its rows are in; it lost the compaction to the job, and says so, where the job continues.
        if "Conflicts during commits are normal" not in str(error):
            raise
