"""One job brings whole databases into a warehouse, whose tables equal the source's in the end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from tests.support.jobs.ingest_process import ROOT, write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.support.pages.page_blocks import run_page
from tests.testbed.database_proof import database_proof
from tests.testbed.testbed import Testbed, addresses
from tests.testbed.tutorial import CONF, LANGUAGES, Tutorial

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
KILLS = 1
"""`./run.sh proof` kills for as long as one likes, and `test_kill` at several moments."""
STEPS = 60


def test_every_table_equals_its_source(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    seed: int,
) -> None:
    """Twelve tables of PostgreSQL and of MariaDB have all types and ALTERs of all kinds."""
    with database_proof(tmp_path, testbed, seed, name="whole", alters=True) as proof:
        for _ in range(KILLS):
            proof.work_and_kill(STEPS)
        proof.drain(ingest_server)
        problems = proof.problems(paimon_java)
        print("\n".join(proof.story()))
    assert problems == [], "\n".join(problems)


def test_the_commands_of_the_tutorial_run(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command of the pages runs, in the page's order, and prints what the page says. The
    second page reads a topic that the first one has filled.
    """
    environ = addresses(testbed, "tutorial") | {"TOPIC": "tutorial.public.orders"}
    with testbed.postgres_database("tutorial") as database:
        database.know_connector("tutorial")
        for page in ("tutorial", "my-kafka"):
            folder = tmp_path / page
            folder.mkdir()
            monkeypatch.chdir(folder)
            tutorial = Tutorial(
                environ=environ,
                server=ingest_server,
                wait_until_sent=lambda: database.wait_until_sent(testbed.connect),
            )
            run_page(ROOT / "docs" / "start" / f"{page}.md", tutorial.run, LANGUAGES)
    assert not (tmp_path / "tutorial" / CONF).exists(), "the page tidies up"


def test_a_truncate_holds_its_table_back_alone_until_it_is_applied(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
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
        java_rows = paimon_java.read(tmp_path / "warehouse" / "ods.db" / table)
        return {row["id"]: row["v"] for row in java_rows}

    result = ingest_server.run(conf)
    assert re.search(r"ERROR a: held back .*: the source table was truncated", result.output)
    assert main(["doctor", "--conf", str(conf)]) == 0
    output = capsys.readouterr().out
    assert "warning  table       a is held back: the source table was truncated" in output
    assert "ok       table       all 3 are sound" in output
    assert rows("a") == {}
    assert rows("b") == {1: "old", 2: "new"}
    # A job that starts tries it again. This one empties the table.
    resumed_run = ingest_server.run(conf, "source.debezium.truncate=apply")
    assert "INFO a: has all epochs again" in resumed_run.output
    assert rows("a") == {2: "new"}
    assert rows("b") == {1: "old", 2: "new"}
    check_damaged_offsets_are_reported(tmp_path / "checkpoint", conf, capsys)


def check_damaged_offsets_are_reported(
    checkpoint: Path, conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage the offsets of a job's checkpoint, and check that `doctor` and `status` report it."""
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        file.write_text("v1\n{}\n{damaged")
    capsys.readouterr()
    assert main(["doctor", "--conf", str(conf)]) == 1
    assert "problem  checkpoint  its offsets cannot be read" in capsys.readouterr().out
    assert main(["status", "--conf", str(conf), "--json"]) == 1
    output = capsys.readouterr().out
    statuses = [json.loads(line) for line in output.splitlines()]
    assert all("of the checkpoint has no offsets" in status["reason"] for status in statuses)


def test_values_that_are_not_logged_come_from_the_table(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, paimon_java: PaimonJava
) -> None:
    """TOAST with REPLICA IDENTITY DEFAULT, which needs no setting: no value of it is lost."""
    long = "(select string_agg(md5(%s || i::text), '') from generate_series(1, 300) i)"
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": r"toasted\.shop\.notes",
        },
        sync={"warehouse": str(tmp_path / "warehouse"), "database": "ods"},
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
        **{"sync.options": {"bucket": "2"}},
    )
    with testbed.postgres_database("toasted") as database:
        database.execute(
            "create table notes (id int primary key, body text not null, data bytea, n int)"
        )
        for column in ("body", "data"):
            database.execute(f"alter table notes alter column {column} set storage external")
        for id_ in range(1, 9):
            insert = f"insert into notes values ({id_}, {long}, {long}::bytea, 0)"
            database.execute(insert, (f"a{id_}", f"b{id_}"))
        database.start_connector(testbed.connect, {})
        database.wait_until_sent(testbed.connect)
        first = ingest_server.run(conf)
        assert first.code == 0, first.output
        # In one epoch: values from the table, of the epoch itself, and chains of both.
        database.execute("update notes set n = n + 1")
        database.execute(f"update notes set body = {long} where id < 4", ("c",))
        database.execute("update notes set n = n + 1 where id < 6")
        database.execute("delete from notes where id = 8")
        database.execute(f"insert into notes values (9, {long}, {long}::bytea, 0)", ("d", "e"))
        database.execute("update notes set n = 7 where id = 9")
        database.wait_until_sent(testbed.connect)
        sent = database.query("select id, body, encode(data, 'hex'), n from notes")
    run = ingest_server.run(conf)
    table = tmp_path / "warehouse" / "ods.db" / "notes"
    rows = paimon_java.read(table)
    assert {(row["id"], row["body"], bytes(row["data"]).hex(), row["n"]) for row in rows} == set(
        sent
    ), run.output
