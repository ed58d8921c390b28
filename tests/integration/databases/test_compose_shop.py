"""The SQL, connector and job that docker/compose.yaml mounts work together as processes.

The test tries neither containers nor their addresses.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.table.api.paimon_table import open_table
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import ROOT, IngestProcess, a_free_port
from tests.support.servers.s3_server import S3Server
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
DOCKER = ROOT / "docker"
SECONDS = 5
"""Of the shop."""


@pytest.mark.variant
def test_the_shop_arrives_in_the_store(testbed: Testbed, s3: S3Server, tmp_path: Path) -> None:
    connector = json.loads((DOCKER / "debezium" / "shop.json").read_text())
    ours = {key: value for key, value in connector.items() if not key.startswith("database.")}
    del ours["slot.name"]  # the testbed names it
    prefix = ours["topic.prefix"] = "compose_shop"
    ours["table.include.list"] += ",shop.done"  # by which the testbed knows that all is sent
    traffic, watch = (DOCKER / "postgres" / "traffic.sql").read_text().rstrip().rsplit("\n", 1)
    assert watch == r"\watch 1"
    lake = f"s3://{s3.new_bucket()}"
    with testbed.postgres_database("compose_shop") as shop:
        shop.execute("set search_path to public, shop")
        shop.execute((DOCKER / "postgres" / "schema.sql").read_text())
        shop.execute(traffic)
        shop.start_connector(testbed.connect, ours)
        for _ in range(SECONDS):
            shop.execute(traffic)
        shop.wait_until_sent(testbed.connect)
        settings = {
            "source.bootstrap-servers": testbed.broker.bootstrap,
            "source.topic-pattern": rf"{prefix}\.public\..*",
            "sync.warehouse": f"{lake}/warehouse",
            "stream.checkpoint": f"{lake}/checkpoint",
            "stream.quarantine": f"{lake}/quarantine",
            "stream.trigger": "availableNow",
            "stream.metrics-port": str(a_free_port()),
            "stream.web-port": str(a_free_port()),
            "spark.spark.driver.extraJavaOptions": fast_jvm(),
        }
        flags = [word for item in settings.items() for word in ("--set", "=".join(item))]
        environ = {
            f"STREAM_APP_FILE_SYSTEM__{key.replace('.', '__').replace('-', '_').upper()}": value
            for key, value in s3.options.items()
        }
        job = IngestProcess(DOCKER / "shop.toml", tmp_path, tuple(flags), environ=environ)
        job.start()
        assert job.finish() == 0, job.log()
        for name in ("customers", "orders"):
            table = open_table(f"{lake}/warehouse/shop.db/{name}", file_io_options=s3.options)
            rows = table.read().read_all()
            [(count,)] = shop.query(f"select count(*) from {name}")
            assert rows.num_rows == count > 15
            if name == "orders":
                orders = [(row["id"], row["status"], row["total"]) for row in rows.to_pylist()]
                assert sorted(orders) == shop.query(
                    "select id, status, total from orders order by id"
                )
