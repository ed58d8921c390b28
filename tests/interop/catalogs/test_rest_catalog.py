"""Our client uses the features that only a REST catalog has, against Paimon's own test server."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.rest.rest_api import RestApi
from stream_app.catalog.rest.rest_connection import connect
from stream_app.clock import SystemClock
from stream_app.errors import (
    NoAccessError,
    SchemaMismatchError,
    StorageError,
    UsageError,
)
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeType,
    ColumnPosition,
    DropColumn,
    MoveColumn,
    MoveType,
    RenameColumn,
    SchemaChange,
    SetColumnComment,
    SetOption,
    SetTableComment,
    UnsetOption,
)
from stream_app.table.opening import create_or_open_in_catalog, open_in_catalog
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.judges.named_table import NamedTable
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.servers.cut_answers import CutAnswers, cut_answers
from tests.support.servers.lossy_link import Loss
from tests.support.servers.rest_server import RestServer, RestWarehouse
from tests.support.servers.s3_server import S3Server
from tests.support.tables.small_table import SmallTable, StandingClock

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
SALES = Identifier("shop", "sales")


@pytest.fixture
def warehouse(rest_server: RestServer, tmp_path: Path) -> RestWarehouse:
    return rest_server.warehouse(tmp_path)


@pytest.fixture
def catalog(warehouse: RestWarehouse) -> Catalog:
    return open_catalog(warehouse.options, SystemClock())


@pytest.fixture
def link(warehouse: RestWarehouse) -> Iterator[CutAnswers]:
    with cut_answers(warehouse.options["uri"]) as link:
        yield link


def sales_schema(columns: str = "day STRING NOT NULL, k INT NOT NULL, v STRING") -> TableSchema:
    return new_table_schema(
        columns=parse_columns(columns),
        primary_keys=("day", "k"),
        partition_keys=("day",),
        options={"bucket": "1", "metastore.partitioned-table": "true"},
        time_ms=SystemClock().now_ms(),
    )


def sales_of(catalog: Catalog) -> SmallTable:
    return SmallTable(create_or_open_in_catalog(catalog, SALES, sales_schema(), SystemClock()))


def catalog_behind(link: CutAnswers, warehouse: RestWarehouse) -> Catalog:
    return open_catalog({**warehouse.options, "uri": link.url}, StandingClock())


def named_table(warehouse: RestWarehouse) -> NamedTable:
    return NamedTable(catalog=warehouse.options, database="shop", table="sales")


def sale(key: int, day: str = "monday") -> tuple[str, Mapping[str, object]]:
    return "+I", {"day": day, "k": key, "v": "x"}


def api_of(warehouse: RestWarehouse) -> RestApi:
    return connect(warehouse.options, SystemClock())[0]


def test_the_catalog_counts_what_partitions_have(
    catalog: Catalog, warehouse: RestWarehouse
) -> None:
    table = sales_of(catalog)
    for number in range(6):
        table.commit(sale(number), sale(number, "tuesday"))
    table.commit(sale(9))
    table.compact()
    path = ("databases", "shop", "tables", "sales", "partitions")
    counted_partitions = api_of(warehouse).get(*path).value["partitions"]
    files = [path for path in Path(table.path).rglob("data-*") if path.is_file()]
    assert {
        partition["spec"]["day"]: partition["recordCount"] for partition in counted_partitions
    } == {
        "monday": 7,
        "tuesday": 6,
    }
    assert all(
        partition["totalBuckets"] == 1 and partition["fileCount"] >= 1
        for partition in counted_partitions
    )
    newest = max(path.stat().st_mtime for path in files) * 1000
    assert all(
        abs(partition["lastFileCreationTime"] - newest) < 600_000
        for partition in counted_partitions
    )


def test_pypaimon_reads_by_the_catalog(
    catalog: Catalog, warehouse: RestWarehouse, pypaimon: PyPaimonReader
) -> None:
    sales_of(catalog).commit(sale(1), sale(2))
    rows = pypaimon.read(named_table(warehouse)).to_pylist()
    assert sorted(row["k"] for row in rows) == [1, 2]


def test_the_server_makes_each_change_of_a_schema(
    catalog: Catalog, warehouse: RestWarehouse, paimon_java: PaimonJava
) -> None:
    table = sales_of(catalog).table
    changes: list[SchemaChange] = [
        AddColumn(name="n", data_type=parse_columns("n INT").types[0], comment="how many"),
        ChangeType("n", parse_columns("n BIGINT").types[0]),
        RenameColumn("v", "value"),
        MoveColumn("n", ColumnPosition(MoveType.FIRST)),
        SetColumnComment("value", "of a sale"),
        SetTableComment("sales"),
        SetOption("snapshot.num-retained.min", "3"),
    ]
    altered_schema = alter_table(table, changes)
    assert altered_schema == open_in_catalog(catalog, SALES).schema
    assert altered_schema.schema_id == 1
    assert [(column.name, column.description) for column in altered_schema.fields] == [
        ("n", "how many"), ("day", None), ("k", None), ("value", "of a sale"),
    ]  # fmt: skip
    assert (altered_schema.comment, altered_schema.options["snapshot.num-retained.min"]) == (
        "sales",
        "3",
    )
    alter_table(table, [DropColumn("n"), UnsetOption("snapshot.num-retained.min")])
    assert [name for name, _ in paimon_java.types(named_table(warehouse))] == ["day", "k", "value"]


def test_a_rollback_goes_through_the_catalog(
    catalog: Catalog, warehouse: RestWarehouse, paimon_java: PaimonJava
) -> None:
    table = sales_of(catalog)
    for number in range(3):
        table.commit(sale(number))
    opened_table = open_in_catalog(catalog, SALES)
    plan = plan_rollback(opened_table, opened_table.snapshots.snapshot(1))
    roll_back(opened_table, plan, resets_consumers=False)
    assert opened_table.snapshots.latest_id() == 1
    assert [row["k"] for row in paimon_java.read(named_table(warehouse))] == [0]
    paimon_java.write(named_table(warehouse), [sale(7)], identifier=0)
    assert [snapshot["id"] for snapshot in paimon_java.snapshots(named_table(warehouse))] == [1, 2]


@pytest.mark.parametrize("loss", [Loss.ANSWER, None], ids=["cut", "busy"])
def test_a_commit_whose_answer_is_lost_is_made_once(
    link: CutAnswers, warehouse: RestWarehouse, paimon_java: PaimonJava, loss: Loss | None
) -> None:
    table = sales_of(catalog_behind(link, warehouse))
    link.strike("/commit", loss)
    table.commit(sale(1))
    table.commit(sale(2))
    assert link.struck == 1
    assert [snapshot["id"] for snapshot in paimon_java.snapshots(named_table(warehouse))] == [1, 2]
    assert sorted(row["k"] for row in paimon_java.read(named_table(warehouse))) == [1, 2]


def test_a_commit_that_never_arrives_is_an_error(
    link: CutAnswers, warehouse: RestWarehouse, paimon_java: PaimonJava
) -> None:
    table = sales_of(catalog_behind(link, warehouse))
    link.strike("/commit", Loss.REQUEST)
    with pytest.raises(StorageError, match="the catalog does not answer"):
        table.commit(sale(1))
    assert paimon_java.read(named_table(warehouse)) == []


def test_a_question_whose_answer_is_lost_is_asked_again(
    link: CutAnswers, warehouse: RestWarehouse
) -> None:
    table = sales_of(catalog_behind(link, warehouse)).table
    link.strike("/snapshot", Loss.ANSWER)
    assert table.snapshots.latest_id() is None
    assert link.struck == 1


def test_a_change_whose_answer_is_lost_is_found_when_it_is_asked_for_again(
    link: CutAnswers, warehouse: RestWarehouse
) -> None:
    table = sales_of(catalog_behind(link, warehouse)).table
    link.strike("/sales", Loss.ANSWER)
    with pytest.raises(StorageError, match="the catalog does not answer"):
        alter_table(table, [SetTableComment("sales")])
    assert alter_table(table, [SetTableComment("sales")]).schema_id == 1


def test_a_table_goes_to_a_task_and_a_branch_has_no_name(catalog: Catalog) -> None:
    table = sales_of(catalog)
    table.commit(sale(1))
    in_a_task = pickle.loads(pickle.dumps(table.table))
    assert in_a_task.snapshots.latest_id() == 1
    assert catalog.table(Identifier("shop", "sales$branch_b")) is None


def test_a_table_with_another_schema_is_refused(catalog: Catalog) -> None:
    sales_of(catalog)
    other_schema = sales_schema("day STRING NOT NULL, k INT NOT NULL, w STRING")
    with pytest.raises(SchemaMismatchError, match="the table has no column 'w'"):
        create_or_open_in_catalog(catalog, SALES, other_schema, SystemClock())


def test_the_server_refuses_the_token_or_the_table(
    catalog: Catalog, warehouse: RestWarehouse
) -> None:
    with pytest.raises(NoAccessError, match="refuses the login"):
        open_catalog({**warehouse.options, "token": "another"}, SystemClock())
    table = sales_of(catalog)
    warehouse.forbid("shop", "sales")
    with pytest.raises(NoAccessError, match="does not permit"):
        table.commit(sale(1))
    with pytest.raises(NoAccessError, match="does not permit"):
        open_in_catalog(catalog, SALES)


def test_a_warehouse_that_the_server_does_not_know(warehouse: RestWarehouse) -> None:
    with pytest.raises(UsageError, match="has no warehouse 'another'"):
        open_catalog({**warehouse.options, "warehouse": "another"}, SystemClock())


def test_a_server_that_is_not_there(warehouse: RestWarehouse) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    uri = f"http://127.0.0.1:{port}"
    with pytest.raises(StorageError, match="does not answer") as error:
        open_catalog({**warehouse.options, "uri": uri}, SystemClock())
    assert warehouse.options["token"] not in str(error.value)


def test_a_table_s_own_login_is_asked_for_again(
    rest_server: RestServer, tmp_path: Path, s3: S3Server
) -> None:
    """The test server's tables are on the local disk, so the login opens a bucket beside it."""
    warehouse = rest_server.warehouse(tmp_path, overrides={"data-token.enabled": "true"})
    catalog = open_catalog(warehouse.options, SystemClock())
    sales_of(catalog)
    bucket = s3.new_bucket()

    def give(access_key: str) -> None:
        s3.valid_keys = frozenset({access_key})
        token = {**s3.options, "s3.access-key": access_key, "other.engine": "x"}
        warehouse.give("shop", "sales", token)

    give("FIRSTKEY")
    place = catalog.table(SALES)
    assert place is not None
    assert "FIRSTKEY" not in repr(place)
    path, files = file_io_of(f"s3://{bucket}/t", place.file_io_options, place.option_source)
    files.write_bytes(f"{path}/a", b"1")
    give("SECONDKEY")
    assert files.read_bytes(f"{path}/a") == b"1"
    in_a_task = pickle.loads(pickle.dumps(files))
    give("THIRDKEY")
    assert in_a_task.read_bytes(f"{path}/a") == b"1"
    s3.valid_keys = None


def test_logins_that_stream_app_does_not_have(warehouse: RestWarehouse) -> None:
    with pytest.raises(UsageError, match=r"'token.provider' is 'dlf'"):
        open_catalog({**warehouse.options, "token.provider": "dlf"}, SystemClock())


def test_the_server_names_options_of_new_tables(rest_server: RestServer, tmp_path: Path) -> None:
    options = {"table-default.num-levels": "4", "table-default.bucket": "7"}
    warehouse = rest_server.warehouse(tmp_path, defaults=options)
    stored_options = sales_of(open_catalog(warehouse.options, SystemClock())).table.schema.options
    assert (stored_options["num-levels"], stored_options["bucket"]) == ("4", "1")
