"""A job that reads two real Kafka clusters, of which the further one asks for a login."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from stream_app.app.config.source_clusters import ClusterSetting
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.source.kafka_reader import open_offset_client, reader_without_spark
from stream_app.app.source.source_connection import SourceConnection
from stream_app.app.source.topic_checks import checked_topics
from stream_app.errors import SourceError
from stream_app.kafka.offset_client import OffsetEnd
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.secure_kafka import SecureKafka
from tests.support.databases.database_harness import DatabaseHarness, database, same
from tests.support.jobs.job_harness import JobHarness, change
from tests.support.messages.database_topic import GARBAGE, Message, creates, rows

__all__ = ["database"]
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


def eu_cluster(secure_kafka: SecureKafka, **more: Any) -> dict[str, Any]:
    login = {f"kafka.{key}": value for key, value in secure_kafka.options("SCRAM512").items()}
    cluster = {"bootstrap-servers": secure_kafka.bootstrap("SCRAM512"), **login, **more}
    return {f"clusters.eu.{key}": value for key, value in cluster.items()}


def send_to_eu(secure_kafka: SecureKafka, topic: str, messages: list[Message]) -> None:
    new_topic(secure_kafka.broker, name=topic)
    produce(secure_kafka.broker, topic, messages)


def test_tables_of_one_name_stay_apart_through_restarts(
    database: DatabaseHarness, secure_kafka: SecureKafka
) -> None:
    orders = database.send("orders", creates("shop.orders", range(5)), is_new=True)
    send_to_eu(secure_kafka, orders, [*creates("shop.orders", range(8), "eu"), GARBAGE])
    database.configure({"merge-shards": False}, source=eu_cluster(secure_kafka))
    database.run()
    assert database.tables() == ["eu_shop_orders", "shop_orders"]
    same(database.rows("shop_orders"), rows(range(5)))
    same(database.rows("eu_shop_orders"), rows(range(8), "eu"))
    assert f"eu/{orders}" in database.tool("quarantine", "list", "--conf", str(database.conf))

    database.send("orders", creates("shop.orders", [5]))
    produce(secure_kafka.broker, orders, creates("shop.orders", [8, 9], "eu"))
    send_to_eu(secure_kafka, f"{database.prefix}.items", creates("shop.items", range(3), "eu"))
    lags = {row["table"]: row["lag"] for row in database.status()}
    assert lags == {"shop_orders": 1, "eu_shop_orders": 2}
    database.run()
    assert database.tables() == ["eu_shop_items", "eu_shop_orders", "shop_orders"]
    same(database.rows("shop_orders"), rows(range(6)))
    same(database.rows("eu_shop_orders"), rows(range(10), "eu"))
    same(database.rows("eu_shop_items"), rows(range(3), "eu"))
    assert {row["lag"] for row in database.status()} == {0}
    check_run = database.tool("check", "--conf", str(database.conf))
    assert check_run.startswith("3 tables: nothing is wrong\n")
    # The checkpoint has one log of offsets for both clusters.
    noted_offsets = (database.folder / "checkpoint/offsets/1").read_text().splitlines()[-1]
    assert sorted(json.loads(noted_offsets)) == [
        f"{database.prefix}.orders", f"eu/{database.prefix}.items", f"eu/{database.prefix}.orders"
    ]  # fmt: skip


def test_shards_of_two_clusters_become_one_table(
    harness: JobHarness, secure_kafka: SecureKafka
) -> None:
    ours = harness.topic([change(key, "here") for key in range(3)])
    send_to_eu(secure_kafka, f"{ours}.eu", [change(key, "there") for key in range(3, 7)])
    harness.configure(
        ours,
        source={
            **eu_cluster(secure_kafka, topics=[f"{ours}.eu"]),
            "merge-shards": True,
            "group-id": f"group of {ours}",
        },
    )
    harness.run()
    assert harness.rows() == dict.fromkeys(range(3), "here") | dict.fromkeys(range(3, 7), "there")
    produce(secure_kafka.broker, f"{ours}.eu", [change(7, "later")])
    harness.run()
    assert harness.rows()[7] == "later"


def a_source(secure_kafka: SecureKafka, first: str, **eu: Any) -> SourceConfig:
    settings = eu_cluster(secure_kafka, **eu)
    return SourceConfig(
        bootstrap_servers=first,
        topics=("t",),
        clusters={
            key.removeprefix("clusters."): ClusterSetting(value) for key, value in settings.items()
        },
    )


def test_a_cluster_that_is_away_is_named(secure_kafka: SecureKafka) -> None:
    away = {"bootstrap-servers": "127.0.0.1:1"}
    source = a_source(secure_kafka, secure_kafka.broker.bootstrap, **away)
    with pytest.raises(SourceError) as caught:
        checked_topics(source)
    assert caught.value.where == "source.clusters.eu.bootstrap-servers"


def test_no_epoch_is_planned_while_a_cluster_is_away(secure_kafka: SecureKafka) -> None:
    new_topic(secure_kafka.broker, name="t")
    source = a_source(secure_kafka, "127.0.0.1:1")
    with closing(open_offset_client(source, reader_without_spark(source))) as offsets:
        offsets.give_up()  # it would wait for two minutes
        with pytest.raises(SourceError, match="has reported no offsets"):
            offsets.offsets_at(OffsetEnd.NEWEST)


def test_a_group_keeps_its_offsets_in_a_cluster_that_was_left_out(
    secure_kafka: SecureKafka,
) -> None:
    topic = new_topic(secure_kafka.broker)
    source = SourceConfig(bootstrap_servers=secure_kafka.broker.bootstrap, topics=(topic,))
    with SourceConnection(source) as connection:
        connection.commit_group(f"of {topic}", {topic: {"0": 3}, f"gone/{topic}": {"0": 5}})
        assert connection.group_offsets(f"of {topic}", [(topic, 0)]) == {(topic, 0): 3}
