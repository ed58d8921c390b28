"""The next start repairs an Iceberg catalog that a killed process left a version behind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from stream_app.catalog.jdbc.connection_pool import ConnectionPool
from stream_app.clock import SystemClock
from stream_app.network.jdbc import parse_jdbc_url
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from tests.support.jobs.killed_commit import committing, kill_after
from tests.support.jobs.table_writer import read_rows
from tests.support.servers.catalog_proxy import Standstill
from tests.support.tables.small_table import CompactHere, SmallTable, small_table
from tests.testbed.servers.iceberg_rest import IcebergRest

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
REST_URI = "metadata.iceberg.rest.uri"


@pytest.fixture(scope="module")
def server() -> Iterator[IcebergRest]:
    with closing(IcebergRest()) as rest_server:
        yield rest_server


@pytest.fixture
def catalog(server: IcebergRest) -> Catalog:
    return load_catalog("reader", type="rest", uri=server.uri)


def killed_at(catalog_uri: str, path: str, epoch: int, method: str, ending: str) -> None:
    """Kill a commit in the moment in which it sends a request to a REST catalog."""
    with (
        closing(Standstill(catalog_uri, method, ending)) as between,
        committing(path, {REST_URI: between.uri}, epoch),
    ):
        assert between.is_reached.wait(60)


def an_exported_table(folder: Path, **options: str) -> SmallTable:
    database = f"shop_{uuid.uuid4().hex[:8]}"
    return small_table(folder / "wh" / f"{database}.db" / "orders", "id INT", (), (), **options)


def metadata_of(table: SmallTable) -> Path:
    return (
        Path(table.path).parents[1] / "iceberg" / table.table.label.replace(".", "/") / "metadata"
    )


def ids_of(catalog: Catalog, table: SmallTable) -> list[int]:
    rows = catalog.load_table(table.table.label).scan().to_arrow()
    return sorted(rows.column("id").to_pylist())


def rest_table(folder: Path, server: IcebergRest) -> SmallTable:
    return an_exported_table(
        folder, **{"metadata.iceberg.storage": "rest-catalog", REST_URI: server.uri}
    )


def test_killed_between_our_version_and_the_catalogs(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    table = rest_table(tmp_path, server)
    table.commit(("+I", {"id": 0}))
    killed_at(server.uri, table.path, 1, "POST", "/tables/orders")
    assert (metadata_of(table) / "v2.metadata.json").exists()
    assert ids_of(catalog, table) == [0]
    TableJob(open_file_store_table(table.path), CompactHere).open("tester")  # a start
    assert ids_of(catalog, table) == [0, 1]

    killed_at(server.uri, table.path, 2, "POST", "/tables/orders")
    assert ids_of(catalog, table) == [0, 1]
    SmallTable(open_file_store_table(table.path), epoch=3).commit(("+I", {"id": 3}))  # a commit
    assert ids_of(catalog, table) == [0, 1, 2, 3]


def test_killed_between_the_first_file_and_its_register(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    table = rest_table(tmp_path, server)
    killed_at(server.uri, table.path, 0, "POST", "/register")
    [orphan] = metadata_of(table).glob("00000-*.metadata.json")
    assert not catalog.table_exists(table.table.label)
    TableJob(open_file_store_table(table.path), CompactHere).open("tester")
    assert ids_of(catalog, table) == [0]
    assert len(list(metadata_of(table).glob("00000-*.metadata.json"))) == 2
    plan = plan_orphans(table.table, SystemClock().now_ms() + 3_600_000)
    assert [file.path for file in plan.files] == [str(orphan)]
    delete_orphans(table.table, plan)
    assert ids_of(catalog, table) == [0]


def test_killed_before_the_pointer_moves(tmp_path: Path) -> None:
    uri = "metadata.iceberg.sql.uri"
    database = ConnectionPool(parse_jdbc_url(f"jdbc:sqlite:{tmp_path}/catalog.db", uri), 1)
    options = {"metadata.iceberg.storage": "hadoop-catalog", uri: str(database.url)}
    table = an_exported_table(tmp_path, **options)
    table.commit(("+I", {"id": 0}))
    holder = database.url.driver.open(database.url.driver.load(), database.url)
    with closing(holder):
        holder.execute("BEGIN EXCLUSIVE")  # nobody else may move the pointer
        version = metadata_of(table) / "v2.metadata.json"
        kill_after(version, table.path, {}, 1)
        holder.execute("ROLLBACK")
    query = "SELECT metadata_location FROM iceberg_tables"
    [[pointer]] = database.rows(query)
    assert pointer.endswith("/v1.metadata.json")
    assert Path(pointer).exists()
    TableJob(open_file_store_table(table.path), CompactHere).open("tester")
    assert database.rows(query) == [(str(version),)]
    assert len(read_rows(table.table)) == 2
