"""A service of OpenLineage gets the job's lineage by real requests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.secrets import Secrets
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import ENVIRONMENT_ADDRESS, StreamConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.observe.channels.openlineage import PAUSE_S, dataset_name
from stream_app.app.observe.job_observers import JobObservers, job_observers
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import StorageError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.table.job.table_job import TableJob
from tests.support.servers.http_receiver import HttpReceiver, gunzipped_body, http_receiver
from tests.support.tables.small_table import CompactHere, StandingClock, small_table

COLUMNS = "id BIGINT NOT NULL, at TIMESTAMP(3), day STRING, op_ts TIMESTAMP(3), made TIMESTAMP(3)"
TABLES = SingleTable(
    source=SourceConfig(bootstrap_servers="one:9092, two:9092", topics=("shop.orders",)),
    table=TableConfig(
        warehouse="/lake",
        database="shop",
        name="orders",
        columns=parse_columns("id BIGINT NOT NULL, at TIMESTAMP(3)"),
        computed_columns=("day=date_format(at, yyyy-MM-dd)", "made=now()"),
        metadata_columns=("op_ts",),
    ),
)


def events_of(receiver: HttpReceiver) -> list[dict[str, Any]]:
    assert {request.path for request in receiver.requests} <= {"/api/v1/lineage"}
    return [json.loads(gunzipped_body(request)) for request in receiver.requests]


def a_report(epoch: int, **counts: Any) -> EpochReport:
    ends = {("shop.orders", 1): PartitionEnd(41, None)}
    return EpochReport(
        epoch=epoch, counts=DecodeCounts(ends=ends, **counts), file_count=2, byte_count=1000
    )


def run(
    url: str,
    job: TableJob,
    last: Callable[[JobObservers], None] = lambda _: None,
    job_tables: SingleTable = TABLES,
) -> None:
    """Two epochs of a job, whose events go where every job's do."""
    clock = StandingClock()
    stream = StreamConfig(openlineage_url=url, openlineage_namespace="lake")
    with job_observers(job_tables, stream, Secrets(("quince",)), clock) as observers:
        observers.events.watch(job)
        for epoch in range(2):
            observers.events.on_epoch(a_report(epoch, message_count=10, change_count=7))
            ends = {"shop.orders": {"0": 12, "1": 42 + epoch}}
            observers.events.report_progress(SourceProgress(epoch, 10, 0, ends))
            observers.events.report_heartbeat(True)
            clock.sleep(PAUSE_S / 2)
        last(observers)


@pytest.fixture
def job(tmp_path: Path) -> TableJob:
    small = small_table(tmp_path / "lake" / "shop.db" / "orders", COLUMNS, ["id"])
    return TableJob(small.table, CompactHere)


def test_a_run_is_reported_from_its_start_to_its_end(receiver: HttpReceiver, job: TableJob) -> None:
    def wait_for_two(observers: JobObservers) -> None:
        """Wait as the job does, which looks often because an event may be under way."""
        while len(receiver.requests) < 2:
            observers.events.report_heartbeat(True)
            time.sleep(0.01)

    run(receiver.url, job, wait_for_two)
    start, running, complete = events_of(receiver)
    assert [event["eventType"] for event in (start, running, complete)] == [
        "START", "RUNNING", "COMPLETE",
    ]  # fmt: skip
    assert len({event["run"]["runId"] for event in (start, running, complete)}) == 1
    assert (start["job"]["namespace"], start["job"]["name"]) == ("lake", "shop.orders")
    of_job = start["job"]["facets"]["jobType"]
    assert (of_job["processingType"], of_job["integration"]) == ("STREAMING", "STREAM_APP")
    assert "sourceCodeLocation" not in start["job"]["facets"]
    assert start["outputs"] == []

    [topic] = complete["inputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://one:9092", "shop.orders")
    assert topic["facets"]["kafkaOffsets"]["offsets"] == {"0": 12, "1": 43}
    [table] = complete["outputs"]
    assert (table["namespace"], table["name"]) == ("file", job.table.location)
    assert {
        key: value
        for key, value in table["outputFacets"]["outputStatistics"].items()
        if not key.startswith("_")
    } == {"rowCount": 14, "size": 2000, "fileCount": 4}
    assert [(column["name"], column["type"]) for column in table["facets"]["schema"]["fields"]][
        :2
    ] == [
        ("id", "BIGINT NOT NULL"),
        ("at", "TIMESTAMP(3)"),
    ]
    assert table["facets"]["storage"]["storageLayer"] == "paimon"


def test_each_column_has_the_field_of_the_topic_from_which_it_comes(
    receiver: HttpReceiver, job: TableJob
) -> None:
    """A column of a message's metadata, or of the time of day, comes from no field."""
    run(receiver.url, job)
    [table] = events_of(receiver)[-1]["outputs"]
    fields = table["facets"]["columnLineage"]["fields"]
    inputs = {
        name: [
            (
                input_field["namespace"],
                input_field["name"],
                input_field["field"],
                input_field["transformations"][0]["subtype"],
            )
            for input_field in column["inputFields"]
        ]
        for name, column in fields.items()
    }
    topic = ("kafka://one:9092", "shop.orders")
    assert inputs == {
        "id": [(*topic, "id", "IDENTITY")],
        "at": [(*topic, "at", "IDENTITY")],
        "day": [(*topic, "at", "TRANSFORMATION")],
    }
    [how] = fields["day"]["inputFields"][0]["transformations"]
    assert how["description"] == "date_format(at, yyyy-MM-dd)"


def test_an_error_is_the_run_s_end_and_shows_no_secret(
    receiver: HttpReceiver, job: TableJob
) -> None:
    def fail(_: JobObservers) -> None:
        raise StorageError("the disk of quince is full")

    with pytest.raises(StorageError, match="quince"):
        run(receiver.url, job, fail)
    last = events_of(receiver)[-1]
    assert last["eventType"] == "FAIL"
    message = last["run"]["facets"]["errorMessage"]["message"]
    assert "the disk of **** is full" in message


@pytest.mark.variant
def test_a_service_that_is_away_is_reported_once_and_changes_nothing(
    job: TableJob, caplog: pytest.LogCaptureFixture
) -> None:
    run("http://127.0.0.1:1", job)
    assert caplog.text.count("OpenLineage's service did not take an event") == 1


def test_a_problem_lasts_until_the_service_takes_an_event(job: TableJob) -> None:
    with http_receiver(400) as refusing:

        def look(observers: JobObservers) -> None:
            listeners = observers.events.listeners
            while not listeners.problems():
                time.sleep(0.01)
            [problem] = listeners.problems()
            assert "OpenLineage's service did not take an event" in problem.problem
            assert "quince" not in problem.problem
            while listeners.problems():
                observers.events.report_heartbeat(True)
                time.sleep(0.01)

        run(f"{refusing.url}/quince", job, look)


def test_the_service_may_come_from_the_client_s_variables(
    receiver: HttpReceiver, job: TableJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
    run(ENVIRONMENT_ADDRESS, job)
    assert [event["eventType"] for event in events_of(receiver)][-1] == "COMPLETE"


def test_settings_that_the_client_refuses_are_an_error_with_the_key(
    job: TableJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "pigeon")
    with pytest.raises(UsageError) as raised:
        run(ENVIRONMENT_ADDRESS, job)
    assert "stream.openlineage-url" in str(raised.value)


def test_a_folder_of_messages_is_an_input(receiver: HttpReceiver, job: TableJob) -> None:
    source = SourceConfig(kind=SourceKind.FILES, path="/data/messages")
    run(receiver.url, job, job_tables=SingleTable(source=source, table=TABLES.table))
    [folder] = events_of(receiver)[-1]["inputs"]
    assert (folder["namespace"], folder["name"]) == ("file", "/data/messages")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("s3://lake/wh/shop.db/orders", ("s3://lake", "wh/shop.db/orders")),
        ("hdfs://node:8020/wh/orders", ("hdfs://node:8020", "wh/orders")),
        ("file:/wh/orders", ("file", "/wh/orders")),
        ("/wh/orders", ("file", "/wh/orders")),
    ],
)
def test_folders_are_named_as_the_specification_says(location: str, name: tuple[str, str]) -> None:
    assert dataset_name(location) == name
