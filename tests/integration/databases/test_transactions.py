"""No database snapshot shows an incomplete transfer of money between two tables of a bank."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_app import open_database
from stream_app.app.cli.main import main
from stream_app.model.database_snapshot import DatabaseSnapshot
from stream_app.table.api.paimon_database import DatabaseAsOf
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.servers.postgres import Postgres
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NAME = "bank"
TABLES = ("checking", "saving")
ACCOUNTS, BALANCE = 20, 1000
TOTAL = len(TABLES) * ACCOUNTS * BALANCE
CLERKS, TRANSFERS = 3, 30
CONNECTOR = {
    "provide.transaction.metadata": "true",
    "topic.creation.default.partitions": "2",
    "topic.creation.groups": "transactions",
    "topic.creation.transactions.include": rf"{NAME}\.transaction",
    "topic.creation.transactions.partitions": "1",
    "topic.creation.transactions.replication.factor": "1",
}


def transfer(postgres: Postgres, random: Random, count: int) -> None:
    """Transfers of a connection of its own; each is one transaction of some rows."""
    with postgres.connect(NAME) as connection:
        for _ in range(count):
            amount, receivers = random.randint(1, 50), random.randint(1, 4)
            payer, receiver = random.sample(TABLES, 2)
            steps = [(payer, -amount * receivers), *[(receiver, amount)] * receivers]
            with connection.transaction():
                for table, change in sorted(steps):  # no order of rows that would deadlock
                    account = random.randrange(ACCOUNTS) if table == payer else 0
                    connection.execute(
                        f"update shop.{table} set balance = balance + {change} where id = {account}"
                    )


def work(postgres: Postgres, random: Random) -> None:
    """Transfers by several connections at once."""
    clerks = [
        threading.Thread(target=transfer, args=(postgres, Random(random.random()), TRANSFERS))
        for _ in range(CLERKS)
    ]
    for clerk in clerks:
        clerk.start()
    for clerk in clerks:
        clerk.join()


def balances(as_of: DatabaseAsOf, table: str) -> dict[int, int]:
    rows = as_of.read(table).read_all()
    return dict(zip(rows["id"].to_pylist(), rows["balance"].to_pylist(), strict=True))


def conf_of(folder: Path, testbed: Testbed, **sync: Any) -> Path:
    return write_conf(
        folder / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": rf"{NAME}\..*",
            "max-offsets-per-trigger": 60,
        },
        sync={
            "warehouse": str(folder / "warehouse"),
            "database": NAME,
            "excluding-tables": "done",
            **sync,
        },
        stream={"checkpoint": str(folder / "checkpoint"), "trigger": "0 seconds"},
        spark={"spark.master": "local[2]", "spark.driver.extraJavaOptions": fast_jvm()},
    )


def test_no_database_snapshot_shows_money_on_its_way(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    seed: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    random = Random(seed)
    conf = conf_of(tmp_path, testbed, transactions="whole")
    folder = tmp_path / "warehouse" / f"{NAME}.db"
    database = open_database(folder)
    with testbed.postgres_database(NAME) as bank:
        for table in TABLES:
            bank.execute(f"create table {table} (id int primary key, balance bigint not null)")
            bank.execute(
                f"insert into {table} select i, {BALANCE} from generate_series(0, {ACCOUNTS - 1}) i"
            )
        bank.start_connector(testbed.connect, CONNECTOR)
        job = IngestProcess(conf, tmp_path)
        job.start()
        work(testbed.postgres, random)
        job.wait_for(lambda _: (folder / "checking").exists() and len(database.snapshots()) >= 2)
        job.kill()
        work(testbed.postgres, random)
        bank.wait_until_sent(testbed.connect)
        expected = {table: dict(bank.query(f"select id, balance from {table}")) for table in TABLES}
    drained_run = ingest_server.run(conf, "stream.trigger=availableNow")
    assert drained_run.code == 0, drained_run.output

    snapshots = database.snapshots()
    views = [database.as_of(transaction=snapshot.transactions[0]) for snapshot in snapshots]
    sums = [[sum(balances(view, table).values()) for table in TABLES] for view in views]
    assert [sum(both) for both in sums] == [TOTAL] * len(views), sums
    assert len(views) > 5
    assert len({checking for checking, _ in sums}) > 1, "a single table is not constant"
    mixed_sums = [before[0] + after[1] for before, after in itertools.pairwise(sums)]
    assert set(mixed_sums) != {TOTAL}, "neighbouring snapshots do not fit each other"
    newest = database.as_of()
    assert {table: balances(newest, table) for table in TABLES} == expected
    is_read_by_java(paimon_java, folder, newest.snapshot, expected)
    is_read_by_commands(conf, folder, snapshots, expected, capsys)


def is_read_by_java(
    java: PaimonJava,
    folder: Path,
    snapshot: DatabaseSnapshot,
    expected: dict[str, dict[int, int]],
) -> None:
    """Paimon's catalog lists the tables alone, and reads the snapshots that the document names."""
    catalog = {"metastore": "filesystem", "warehouse": str(folder.parent)}
    assert java.list_tables(catalog) == {NAME: sorted(TABLES)}
    for table, table_at in snapshot.tables.items():
        rows = java.read(folder / table, snapshot=table_at.snapshot)
        assert {row["id"]: row["balance"] for row in rows} == expected[table]


def is_read_by_commands(
    conf: Path,
    folder: Path,
    snapshots: Sequence[DatabaseSnapshot],
    expected: dict[str, dict[int, int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    words = ["read", str(folder / "saving"), "--format", "jsonl", "--as-of-database"]
    assert main([*words, "newest"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["id"]: row["balance"] for row in rows} == expected["saving"]
    number = snapshots[0].transactions[0].partition(":")[0]
    assert main([*words, number]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(row["balance"] for row in rows) != sum(expected["saving"].values())
    assert main(["status", "--conf", str(conf)]) == 0
    output = capsys.readouterr().out
    assert f"transaction {snapshots[-1].transactions[0]} of {NAME}" in output
    assert f"latest of {len(snapshots)} database snapshots" in output
