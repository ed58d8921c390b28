"""The driver is killed at random moments, again and again; nothing is lost and nothing is twice."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from stream_app.app.embedded_broker import EmbeddedBroker
from stream_app.app.shop import COLUMNS, Shop
from tests.support.ingest_process import IngestProcess, write_conf
from tests.support.kafka_broker import consume, new_topic, produce
from tests.support.paimon_java import PaimonJava
from tests.support.topic_model import TopicModel, changes_by_key

KILLS = 20
PARTITIONS = 3
CHANGES_PER_ROUND = 1_500


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.slow
def test_killed_at_random_moments(
    tmp_path: Path, kafka_broker: EmbeddedBroker, paimon_java: PaimonJava, seed: int
) -> None:
    topic = new_topic(kafka_broker, partitions=PARTITIONS)
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic],
            "max-offsets-per-trigger": 400,
        },
        table={
            "warehouse": str(tmp_path / "warehouse"),
            "database": "shop",
            "name": "orders",
            "columns": COLUMNS,
            "primary-keys": ["dt", "id"],
            "partition-keys": ["dt"],
            "options.bucket": "2",
            "options.changelog-producer": "input",
            "options.num-sorted-run.compaction-trigger": "3",
        },
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "0 seconds"},
        spark={"spark.master": "local[2]"},
    )
    random, shop = Random(seed), Shop(Random(seed))
    job = IngestProcess(conf, tmp_path)
    produced = 0
    for kill in range(KILLS):
        messages = list(shop.changes(CHANGES_PER_ROUND))
        produce(kafka_broker, topic, messages)
        produced += len(messages)
        seen = len(job.events())
        job.start()
        if kill % 5 == 4:
            # Now and then already while it starts.
            time.sleep(random.uniform(1, 6))
        else:
            job.wait_for(lambda events, seen=seen: _epochs(events[seen:]))
            time.sleep(random.expovariate(1 / 0.6))
        job.kill()
    job.start("--set", "stream.trigger=availableNow")
    assert job.finish() == 0, job.log()

    model = TopicModel()
    records = consume(kafka_broker, topic, count=produced)
    assert len(records) == produced
    for partition in range(PARTITIONS):
        model.apply(value for number, _, _, value in records if number == partition)
    table = tmp_path / "warehouse" / "shop.db" / "orders"
    rows = paimon_java.read(table)
    assert {(row["dt"], row["id"]): row for row in rows} == model.rows
    assert len(rows) == len(model.rows)
    changelog = [change for plan in paimon_java.changelog(table) for change in plan.changes]
    assert len(changelog) == model.change_count
    assert changes_by_key(changelog) == model.changes

    snapshots = paimon_java.snapshots(table)
    appends = [s["commitIdentifier"] for s in snapshots if s["commitKind"] == "APPEND"]
    assert appends == list(range(len(appends))), "each epoch once, in order"
    assert len({snapshot["commitUser"] for snapshot in snapshots}) == 1
    assert any(snapshot["commitKind"] == "COMPACT" for snapshot in snapshots)


def _epochs(events: list[dict[str, object]]) -> bool:
    return any(event["event"] == "epoch" for event in events)
