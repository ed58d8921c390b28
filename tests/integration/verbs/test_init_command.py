"""``stream-app init`` reads a real topic, and a job of what it writes takes the topic's rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import load_config
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.table_section import table_section

pytestmark = pytest.mark.kafka
CAPTURED = Path(__file__).parents[2] / "fixtures" / "cdc" / "debezium_pg_schema.jsonl"


def captured_pairs(topic: str) -> list[tuple[bytes | None, bytes | None]]:
    records = [json.loads(line) for line in CAPTURED.read_text(encoding="utf-8").splitlines()]
    return [
        (record["key"] and record["key"].encode(), record["value"] and record["value"].encode())
        for record in records
        if record["topic"] == topic
    ]


def test_a_configuration_is_written_from_a_topic(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker, partitions=2)
    produce(kafka_broker, topic, captured_pairs("pgs.shop.orders"))
    conf = tmp_path / "orders.toml"
    words = ["init", "--from-topic", topic]
    servers = ["--bootstrap-servers", kafka_broker.bootstrap]
    assert main([*words, *servers, "--output", str(conf)]) == 0
    config = load_config(conf, (), {})
    assert (table_section(config).database, table_section(config).name) == ("shop", "orders")
    assert table_section(config).primary_keys == ("order_id", "line")
    assert [f"{column.name} {column.data_type}" for column in table_section(config).columns] == [
        "order_id BIGINT NOT NULL",
        "line INT NOT NULL",
        "sku STRING",
        "qty INT",
        "price STRING",
        "placed TIMESTAMP(6)",
    ]
    assert main([*words, *servers, "--output", str(conf)]) == 2
    capsys.readouterr()
    assert main([*words, "--conf", str(conf), "--name", "again"]) == 0
    assert 'name = "again"' in capsys.readouterr().out


def test_a_topic_of_a_further_cluster_is_named_with_it(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker, partitions=1)
    produce(kafka_broker, topic, captured_pairs("pgs.shop.orders"))
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": "127.0.0.1:1",
            "topics": [topic],
            "kafka.client.id": "first",
            "clusters.eu.bootstrap-servers": kafka_broker.bootstrap,
            "clusters.eu.kafka.client.id": "second",
        },
        sync={"warehouse": str(tmp_path), "database": "ods", "merge-shards": False},
        stream={"checkpoint": str(tmp_path / "checkpoint")},
    )
    output = tmp_path / "orders.toml"
    words = ["init", "--conf", str(conf), "--from-topic"]
    assert main([*words, f"eu/{topic}", "--output", str(output)]) == 0
    source = load_config(output, (), {}).source
    assert (source.topics, source.bootstrap_servers) == ((topic,), kafka_broker.bootstrap)
    assert source.kafka_options == {"client.id": "second"}
    assert main([*words, f"us/{topic}"]) == 2
    assert "no cluster 'us' is configured" in capsys.readouterr().err


def test_topics_that_give_no_table(
    kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(kafka_broker, partitions=1)
    words = ["init", "--bootstrap-servers", kafka_broker.bootstrap, "--from-topic"]
    assert main([*words, topic]) == 2
    assert "no message shows a column" in capsys.readouterr().err
    produce(
        kafka_broker,
        topic,
        captured_pairs("pgs.shop.orders") + captured_pairs("pgs.shop.customers"),
    )
    assert main([*words, topic]) == 2
    assert "belong to 2 tables" in capsys.readouterr().err
    assert main([*words, topic + "x"]) == 2
