"""A table's changes become messages in a real broker, also when the verb is killed and resumed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import stream_app
from stream_app.app.source.kafka_output import KafkaOutput
from stream_app.errors import SourceError, UsageError
from tests.support.brokers.kafka_broker import consume, count, new_topic
from tests.support.jobs.job_harness import JobHarness
from tests.support.tables.small_table import SmallTable, small_table
from tests.support.verbs.command import COMMAND, REPO

pytestmark = [pytest.mark.kafka]
ROWS = 8_000
READING = {
    "debezium.decimal.handling.mode": "string",
    "debezium.time.precision.mode": "isostring",
}


def wait_while_running(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start_following(small: SmallTable, place: str) -> subprocess.Popen[str]:
    words = ["--follow", "--consumer", "mirror", "--to-kafka", place]
    return subprocess.Popen(
        [*COMMAND, "changelog", small.path, *words],
        cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.slow
def test_a_killed_changelog_to_kafka_resumes_without_loss(
    harness: JobHarness, tmp_path: Path
) -> None:
    """Nothing is missing after SIGKILL amid a snapshot; the job makes the same table of it."""
    small = small_table(
        tmp_path / "shop.db" / "t", "id BIGINT NOT NULL, v STRING, d DECIMAL(9,2), at TIMESTAMP(3)",
        ("id",), changelog_producer="input", bucket=2,
    )  # fmt: skip
    small.commit(("+I", {"id": 1, "v": "a"}), ("+I", {"id": 2, "v": "gone"}))
    small.commit(*(("+I", {"id": key, "v": f"row {key}"}) for key in range(10, 10 + ROWS)))
    topic = new_topic(harness.broker, partitions=3)
    consumers, place = small.table.consumers, f"{harness.broker.bootstrap}/{topic}"

    process = start_following(small, place)
    wait_while_running(lambda: consumers.next_snapshot_id("mirror") == 2, process)
    wait_while_running(lambda: count(harness.broker, topic) > 2, process)
    process.kill()
    process.communicate()
    assert consumers.next_snapshot_id("mirror") == 2, "killed amid the snapshot"

    process = start_following(small, place)
    wait_while_running(lambda: consumers.next_snapshot_id("mirror") == 3, process)
    small.commit(
        ("-U", {"id": 1, "v": "a"}), ("+U", {"id": 1, "v": "b"}), ("-D", {"id": 2, "v": "gone"})
    )
    wait_while_running(lambda: consumers.next_snapshot_id("mirror") == 4, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, process.communicate()
    assert process.communicate() == ("", "")

    records = consume(harness.broker, topic, count=10**9, timeout_ms=1000)
    changes = {
        (message["source"]["snapshot_id"], json.loads(key or b"")["id"], message["op"])
        for _, _, key, value in records
        for message in [json.loads(value or b"")]
    }
    created_changes = {(2, key, "c") for key in range(10, 10 + ROWS)}
    assert changes == created_changes | {(1, 1, "c"), (1, 2, "c"), (3, 1, "u"), (3, 2, "d")}
    assert len(records) >= len(changes)

    columns = "id BIGINT NOT NULL, v STRING, d DECIMAL(9,2), at TIMESTAMP(3)"
    harness.configure(topic, source=READING, table={"columns": columns})
    harness.run()
    table_rows = stream_app.open_table(harness.table).read().read_all().sort_by("id")
    assert table_rows == stream_app.open_table(small.path).read().read_all().sort_by("id")


def test_a_broker_that_does_not_answer_is_reported() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}/topic"
    with pytest.raises(SourceError, match="cannot send to Kafka") as caught:
        KafkaOutput(place, timeout_s=0.5)
    assert caught.value.where == place


@pytest.mark.parametrize("place", ["orders", "localhost:9092", "localhost:9092/", "/orders"])
def test_a_place_that_names_no_topic_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="names no topic"):
        KafkaOutput(place)
