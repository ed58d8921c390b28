"""PyIceberg's SQL catalog finds tables whose latest version a database names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stream_app.catalog.jdbc.connection_pool import ConnectionPool
from stream_app.model.finding import FindingKind
from stream_app.model.schema.data_type import STRING
from stream_app.network.jdbc import parse_jdbc_url
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.check.table_check import TableCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.sql_pointer import open_catalog_table
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.catalog_table import (
    assert_a_late_writer_fails,
    commits_within,
    silent_port,
)
from tests.support.tables.small_table import SmallTable, small_table
from tests.testbed.servers.archives import why_no_databases
from tests.testbed.servers.mariadb import PASSWORD, MariaDb
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER, Postgres

pytestmark = pytest.mark.usefixtures("unsynced")
SERVERS = ("postgresql", "mariadb")
NEEDS_A_SERVER = pytest.mark.skipif(bool(why_no_databases()), reason=why_no_databases() or "")


@dataclass(frozen=True)
class Database:
    """A database of a catalog.

    Attributes:
        jdbc, uri: its address as Java has it, and as SQLAlchemy has it.
    """

    jdbc: str
    uri: str

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return ConnectionPool(parse_jdbc_url(self.jdbc, "uri"), 1).rows(query)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with closing(Postgres()) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with closing(MariaDb()) as server:
        yield server


@pytest.fixture(
    params=["sqlite", *(pytest.param(server, marks=NEEDS_A_SERVER) for server in SERVERS)]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(f"jdbc:sqlite:{tmp_path}/catalog.db", f"sqlite:///{tmp_path}/catalog.db")
    if request.param == "mariadb":
        return of_mariadb(request.getfixturevalue("mariadb"))
    server: Postgres = request.getfixturevalue("postgres")
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS iceberg_tables, iceberg_namespace_properties")
    place = f"127.0.0.1:{server.port}/{USER}"
    return Database(
        f"jdbc:postgresql://{place}?user={USER}", f"postgresql+psycopg://{USER}@{place}"
    )


def of_mariadb(server: MariaDb) -> Database:
    """A new database, in the character set of new installations."""
    name = f"lake_{uuid.uuid4().hex[:8]}"
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    place = f"127.0.0.1:{server.port}/{name}"
    login = f"{MARIADB_USER}:{PASSWORD}"
    return Database(
        f"jdbc:mysql://{place}?user={MARIADB_USER}&password={PASSWORD}",
        f"mysql+pymysql://{login}@{place}",
    )


def a_sql_table(folder: Path, database: Database, **options: str) -> SmallTable:
    chosen = {
        "metadata.iceberg.storage": "hadoop-catalog",
        "metadata.iceberg.sql.uri": database.jdbc,
        **{key.replace("__", "."): value for key, value in options.items()},
    }
    return small_table(folder / "wh" / "shop.db" / "orders", "id INT", (), (), **chosen)


def assert_same(iceberg: IcebergReader, database: Database, table: SmallTable) -> None:
    rows = iceberg.read_by_name("iceberg", database.uri, table.table.label)
    assert by_content(normal_rows(rows)) == by_content(read_rows(table.table))


def test_commits_columns_and_rollbacks_are_seen_by_name(
    tmp_path: Path, database: Database, iceberg: IcebergReader
) -> None:
    table = a_sql_table(tmp_path, database)
    for number in range(3):
        table.commit(("+I", {"id": number}))
        assert_same(iceberg, database, table)
    latest_snapshot = table.table.snapshots.latest()
    assert latest_snapshot is not None
    alter_table(table.table, [AddColumn(name="note", data_type=STRING)])
    altered_table = SmallTable(open_file_store_table(table.path), epoch=3)
    altered_table.commit(("+I", {"id": 4, "note": "x"}))
    assert_same(iceberg, database, altered_table)
    roll_back(
        altered_table.table,
        plan_rollback(altered_table.table, latest_snapshot),
        resets_consumers=False,
    )
    rows = iceberg.read_by_name("iceberg", database.uri, table.table.label)
    assert sorted(rows.column("id").to_pylist()) == [0, 1, 2]
    [row] = database.rows("SELECT * FROM iceberg_tables")
    assert row[:3] == ("iceberg", "shop", "orders")
    assert row[3].endswith("/v5.metadata.json")
    assert row[4].endswith("/v4.metadata.json")


@NEEDS_A_SERVER
def test_the_driver_s_environment_has_the_password(
    tmp_path: Path, mariadb: MariaDb, iceberg: IcebergReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = of_mariadb(mariadb)
    bare = Database(full.jdbc.removesuffix(f"&password={PASSWORD}"), full.uri)
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    table = a_sql_table(tmp_path, bare)
    table.commit(("+I", {"id": 1}))
    assert_same(iceberg, full, table)


def test_a_database_of_pyiceberg_is_joined(
    tmp_path: Path, database: Database, iceberg: IcebergReader
) -> None:
    """The database's tables lack nothing that ours have, and ours lack nothing that they have."""
    with pytest.raises(Exception, match="NoSuchTable"):
        iceberg.read_by_name("lake", database.uri, "shop.orders")  # it makes the tables
    table = a_sql_table(tmp_path, database, **{"metadata.iceberg.sql.catalog-name": "lake"})
    table.commit(("+I", {"id": 1}))
    rows = iceberg.read_by_name("lake", database.uri, "shop.orders")
    assert rows.to_pylist() == [{"id": 1}]


def test_another_table_of_the_name_is_left_alone(
    tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    a_sql_table(tmp_path / "theirs", database).commit(("+I", {"id": 7}))
    before = database.rows("SELECT * FROM iceberg_tables")
    a_sql_table(tmp_path, database).commit(("+I", {"id": 1}))
    assert "the Iceberg catalog has another table of this name" in caplog.text
    assert database.rows("SELECT * FROM iceberg_tables") == before


def test_a_late_writer_does_not_take_the_pointer_back(tmp_path: Path, database: Database) -> None:
    table = a_sql_table(tmp_path, database)
    assert_a_late_writer_fails(table, open_catalog_table)
    [[pointer]] = database.rows("SELECT metadata_location FROM iceberg_tables")
    assert pointer.endswith("/v2.metadata.json")


def test_a_database_that_was_away_catches_up(
    tmp_path: Path, database: Database, iceberg: IcebergReader, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_sql_table(tmp_path, database)
    table.commit(("+I", {"id": 1}))
    nowhere = {"metadata.iceberg.sql.uri": "jdbc:postgresql://127.0.0.1:9/shop"}
    away = SmallTable(table.table.with_options(nowhere), epoch=1)
    away.commit(("+I", {"id": 2}))
    assert "Iceberg's readers do not see snapshot 2" in caplog.text
    rows = iceberg.read_by_name("iceberg", database.uri, "shop.orders")
    assert rows.num_rows == 1
    back = SmallTable(open_file_store_table(table.path), epoch=2)
    back.commit(("+I", {"id": 3}))
    assert_same(iceberg, database, back)


@pytest.mark.variant
def test_a_database_that_never_answers_holds_no_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_port() as port:
        uri = f"jdbc:postgresql://127.0.0.1:{port}/shop"
        table = a_sql_table(tmp_path, Database(uri, ""))
        assert commits_within(table, seconds=90)
    assert "the catalog's database refused" in caplog.text
    assert len(read_rows(table.table)) == 1


@pytest.mark.java
def test_a_writer_of_paimon_leaves_the_pointer_to_our_next_commit(
    tmp_path: Path, database: Database, iceberg: IcebergReader, paimon_java: PaimonJava
) -> None:
    table = a_sql_table(tmp_path, database, **{"metadata.iceberg.previous-versions-max": "2"})
    table.commit(("+I", {"id": 1}))
    paimon_java.write(table.path, [("+I", {"id": 2})], identifier=1)
    assert len(read_rows(table.table)) == 2
    assert iceberg.read_by_name("iceberg", database.uri, "shop.orders").num_rows == 1
    table.commit(("+I", {"id": 3}))
    assert_same(iceberg, database, table)


def test_check_reports_how_far_the_catalog_is_behind(tmp_path: Path, database: Database) -> None:
    table = a_sql_table(tmp_path, database)
    table.commit(("+I", {"id": 1}))
    opened_table = open_file_store_table(table.path)
    assert iceberg_findings(opened_table) == []
    nowhere = {"metadata.iceberg.sql.uri": "jdbc:postgresql://127.0.0.1:9/shop"}
    away = table.table.with_options(nowhere)
    SmallTable(away, epoch=1).commit(("+I", {"id": 2}))
    assert iceberg_findings(opened_table) == [
        "the Iceberg catalog has snapshot 1, and the table has snapshot 2"
    ]
    [silent] = iceberg_findings(away)
    assert silent.startswith(
        "the snapshot that Iceberg's readers see was not checked: the catalog's database"
    )
    SmallTable(opened_table, epoch=2).commit(("+I", {"id": 3}))
    assert iceberg_findings(opened_table) == []


def iceberg_findings(table: FileStoreTable) -> list[str]:
    """Return the findings of a check about Iceberg."""
    findings = TableCheck(table, is_quick=True, progress=lambda *_: None).findings()
    return [finding.problem for finding in findings if finding.kind is FindingKind.ICEBERG]


def test_two_catalogs_are_refused_with_their_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"metadata__iceberg__storage": "hive-catalog"}
    table = a_sql_table(tmp_path, Database(f"jdbc:sqlite:{tmp_path}/c.db", ""), **options)
    table.commit(("+I", {"id": 1}))
    assert "metadata.iceberg.sql.uri name two Iceberg catalogs" in caplog.text
