"""A driver that is killed at random moments loses no change and writes none twice."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bench.shop.shop_orders import COLUMNS, Shop
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import consume, new_topic, produce
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.histories.topic_model import TopicModel, changes_by_key, read_row
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava

MOMENTS = ("at a snapshot", "at any time", "after an epoch", "at the start")
"""When a run is killed; the runs take turns. `./run.sh soak` kills for as long as one likes."""
PARTITIONS = 3
CHANGES_PER_RUN = 800


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.slow
def test_killed_at_random_moments(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    seed: int,
) -> None:
    topic = new_topic(kafka_broker, partitions=PARTITIONS)
    table = tmp_path / "warehouse" / "shop.db" / "orders"
    conf = _conf(tmp_path, kafka_broker, topic, seed)
    random, shop = Random(seed), Shop(Random(seed))
    job = IngestProcess(conf, tmp_path)
    message_count = 0
    for moment in MOMENTS:
        job.start()
        messages = list(shop.changes(CHANGES_PER_RUN))
        produce(kafka_broker, topic, messages)
        message_count += len(messages)
        _wait_for(moment, job, table, random)
        job.kill()
    assert job.runs == len(MOMENTS)
    rest = ingest_server.run(conf, "stream.trigger=availableNow")
    assert rest.code == 0, rest.output
    _nothing_is_lost_or_twice(paimon_java, table, _model_of(kafka_broker, topic, message_count))
    _each_epoch_is_there_once(paimon_java, table)
    events = Counter(
        "skipped epoch" if event.get("skipped") else event["event"] for event in job.events()
    )
    print(f"seed {seed}: {dict(events)}")


def _conf(folder: Path, broker: EmbeddedBroker, topic: str, seed: int) -> Path:
    return write_conf(
        folder / "job.toml",
        source={
            "bootstrap-servers": broker.bootstrap,
            "topics": [topic],
            "max-offsets-per-trigger": 300,
        },
        table={
            "warehouse": str(folder / "warehouse"),
            "database": "shop",
            "name": "orders",
            "columns": COLUMNS,
            "primary-keys": ["dt", "id"],
            "partition-keys": ["dt"],
            "options.bucket": "2",
            "options.changelog-producer": "input",
            "options.num-sorted-run.compaction-trigger": "3",
        },
        stream={
            "checkpoint": str(folder / "checkpoint"),
            "trigger": "0 seconds",
            "driver-messages": 5000 * (seed % 2),  # the driver has all epochs, or workers have
        },
        spark={"spark.master": "local[2]", "spark.driver.extraJavaOptions": fast_jvm()},
    )


def _model_of(broker: EmbeddedBroker, topic: str, message_count: int) -> TopicModel:
    model = TopicModel()
    records = consume(broker, topic, count=message_count)
    assert len(records) == message_count
    for partition in range(PARTITIONS):
        model.apply(value for number, _, _, value in records if number == partition)
    return model


def _nothing_is_lost_or_twice(paimon_java: PaimonJava, table: Path, model: TopicModel) -> None:
    rows = [read_row(row) for row in paimon_java.read(table)]
    assert {(row["dt"], row["id"]): row for row in rows} == model.rows
    assert len(rows) == len(model.rows)
    changelog = [
        (kind, read_row(row)) for plan in paimon_java.changelog(table) for kind, row in plan.changes
    ]
    assert len(changelog) == model.change_count
    assert changes_by_key(changelog) == model.changes


def _each_epoch_is_there_once(paimon_java: PaimonJava, table: Path) -> None:
    snapshots = paimon_java.snapshots(table)
    appends = [s["commitIdentifier"] for s in snapshots if s["commitKind"] == "APPEND"]
    assert appends == list(range(len(appends))), "each epoch once, in order"
    assert len({snapshot["commitUser"] for snapshot in snapshots}) == 1
    assert any(snapshot["commitKind"] == "COMPACT" for snapshot in snapshots)


def _wait_for(moment: str, job: IngestProcess, table: Path, random: Random) -> None:
    """Wait for a moment to kill the job; the last line of each branch adds a random delay."""
    event_count = len(job.events())
    if moment == "at the start":
        job.wait_for(lambda events: len(events) > event_count)
        time.sleep(random.uniform(0, 3))
    elif moment == "at a snapshot":
        # Half of these kills hit between APPEND and COMPACT, or before Spark records the epoch.
        ahead, latest_id = random.randrange(1, 3), _latest_id(table)
        # Polling takes a core from the starting job, so it begins only when the snapshot may come.
        job.wait_for(lambda events: len(events) > event_count)
        job.wait_for(lambda _: _latest_id(table) >= latest_id + ahead, every=0.001)
        time.sleep(random.uniform(0, 0.02))
    else:
        job.wait_for(
            lambda events: any(event["event"] == "epoch" for event in events[event_count:])
        )
        time.sleep(random.uniform(0, 0.1) if moment == "after an epoch" else random.expovariate(1))


def _latest_id(table: Path) -> int:
    names = (path.name for path in (table / "snapshot").glob("snapshot-*"))
    return max((int(name.removeprefix("snapshot-")) for name in names), default=0)
