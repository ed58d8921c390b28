"""Paimon's Java and stream_app share the tables of each kind of catalog."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_lock import CatalogLock
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.hive.hive_catalog import HiveCatalog
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.jdbc.jdbc_catalog import JdbcCatalog
from stream_app.clock import SystemClock
from stream_app.errors import CommitError, UnsupportedTableError, UsageError
from stream_app.model.schema.data_type import STRING, RowType, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    SetColumnComment,
    SetTableComment,
)
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import (
    create_or_open_in_catalog,
    open_file_store_table,
    open_in_catalog,
    require_alterable,
)
from stream_app.table.schema.alter import alter_table
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.rest_server import RestServer
from tests.support.tables.small_table import CompactHere, SmallTable
from tests.testbed.servers.hive_metastore import HiveMetastore
from tests.testbed.servers.mariadb import PASSWORD, MariaDb
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER, Postgres

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
ORDERS = Identifier("shop", "orders")
COMMITS = int(os.environ.get("STREAM_APP_TEST_COMMITS", "25"))
"""Of each engine in the test that commits at once."""


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    with closing(Postgres()) as server:
        yield f"jdbc:postgresql://127.0.0.1:{server.port}/postgres?user={USER}"


@pytest.fixture(scope="module")
def mysql_url() -> Iterator[str]:
    with closing(MariaDb()) as server:
        # Paimon's keys of four names are too long for an index of utf8mb4.
        server.connect().query("create database catalog character set latin1")
        login = f"user={MARIADB_USER}&password={PASSWORD}"
        yield f"jdbc:mysql://127.0.0.1:{server.port}/catalog?permitMysqlScheme&{login}"


@pytest.fixture(scope="module")
def metastore() -> Iterator[HiveMetastore]:
    with closing(HiveMetastore("3.1.3")) as server:  # Paimon's Java has no client of Hive 4
        yield server


@pytest.fixture(params=["sqlite", "postgresql", "mysql", "hive", "rest"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    """A catalog of its own for each test; those in databases have locks."""
    if request.param == "rest":
        server: RestServer = request.getfixturevalue("rest_server")
        return server.warehouse(tmp_path).options
    if request.param == "hive":
        metastore: HiveMetastore = request.getfixturevalue("metastore")
        metastore.drop_databases()
        return metastore.catalog_options(tmp_path / "warehouse")
    url = f"jdbc:sqlite:{tmp_path}/catalog.db"
    if request.param != "sqlite":
        url = request.getfixturevalue(f"{request.param}_url")
    return {
        "metastore": "jdbc",
        "uri": url,
        "catalog-key": tmp_path.name[-20:],
        "warehouse": str(tmp_path / "warehouse"),
        "lock.enabled": "true",
    }


@pytest.fixture
def catalog(options: Mapping[str, str]) -> Catalog:
    return open_catalog(options, SystemClock())


def orders_of(catalog: Catalog, **more: str) -> SmallTable:
    schema = new_table_schema(
        columns=parse_columns("k STRING NOT NULL, v STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "2", **more},
        time_ms=SystemClock().now_ms(),
    )
    return SmallTable(create_or_open_in_catalog(catalog, ORDERS, schema, SystemClock()))


def test_java_lists_reads_alters_and_continues_a_table(
    catalog: Catalog, options: Mapping[str, str], paimon_java: PaimonJava
) -> None:
    ours = orders_of(catalog)
    ours.commit(("+I", {"k": "a", "v": "1"}))
    java_table = NamedTable(catalog=options, database="shop", table="orders")
    default_database = {"default": list[str]()} if options["metastore"] == "hive" else {}
    assert paimon_java.list_tables(options) == {**default_database, "shop": ["orders"]}
    assert paimon_java.read(java_table) == [{"k": "a", "v": "1"}]
    paimon_java.alter(java_table, ("add", "w", "STRING"))
    paimon_java.write(java_table, [("+I", {"k": "b", "v": "2", "w": "x"})], identifier=0)
    again = SmallTable(open_in_catalog(catalog, ORDERS))
    alter_table(again.table, [AddColumn(name="n", data_type=STRING)])
    assert [column for column, _ in paimon_java.types(java_table)] == ["k", "v", "w", "n"]
    assert len(paimon_java.read(java_table)) == 2
    # Java's tables are ours too.
    paimon_java.create(
        NamedTable(catalog=options, database="lab", table="runs"), [("k", "INT NOT NULL")],
        primary_keys=["k"], options={"bucket": "1"},
    )  # fmt: skip
    assert catalog.list_databases() == [*default_database, "lab", "shop"]
    assert catalog.list_tables("lab") == ["runs"]
    runs = SmallTable(open_in_catalog(catalog, Identifier("lab", "runs")))
    runs.commit(("+I", {"k": 1}))
    java_table = NamedTable(catalog=options, database="lab", table="runs")
    assert paimon_java.read(java_table) == [{"k": 1}]


def test_comments_of_tables_and_columns_are_seen_by_java(
    catalog: Catalog, options: Mapping[str, str], paimon_java: PaimonJava
) -> None:
    columns = parse_columns("k STRING NOT NULL, v STRING")
    schema = new_table_schema(
        columns=RowType(tuple(replace(c, description=f"the {c.name}") for c in columns)),
        primary_keys=("k",), partition_keys=(), options={"bucket": "1"}, comment="the orders",
        time_ms=SystemClock().now_ms(),
    )  # fmt: skip
    table = create_or_open_in_catalog(catalog, ORDERS, schema, SystemClock())
    java_table = NamedTable(catalog=options, database="shop", table="orders")
    assert paimon_java.comments(java_table) == {"": "the orders", "k": "the k", "v": "the v"}
    alter_table(
        table,
        [
            SetTableComment("all orders"),
            SetColumnComment("v", None),
            AddColumn(name="n", data_type=STRING, comment="how many"),
        ],
    )
    assert paimon_java.comments(java_table) == {
        "": "all orders", "k": "the k", "v": None, "n": "how many",
    }  # fmt: skip
    alter_table(open_in_catalog(catalog, ORDERS), [SetTableComment(None)])
    assert paimon_java.comments(java_table)[""] is None


@pytest.mark.parametrize("options", ["sqlite", "hive", "rest"], indirect=True)
def test_new_tables_have_the_catalog_s_defaults_as_java_s_have(
    options: Mapping[str, str], paimon_java: PaimonJava
) -> None:
    options = {**options, "table-default.num-levels": "4", "table-default.bucket": "7"}
    stored_options = orders_of(open_catalog(options, SystemClock())).table.schema.options
    assert (stored_options["num-levels"], stored_options["bucket"]) == ("4", "2")
    paimon_java.create(
        NamedTable(catalog=options, database="shop", table="runs"), [("k", "INT NOT NULL")],
        primary_keys=["k"], options={"bucket": "2"},
    )  # fmt: skip
    plain = {key: value for key, value in options.items() if "table-default" not in key}
    runs = open_in_catalog(open_catalog(plain, SystemClock()), Identifier("shop", "runs"))
    assert (runs.schema.options["num-levels"], runs.schema.options["bucket"]) == ("4", "2")


def test_concurrent_commits_of_three_writers_are_neither_lost_nor_doubled(
    catalog: Catalog, options: Mapping[str, str], paimon_java: PaimonJava
) -> None:
    """We ingest, another process of ours compacts, and Java writes: no commit is lost or doubled.

    `./run.sh soak --commits 1000` is the long form.
    """
    patient = {"commit.max-retries": "1000", "commit.max-retry-wait": "200 ms"}
    ours = orders_of(catalog, **patient, **{"num-sorted-run.compaction-trigger": "3"})
    ours = SmallTable(ours.table.with_options({"write-only": "true"}))
    java_table = NamedTable(catalog=options, database="shop", table="orders")
    compacting = open_in_catalog(open_catalog(options, SystemClock()), ORDERS)
    compactor = StreamTableCommit(
        compacting, "compactor", CompactHere(compacting), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    has_ended = threading.Event()

    def write_by_java() -> None:
        for number in range(COMMITS):
            row = {"k": f"java-{number}", "v": "x"}
            paimon_java.write(
                java_table,
                [("+I", row)],
                identifier=number,
                options={"write-only": True, **patient},
            )

    def compact() -> int:
        compactions = 0
        while not has_ended.is_set():
            compactions += len(compactor.compact_fully())
        return compactions

    with ThreadPoolExecutor(2) as threads:
        java, compactions = threads.submit(write_by_java), threads.submit(compact)
        try:
            for number in range(COMMITS):
                ours.commit(("+I", {"k": f"ours-{number}", "v": "x"}))
            java.result()
        finally:
            has_ended.set()
        assert compactions.result() > 0
    keys = Counter(row["k"] for row in paimon_java.read(java_table))
    assert keys == Counter(f"{writer}-{n}" for writer in ("ours", "java") for n in range(COMMITS))
    snapshots = paimon_java.snapshots(java_table)
    assert [snapshot["id"] for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    epochs = [
        (snapshot["commitUser"], snapshot["commitIdentifier"])
        for snapshot in snapshots
        if snapshot["commitKind"] == "APPEND"
    ]
    assert len(epochs) == len(set(epochs)) == 2 * COMMITS


def lock_of(options: Mapping[str, str], **more: str) -> CatalogLock:
    catalog = open_catalog({**options, **more}, SystemClock())
    assert isinstance(catalog, JdbcCatalog | HiveCatalog)
    assert catalog.lock is not None
    return catalog.lock


def is_given(lock: CatalogLock) -> bool:
    """Return whether a writer gets the lock in its time."""
    try:
        with lock.hold(ORDERS):
            return True
    except CommitError:
        return False


@pytest.mark.parametrize("options", ["sqlite", "postgresql", "mysql", "hive"], indirect=True)
def test_a_held_lock_is_waited_for(options: Mapping[str, str]) -> None:
    impatient = lock_of(options, **{"lock-acquire-timeout": "1 s"})
    error = pytest.raises(CommitError, match="another writer has held the table's lock")
    with lock_of(options).hold(ORDERS), error, impatient.hold(ORDERS):
        pass
    assert is_given(impatient)


@pytest.mark.parametrize("options", ["sqlite", "postgresql", "mysql"], indirect=True)
def test_the_lock_of_a_dead_process_is_taken_over(options: Mapping[str, str]) -> None:
    dead = lock_of(options, **{"lock-acquire-timeout": "1 s"})
    with dead.hold(ORDERS):
        assert is_given(lock_of(options))


def test_a_path_is_not_a_way_around_the_catalog(catalog: Catalog) -> None:
    table = orders_of(catalog).table
    with pytest.raises(UnsupportedTableError, match="belongs to the catalog") as error:
        require_alterable(open_file_store_table(table.location))
    assert "debezium" not in str(error.value)  # the password
    assert require_alterable(open_in_catalog(catalog, ORDERS)).schema == table.schema


@pytest.mark.parametrize("options", ["sqlite", "hive"], indirect=True)
def test_a_folder_with_another_table_is_refused_until_it_is_registered(
    options: Mapping[str, str], catalog: Catalog, paimon_java: PaimonJava
) -> None:
    other_catalog = open_catalog({"warehouse": options["warehouse"]}, SystemClock())
    orders_of(other_catalog).commit(("+I", {"k": "a", "v": "1"}))
    with pytest.raises(UsageError, match="a table that is not in the catalog"):
        orders_of(catalog)
    java_table = NamedTable(catalog=options, database="shop", table="orders")
    paimon_java.adopt(java_table)
    assert_goes_on(catalog, java_table, paimon_java)


def assert_goes_on(catalog: Catalog, theirs: NamedTable, paimon_java: PaimonJava) -> None:
    """A job writes the table behind its first snapshot, and Java behind the job."""
    ours = SmallTable(open_in_catalog(catalog, ORDERS), epoch=1)
    ours.commit(("+I", {"k": "b", "v": "2"}))
    paimon_java.write(theirs, [("+I", {"k": "c", "v": "3"})], identifier=0)
    assert sorted(row["k"] for row in paimon_java.read(theirs)) == ["a", "b", "c"]
