"""``backfill --source`` writes the rows that differ from a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.opening.job_folder_access import open_folder
from stream_app.app.ops.source_comparison.database_side import summed_database
from stream_app.checkpoint.job_state import JobState, JobStateFile
from stream_app.errors import SourceError
from stream_app.model.source.origin import Origin
from stream_app.network.jdbc import parse_jdbc_url
from tests.support.brokers.kafka_broker import delete_topic, new_topic, produce
from tests.support.databases.going_on import going_on
from tests.support.jobs.ingest_process import write_conf
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import SmallTable, small_table
from tests.support.verbs.checked_topic import read_up_to
from tests.testbed.servers.mariadb import PASSWORD
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
COLUMNS = "k INT NOT NULL, day DATE, amount DECIMAL(9, 2), note STRING, at TIMESTAMP(6)"
SQL = "k int primary key, day date, amount decimal(9, 2), note varchar(40), at timestamp(6) null"
ROWS = 12


@contextmanager
def database_of(testbed: Testbed, name: str) -> Iterator[tuple[SourceDatabase, str]]:
    """A database with a table, and its URL."""
    database_kind = testbed.postgres_database if "pg" in name else testbed.mariadb_database
    with database_kind(name) as database:
        database.execute(f"create table t ({SQL})")
        rows = [
            f"({k}, '2026-01-0{1 + k % 9}', {k}.50, 'it''s % {k}', '2026-01-01 10:00:00.123456')"
            for k in range(ROWS)
        ]
        database.execute(f"insert into t values {', '.join(rows)}")
        place = f"127.0.0.1:{testbed.mariadb.port}/{name}"
        of_mariadb = f"jdbc:mariadb://{MARIADB_USER}:{PASSWORD}@{place}"
        of_postgres = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/{name}?user={USER}"
        yield database, of_postgres if "pg" in name else of_mariadb


def a_copy(folder: Path, database: SourceDatabase, topic: str) -> SmallTable:
    """A table with the rows of the database, whose job has read nothing of the topic."""
    table = small_table(
        folder / "db.db" / "t", COLUMNS, ("k",), bucket=2,
        changelog_producer="input", **{"stream-app.row-checksum": "true"},
    )  # fmt: skip
    rows = database.query("select k, day, amount, note, at from t")
    names = ("k", "day", "amount", "note", "at")
    table.commit(*(("+I", dict(zip(names, row, strict=True))) for row in rows))
    return read_up_to(table, topic, {"0": 0})


def conf_of(folder: Path, broker: EmbeddedBroker, topic: str) -> str:
    conf = write_conf(
        folder / "job.toml",
        source={"bootstrap-servers": broker.bootstrap, "topics": [topic]},
        table={
            "warehouse": str(folder), "database": "db", "name": "t",
            "columns": COLUMNS, "primary-keys": ["k"], "options.bucket": 2,
        },
        stream={"checkpoint": str(folder / "c")},
    )  # fmt: skip
    return str(conf)


def changing(database: SourceDatabase, k: int) -> AbstractContextManager[None]:
    """Change a row again and again until the block ends."""
    statement = "update t set note = 'change {}' where k = " + str(k)
    return going_on(lambda count: database.execute(statement.format(count)), 0.2)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main([*words])
    output = capsys.readouterr()
    return code, output.out + output.err


def notes(java: PaimonJava, table: SmallTable) -> Mapping[int, Any]:
    return {row["k"]: row["note"] for row in java.read(Path(table.path))}


@pytest.mark.parametrize("kind", ["pg", pytest.param("my", marks=pytest.mark.variant)])
def test_rows_that_differ_are_written_and_changing_ones_left_to_the_job(
    tmp_path: Path,
    testbed: Testbed,
    kafka_broker: EmbeddedBroker,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    topic = new_topic(kafka_broker)
    with database_of(testbed, f"mend_{kind}") as (database, url):
        table = a_copy(tmp_path, database, topic)
        before = table.table.snapshots.latest_id()
        assert before is not None
        conf = conf_of(tmp_path, kafka_broker, topic)
        schema = "shop" if kind == "pg" else f"mend_{kind}"
        words = ("--conf", conf, "--source", url, "--source-table", f"{schema}.t", "--wait", "3s")
        database.execute("update t set note = 'mended', amount = 0.01 where k = 3")
        database.execute("delete from t where k = 4")
        database.execute("insert into t (k, note) values (1000, 'new')")
        database.execute("update t set note = 'waits in the topic' where k = 5")
        message = {"op": "d", "before": {"k": 5}, "after": None}
        produce(kafka_broker, topic, [(b'{"k":5}', json.dumps(message).encode())])

        code, text = run(capsys, "backfill", "t", *words, "--keys", "k = 4", "--dry-run")
        assert (code, "would write: 0 rows added, 0 changed, 1 deleted" in text) == (0, True), text
        with changing(database, 6):
            code, text = run(capsys, "backfill", "t", *words)
        assert code == 0, text
        assert "5 keys differ" in text
        assert "left alone: 2 rows that changed, or whose message waits" in text
        assert f"wrote in snapshot {before + 1}: 1 row added, 1 changed, 1 deleted" in text
        written = notes(paimon_java, table)
        assert [written.get(k) for k in (3, 4, 1000)] == ["mended", None, "new"]
        assert [written[k] for k in (5, 6)] == ["it's % 5", "it's % 6"], "the job writes them"
        plans = paimon_java.changelog(Path(table.path), from_snapshot=before + 1)
        changes = [(kind, row["k"]) for plan in plans for kind, row in plan.changes]
        assert sorted(changes) == [("+I", 1000), ("+U", 3), ("-D", 4), ("-U", 3)]
        assert main(["check", table.path]) == 0, "the snapshot's checksum is that of the rows"

        code, text = run(capsys, "check", "t", *words)
        assert code == 1
        assert "2 rows have other values" in text
        assert "k = 5; k = 6" in text
        code, text = run(capsys, "backfill", "t", *words, "--keys", "k < 4")
        assert (code, text.splitlines()[-1]) == (0, "nothing to do")


@pytest.mark.parametrize(
    ("is_deleted", "loss"),
    [(False, "ends at 0, and was read up to 7"), (True, "was read up to offset 7 and is gone")],
)
def test_a_topic_that_was_deleted_or_recreated_is_refused(
    tmp_path: Path,
    testbed: Testbed,
    kafka_broker: EmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
    is_deleted: bool,
    loss: str,
) -> None:
    topic = new_topic(kafka_broker)
    with database_of(testbed, "mend_new_pg") as (database, url):
        table = read_up_to(a_copy(tmp_path, database, topic), topic, {"0": 7})
        before = table.table.snapshots.latest_id()
        database.execute("update t set note = 'mended' where k = 3")
        words = ("--conf", conf_of(tmp_path, kafka_broker, topic), "--source", url)
        of_table = ("--source-table", "shop.t", "--wait", "0s")
        if is_deleted:
            delete_topic(kafka_broker, topic)
        code, text = run(capsys, "backfill", "t", *words, *of_table)
        assert f"{topic}/0 {loss}" in text
        assert (code, table.table.snapshots.latest_id()) == (2, before)


def test_shards_that_the_user_may_not_read_are_not_taken_for_dropped_ones(
    testbed: Testbed,
) -> None:
    with testbed.mariadb_database("mend_hidden") as database:
        for name in ("seen", "hidden"):
            database.execute(f"create table {name} (k int primary key)")
        database.execute("grant select on mend_hidden.seen to reader@'%' identified by 'r'")
        try:
            url = f"jdbc:mariadb://{{}}@127.0.0.1:{testbed.mariadb.port}/mend_hidden"
            reader, owner = (
                parse_jdbc_url(url.format(login), "--source")
                for login in ("reader:r", f"{MARIADB_USER}:{PASSWORD}")
            )
            with summed_database(reader) as sums, pytest.raises(SourceError, match="denied"):
                sums.definitions(["seen", "hidden"])
            with summed_database(owner) as sums:
                assert [table.name for table in sums.definitions(["seen", "dropped"])] == ["seen"]
        finally:
            database.execute("drop user reader@'%'")


def test_a_database_that_may_lag_is_refused(
    tmp_path: Path,
    testbed: Testbed,
    kafka_broker: EmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(kafka_broker)
    with database_of(testbed, "mend_lag_my") as (database, url):
        a_copy(tmp_path, database, topic)
        words = ("--conf", conf_of(tmp_path, kafka_broker, topic), "--source", url)
        database.execute("set global read_only = 1")
        try:
            code, text = run(capsys, "backfill", "t", *words)
        finally:
            database.execute("set global read_only = 0")
        assert (code, "its rows may be older than the table's" in text) == (2, True), text


def test_shards_are_compared_together_and_other_databases_left_out(
    tmp_path: Path,
    testbed: Testbed,
    kafka_broker: EmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("t", "both", "theirs", "a_t"):
        small_table(tmp_path / "ods.db" / name, "k INT NOT NULL, v STRING", ("k",)).commit(
            *(("+I", {"k": k, "v": "a"}) for k in (1, 2))
        )
    conf = write_conf(
        tmp_path / "job.toml",
        source={"bootstrap-servers": kafka_broker.bootstrap, "topic-pattern": "none"},
        sync={"warehouse": str(tmp_path), "database": "ods"},
        stream={"checkpoint": str(tmp_path / "c")},
    )
    with testbed.postgres_database("shards_pg") as database:
        for k, shard in ((1, "one"), (2, "two")):
            database.execute(f"create schema {shard}")
            database.execute(f"create table {shard}.t (k int primary key, v text)")
            database.execute(f"insert into {shard}.t values ({k}, 'a')")
        folder = open_folder(str(tmp_path / "c"), {}, lambda: pytest.fail("it is local"))
        JobStateFile(folder).update(
            JobState(
                targets={
                    Origin("shards_pg", "one", "t"): "t",
                    Origin("shards_pg", "two", "t"): "t",
                    Origin("shards_pg", "one", "both"): "both",
                    Origin("elsewhere", "one", "both"): "both",
                    Origin("elsewhere", "one", "theirs"): "theirs",
                    Origin("shards_pg", "one", "a.t"): "a_t",
                }
            )
        )
        url = f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/shards_pg?user={USER}"
        words = ("check", "--conf", str(conf), "--source", url, "--wait", "0s")
        code, text = run(capsys, *words)
        assert "shards_pg one.t, two.t, at LSN 0/" in text
        assert "the table has rows of other databases too: elsewhere.one.both" in text
        assert "the name 'a.t' has a dot" in text
        assert "their rows come from another database: theirs" in text
        assert code == 3, text
        database.execute("update two.t set v = 'b'")
        code, text = run(capsys, *words)
        assert (code, "1 rows have other values" in text) == (1, True), text
