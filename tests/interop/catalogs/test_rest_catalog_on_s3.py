"""A table on S3 in Paimon's REST catalog, which hands out logins for the table's files.

Java reads and writes it with Paimon's own file system of S3.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open_in_catalog, open_in_catalog
from tests.support.jobs.table_writer import read_rows
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_jars import paimon_s3_jars
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.rest_server import RestServer, RestWarehouse
from tests.support.servers.s3_server import ACCESS_KEY, S3Server
from tests.support.tables.small_table import SmallTable

pytestmark = [pytest.mark.java, pytest.mark.slow]
ORDERS = Identifier("shop", "orders")


@pytest.fixture(scope="module")
def paimon_rest() -> Iterator[RestServer]:
    with closing(RestServer(paimon_s3_jars())) as server:
        yield server


@pytest.fixture
def warehouse(paimon_rest: RestServer, tmp_path: Path, s3: S3Server) -> RestWarehouse:
    """A warehouse whose clients have no login for S3 but the one of each table."""
    return paimon_rest.warehouse(
        tmp_path,
        overrides={"data-token.enabled": "true"},
        location=f"s3://{s3.new_bucket()}/warehouse",
        store=s3.options,
    )


def give(warehouse: RestWarehouse, s3: S3Server, table: Identifier, access_key: str) -> None:
    """Let S3 accept the server's own key and this one, which the table's login has."""
    s3.valid_keys = frozenset({ACCESS_KEY, access_key})
    login = {**s3.options, "s3.access-key": access_key}
    warehouse.give(table.database, table.table, login)


def orders_of(warehouse: RestWarehouse) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns("id INT NOT NULL, v STRING"),
        primary_keys=("id",),
        partition_keys=(),
        options={"bucket": "1"},
        time_ms=SystemClock().now_ms(),
    )
    catalog = open_catalog(warehouse.options, SystemClock())
    return create_or_open_in_catalog(catalog, ORDERS, schema, SystemClock())


def by_id(rows: list[dict[str, Any]]) -> Mapping[int, str]:
    """id → v; a row that is there twice fails."""
    values = {row["id"]: row["v"] for row in rows}
    assert len(values) == len(rows)
    return values


def row(key: int, value: str) -> tuple[str, Mapping[str, object]]:
    return "+I", {"id": key, "v": value}


@pytest.mark.variant
def test_we_and_java_write_a_table_by_its_login_alone(
    warehouse: RestWarehouse, s3: S3Server, java_on_s3: PaimonJava
) -> None:
    give(warehouse, s3, ORDERS, "FIRSTKEY")
    ours = SmallTable(orders_of(warehouse))
    ours.commit(row(1, "a"), row(2, "b"))
    java_table = NamedTable(catalog=warehouse.options, database="shop", table="orders")
    assert by_id(java_on_s3.read(java_table)) == {1: "a", 2: "b"}
    java_on_s3.write(java_table, [row(3, "java")], identifier=0, options={"write-only": True})

    # The first login ends; a table that is open, also in a task, continues with the second.
    in_a_task = pickle.loads(pickle.dumps(ours.table))
    give(warehouse, s3, ORDERS, "SECONDKEY")
    ours.commit(row(4, "late"))
    ours.compact()
    expected = {1: "a", 2: "b", 3: "java", 4: "late"}
    assert by_id(read_rows(in_a_task)) == expected
    opened_table = open_in_catalog(open_catalog(warehouse.options, SystemClock()), ORDERS)
    assert by_id(read_rows(opened_table)) == expected
