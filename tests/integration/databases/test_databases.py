"""Whole databases through one job: what a table of the warehouse must be in the end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.ingest_process import write_conf
from tests.support.ingest_server import IngestServer
from tests.support.paimon_java import PaimonJava
from tests.testbed.database_proof import database_proof
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
KILLS = 2
STEPS = 60


def test_every_table_equals_its_source(
    tmp_path: Path, testbed: Testbed, paimon_java: PaimonJava, seed: int
) -> None:
    """Twelve tables of PostgreSQL and of MariaDB, with ALTERs of all kinds; types and values."""
    with database_proof(tmp_path, testbed, seed, name="whole", alters=True) as proof:
        for _ in range(KILLS):
            proof.work_and_kill(STEPS)
        proof.drain()
        problems = proof.problems(paimon_java)
        print("\n".join(proof.story()))
    assert problems == [], "\n".join(problems)


def test_a_truncate_holds_its_table_back_alone(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, paimon_java: PaimonJava
) -> None:
    with testbed.postgres_database("emptied") as database:
        for table in ("a", "b"):
            database.execute(f"create table {table} (id int primary key, v text)")
            database.execute(f"insert into {table} values (1, 'old')")
        database.start_connector(testbed.connect, {})
        database.wait_until_sent(testbed.connect)
        database.execute("truncate table a")
        for table in ("a", "b"):
            database.execute(f"insert into {table} values (2, 'new')")
        database.wait_until_sent(testbed.connect)
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": r"emptied\.shop\..*",
        },
        sync={"warehouse": str(tmp_path / "warehouse"), "database": "ods"},
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )

    def rows(table: str) -> dict[int, str]:
        found = paimon_java.read(tmp_path / "warehouse" / "ods.db" / table)
        return {row["id"]: row["v"] for row in found}

    held = ingest_server.run(conf)
    assert re.search(r"ERROR a: held back .*: the source table was truncated", held.output)
    assert rows("a") == {}
    assert rows("b") == {1: "old", 2: "new"}
    # A job that starts tries it again. This one goes on with the rows that are there.
    resumed = ingest_server.run(conf, "source.debezium.truncate=ignore")
    assert "INFO a: has all epochs again" in resumed.output
    assert rows("a") == rows("b")
