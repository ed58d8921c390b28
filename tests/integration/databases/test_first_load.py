"""A job reads tables of a real PostgreSQL and a real MariaDB first, then Debezium's topic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.load.row_queries import LoadedRelation
from stream_app.app.source.captured_tables import followed_database
from stream_app.app.source.jdbc_connection import open_connection
from stream_app.checkpoint.load_plan import LOAD_PLAN_FILE, LoadPart
from stream_app.errors import SourceError, WrongSourceError
from stream_app.model.schema.data_type import STRING, DataType, TypeRoot
from stream_app.network.jdbc import POSTGRESQL, JdbcUrl, parse_jdbc_url
from stream_app.spark.jobs.database_row_reader import DatabaseRowReader
from tests.support.databases.going_on import going_on
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.testbed.servers.mariadb import PASSWORD
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed
from tests.testbed.value_kinds import KINDS, Kind

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ROWS = 200
PART_ROWS = 30
NO_DATA = {"snapshot.mode": "no_data"}
WITH_LENGTHS = {**NO_DATA, "column.propagate.source.type": ".*"}


def kinds_of(database: SourceDatabase) -> dict[str, Kind]:
    left_out = ("bits", "address", "numbers")
    return {f"c{index}": KINDS[name] for index, name in enumerate(KINDS) if name not in left_out}


def sql_type(database: SourceDatabase, kind: Kind) -> str:
    return kind.postgres if "pg" in database.name else kind.mariadb


def lake_type(database: SourceDatabase, kind: Kind) -> str:
    is_postgres = "pg" in database.name
    return kind.from_postgres if is_postgres else kind.from_mariadb or kind.from_postgres


def parameters(database: SourceDatabase, kinds: dict[str, Kind], random: Random) -> list[Any]:
    values = [None if random.random() < 0.2 else kind.make(random) for kind in kinds.values()]
    if "pg" not in database.name:
        return values
    return [
        None if value is None else kind.for_postgres(value)
        for kind, value in zip(kinds.values(), values, strict=True)
    ]


def fill(database: SourceDatabase, kinds: dict[str, Kind], random: Random) -> None:
    columns = ", ".join(f"{name} {sql_type(database, kind)}" for name, kind in kinds.items())
    database.execute(f"create table t (a varchar(20), k bigint, {columns}, primary key (a, k))")
    if "pg" in database.name:
        # A row that gets another key needs its old values.
        database.execute("alter table t replica identity full")
    for k in range(ROWS):
        write(database, kinds, random, k)


def write(database: SourceDatabase, kinds: dict[str, Kind], random: Random, k: int) -> None:
    marks = ", ".join(["%s"] * (len(kinds) + 2))
    values = [f"it's {k % 7}%", k - 5, *parameters(database, kinds, random)]
    database.execute(f"insert into t values ({marks})", values)


def change(
    database: SourceDatabase, kinds: dict[str, Kind], random: Random, k: int, new: int = 0
) -> None:
    """A row is replaced, one deleted, one inserted, and one gets another key."""
    assignments = ", ".join(f"{name} = %s" for name in kinds)
    database.execute(
        f"update t set {assignments} where k = {k}", parameters(database, kinds, random)
    )
    database.execute(f"delete from t where k = {k + 1}")
    database.execute(f"update t set a = 'zzz' where k = {k + 2}")
    write(database, kinds, random, 1000 + (new or k))


def changing(
    database: SourceDatabase, kinds: dict[str, Kind], random: Random
) -> AbstractContextManager[None]:
    """Change random rows until the block ends."""
    return going_on(
        lambda new: change(database, kinds, random, random.randrange(ROWS), ROWS + new), 0.02
    )


def conf_of(
    folder: Path, testbed: Testbed, database: SourceDatabase, url: str, **more: Any
) -> Path:
    schema = "shop" if "pg" in database.name else database.name
    columns = {name: lake_type(database, kind) for name, kind in kinds_of(database).items()}
    texts = ", ".join(f"{name} {text}" for name, text in columns.items())
    return write_conf(
        folder / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topics": [f"{database.name}.{schema}.t"],
            "snapshot-from": url,
            "snapshot-table": f"{schema}.t",
            "snapshot-rows": PART_ROWS,
            "snapshot-password": PASSWORD,
            **more,
        },
        table={
            "warehouse": str(folder / "warehouse"),
            "database": "ods",
            "name": "t",
            "columns": f"a VARCHAR(20), k BIGINT, {texts}",
            "primary-keys": ["a", "k"],
            "options.bucket": "2",
            "options.changelog-producer": "input",
        },
        stream={"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )


def is_equal_to_source(folder: Path, database: SourceDatabase, url: str, table: str = "t") -> bool:
    schema = "shop" if "pg" in database.name else database.name
    place = str(folder / "warehouse" / "ods.db" / table)
    url = url.replace(f"{MARIADB_USER}@", f"{MARIADB_USER}:{PASSWORD}@")
    words = ["check", place, "--source", url, "--source-table", f"{schema}.{table}", "--wait", "0s"]
    return main(words) in (0, 3)  # 3: some columns cannot be compared


@contextmanager
def whole_database(testbed: Testbed, name: str) -> Iterator[tuple[SourceDatabase, str]]:
    """A database of PostgreSQL or MariaDB, and its URL."""
    is_postgres = "pg" in name
    database_kind = testbed.postgres_database if is_postgres else testbed.mariadb_database
    with database_kind(name) as database:
        place = f"127.0.0.1:{testbed.mariadb.port}/{name}"
        of_mariadb = f"jdbc:mariadb://{MARIADB_USER}@{place}"
        yield database, postgres_url(testbed, name) if is_postgres else of_mariadb


def conf_of_database(folder: Path, testbed: Testbed, database: SourceDatabase, url: str) -> Path:
    return write_conf(
        folder / "job.toml",
        source={
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": rf"{database.name}\..*",
            "snapshot-from": url,
            "snapshot-rows": PART_ROWS,
            "snapshot-password": PASSWORD,
        },
        sync={"warehouse": str(folder / "warehouse"), "database": "ods"},
        stream={"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
        **{"sync.options": {"bucket": "2", "changelog-producer": "input"}},
    )


def schemas_of(folder: Path) -> list[dict[str, str]]:
    """The types of the columns in each version of a table's schema."""
    documents = [json.loads(file.read_bytes()) for file in sorted((folder / "schema").iterdir())]
    return [
        {field["name"]: field["type"] for field in document["fields"]} for document in documents
    ]


def postgres_url(testbed: Testbed, name: str) -> str:
    return f"jdbc:postgresql://127.0.0.1:{testbed.postgres.port}/{name}?user={USER}"


def test_postgres_rows_while_they_change_and_the_job_is_killed(
    tmp_path: Path, testbed: Testbed, ingest_server: IngestServer, seed: int
) -> None:
    random = Random(seed)
    with testbed.postgres_database("load_pg") as database:
        kinds, url = kinds_of(database), postgres_url(testbed, "load_pg")
        fill(database, kinds, random)
        place = parse_jdbc_url(url, "--url")
        with (
            open_connection(place) as connection,
            pytest.raises(WrongSourceError, match="no logical replication slot"),
        ):
            followed_database(connection, place)
        database.start_connector(testbed.connect, NO_DATA)
        database.wait_until_sent(testbed.connect)
        change(database, kinds, random, 50)  # the topic exists from its first change on
        database.wait_until_sent(testbed.connect)
        conf = conf_of(tmp_path, testbed, database, url)
        job = IngestProcess(conf, tmp_path)
        with changing(database, kinds, random):
            job.start()
            job.wait_for(lambda events: any(event["event"] == "epoch" for event in events))
            job.kill()
            epochs = len(
                json.loads((tmp_path / "checkpoint" / LOAD_PLAN_FILE).read_bytes())["epochs"]
            )
            assert len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))) < epochs
            result = ingest_server.run(conf)
            assert f"first load: epoch {epochs} of {epochs}" in result.output
        database.wait_until_sent(testbed.connect)
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        assert is_equal_to_source(tmp_path, database, url)


def test_mariadb_rows_and_their_later_changes(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    seed: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    random = Random(seed)
    with testbed.mariadb_database("load_my") as database:
        kinds = kinds_of(database)
        fill(database, kinds, random)
        database.execute("alter table t add column extra int invisible default 7")
        database.start_connector(testbed.connect, NO_DATA)
        database.wait_until_sent(testbed.connect)
        change(database, kinds, random, 50)
        database.wait_until_sent(testbed.connect)
        url = f"jdbc:mariadb://{MARIADB_USER}@127.0.0.1:{testbed.mariadb.port}/load_my"
        conf = conf_of(tmp_path, testbed, database, url)
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        assert main(["status", "--conf", str(conf)]) == 0
        assert (
            "out columns of load_my.t that the table does not have: extra"
            in capsys.readouterr().out
        )
        change(database, kinds, random, 100)
        database.wait_until_sent(testbed.connect)
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        assert "first load: epoch" not in result.output
        assert is_equal_to_source(tmp_path, database, url)


@pytest.mark.parametrize("kind", ["pg", pytest.param("my", marks=pytest.mark.variant)])
def test_a_whole_database_while_it_changes(
    tmp_path: Path,
    testbed: Testbed,
    ingest_server: IngestServer,
    seed: int,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The job loads four tables at one position; a kill ends PostgreSQL's job in the third."""
    random = Random(seed)
    with whole_database(testbed, f"loads_{kind}") as (database, url):
        kinds = kinds_of(database)
        fill(database, kinds, random)
        database.execute("create table s (k int primary key, v varchar(9) not null)")
        database.execute("create table heap (v varchar(9))")
        for table in ("s", "heap"):
            values = [f"({index}, 'x')" if table == "s" else "('x')" for index in range(ROWS)]
            database.execute(f"insert into {table} values {', '.join(values)}")
        database.execute("create table empty (k int primary key, v varchar(9))")
        database.start_connector(testbed.connect, WITH_LENGTHS)
        database.wait_until_sent(testbed.connect)
        change(database, kinds, random, 50)  # a topic exists from its first change on
        database.wait_until_sent(testbed.connect)
        conf = conf_of_database(tmp_path, testbed, database, url)
        refused_run = ingest_server.run(conf)
        assert refused_run.code == 2
        assert "ods.heap cannot be loaded from its database" in refused_run.error
        assert "without a primary key" in refused_run.error
        assert "sync.excluding-tables" in refused_run.error
        assert not (tmp_path / "warehouse" / "ods.db").exists()
        job = IngestProcess(conf, tmp_path)
        with changing(database, kinds, random):
            if kind == "pg":
                job.start("--set", "sync.excluding-tables=heap")
                job.wait_for(lambda events: any(event.get("table") == "t" for event in events))
                job.kill()
                capsys.readouterr()
                assert main(["status", "--conf", str(conf)]) == 0
                output = capsys.readouterr()
                assert re.search(r"^t +loading", output.out, re.MULTILINE)
                assert re.search(r"first load: \d+ of \d+ key ranges of 4 tables", output.err)
            result = ingest_server.run(conf, "sync.excluding-tables=heap")
            assert result.code == 0, result.output
            assert "first load: epoch" in result.output
        database.execute("insert into empty values (1, 'later')")
        database.execute("update s set v = 'later' where k = 3")
        database.wait_until_sent(testbed.connect)
        result = ingest_server.run(conf, "sync.excluding-tables=heap")
        assert result.code == 0, result.output
        for table in ("t", "s", "empty", "done"):
            folder = tmp_path / "warehouse" / "ods.db" / table
            # The topic's messages fit the table as the load has made it.
            assert len(schemas_of(folder)) == 1
        capsys.readouterr()
        # 3: the command line had left `heap` out, and MariaDB does not hash floats.
        assert main(["check", "--conf", str(conf), "--source", "--wait", "0s"]) == 3
        text = capsys.readouterr().out
        assert text.count(": equal to jdbc:") == 4, text
        assert ".heap has rows, and the job has met no message of it" in text
        assert main(["check", "--conf", str(conf)]) == 3
        assert "its first rows came from the database" in capsys.readouterr().out
        assert schemas_of(tmp_path / "warehouse" / "ods.db" / "t")[0] == {
            "a": "VARCHAR(20) NOT NULL",
            "k": "BIGINT NOT NULL",
            **{name: lake_type(database, kind) for name, kind in kinds.items()},
        }


def test_the_first_load_handles_rows_that_the_database_hides_or_writes_oddly(
    testbed: Testbed,
) -> None:
    """Policies of rows, views, another encoding, and numbers with zeros in front."""
    with testbed.postgres_database("load_odd_pg") as database:
        database.execute("create table t (k int primary key, s text)")
        database.execute("insert into t values (1, 'a'), (2, 'b')")
        database.execute("create view v as select * from t")
        url = parse_jdbc_url(postgres_url(testbed, "load_odd_pg"), "--url")
        database.execute("create role load_reader login")
        try:
            database.execute("grant usage on schema shop to load_reader")
            database.execute("grant select on t to load_reader")
            database.execute("alter table t enable row level security")
            database.execute("create policy one on t using (k = 1)")
            with pytest.raises(SourceError, match="row-level security"):
                values_of(replace(url, user="load_reader"), {"k": "integer"})
        finally:
            database.execute("drop owned by load_reader")
            database.execute("drop role load_reader")
        database.execute("create table arrays as select array[array[1], array[2]] as s")
        with pytest.raises(SourceError, match="json"):
            values_of(url, {"s": "integer[]"}, "arrays")
        database.execute("create database load_odd_latin encoding latin1 template template0")
        try:
            with testbed.postgres.connect("load_odd_latin") as latin:
                latin.execute("create schema shop")
                latin.execute("create table shop.t (s text)")
                latin.execute("insert into shop.t values (E'caf\\u00e9')")
            values = values_of(replace(url, database="load_odd_latin"), {"s": "text"})
            assert values == [{"s": "café"}]
        finally:
            database.execute("drop database load_odd_latin with (force)")
    with testbed.mariadb_database("load_odd_my") as database:
        database.execute("create table t (k int zerofill primary key, y year)")
        database.execute("insert into t values (7, 0)")
        place = f"127.0.0.1:{testbed.mariadb.port}/load_odd_my"
        url = parse_jdbc_url(f"jdbc:mariadb://{MARIADB_USER}:{PASSWORD}@{place}", "--url")
        assert values_of(url, {"k": "int(10) unsigned zerofill", "y": "year(4)"}) == [
            {"k": 7, "y": 0}
        ]


def values_of(url: JdbcUrl, kinds: dict[str, str], table: str = "t") -> list[dict[str, Any]]:
    """The rows of a table, as its messages have them."""
    relation = LoadedRelation(
        driver=url.driver,
        database=url.database,
        schema="shop" if url.driver is POSTGRESQL else url.database,
        name=table,
        source_types=kinds,
        columns={
            name: STRING if kind in ("text", "integer[]") else DataType(root=TypeRoot.INT)
            for name, kind in kinds.items()
        },
        keys=(),
    )
    rows = DatabaseRowReader(url=url, queries={str(relation): relation.row_query(0)})
    batches = rows.read([(0, LoadPart(name="t", table="t", relation=str(relation)))])
    texts = [text for batch in batches for text in batch.column("value").to_pylist()]
    return [json.loads(text)["after"] for text in texts]
