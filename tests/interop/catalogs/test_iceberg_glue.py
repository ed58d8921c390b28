"""Tables whose newest version AWS Glue names: PyIceberg finds them there. Glue is moto's."""

from __future__ import annotations

import socket
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from stream_app.filestore.iceberg.iceberg_files import IcebergFiles
from stream_app.model.schema.data_type import STRING
from stream_app.planning.schema.schema_changes import AddColumn, DropColumn
from stream_app.table.iceberg.glue_pointer import open_catalog_table
from stream_app.table.opening import open_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.normal_rows import normal_rows
from tests.support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.small_table import SmallTable, small_table
from tests.support.table_writer import by_content, read_rows

pytestmark = pytest.mark.usefixtures("unsynced")
REGION = "eu-central-1"
CLIENT = "com.amazonaws.glue.catalog.metastore.AWSCatalogMetastoreClient"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    """That of the driver."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture
def catalog(s3: S3Server) -> Catalog:
    return load_catalog(
        "reader",
        **{
            "type": "glue", "glue.endpoint": s3.endpoint, "glue.region": REGION,
            "glue.access-key-id": ACCESS_KEY, "glue.secret-access-key": SECRET_KEY,
        },
    )  # fmt: skip


def a_table(folder: Path, columns: str, *, database: str = "") -> SmallTable:
    options = {
        "metadata.iceberg.storage": "hive-catalog",
        "metadata.iceberg.database": database or f"shop_{uuid.uuid4().hex[:8]}",
    }
    made = small_table(folder / "wh" / "shop.db" / "orders", columns, (), (), **options)
    # The name of a class has capitals.
    client = {"metadata.iceberg.hive-client-class": CLIENT}
    return SmallTable(made.table.with_options(client))


def name_of(table: SmallTable) -> str:
    return f"{table.table.schema.options['metadata.iceberg.database']}.orders"


def rows_of(catalog: Catalog, table: SmallTable) -> pa.Table:
    rows: pa.Table = catalog.load_table(name_of(table)).scan().to_arrow()
    return rows


def assert_same(catalog: Catalog, table: SmallTable) -> None:
    rows = normal_rows(rows_of(catalog, table))
    assert by_content(rows) == by_content(read_rows(table.table))


def test_commits_columns_and_rollbacks_are_seen_by_name(tmp_path: Path, catalog: Catalog) -> None:
    table = a_table(tmp_path, "a INT, id INT, at TIMESTAMP_LTZ(6)")
    for number in range(3):
        table.commit(("+I", {"a": 0, "id": number, "at": None}))
        assert_same(catalog, table)
    newest = table.table.snapshots.latest()
    assert newest is not None
    alter_table(
        table.table,
        [AddColumn(name="note", data_type=STRING, comment="of the clerk"), DropColumn("a")],
    )
    client = {"metadata.iceberg.hive-client-class": CLIENT}
    altered = SmallTable(open_table(table.path).with_options(client), _epoch=3)
    altered.commit(("+I", {"id": 4, "at": None, "note": "x"}))
    assert_same(catalog, altered)
    entry = catalog.glue.get_table(DatabaseName=name_of(table).partition(".")[0], Name="orders")[
        "Table"
    ]
    columns = entry["StorageDescriptor"]["Columns"]
    assert [(one["Name"], one["Type"], one.get("Comment")) for one in columns] == [
        ("id", "int", None), ("at", "timestamp", None), ("note", "string", "of the clerk")
    ]  # fmt: skip
    assert entry["TableType"] == "EXTERNAL_TABLE"
    assert entry["Parameters"]["previous_metadata_location"].endswith("/v3.metadata.json")
    roll_back(altered.table, plan_rollback(altered.table, newest), resets_consumers=False)
    assert sorted(rows_of(catalog, altered).column("id").to_pylist()) == [0, 1, 2]


def test_another_table_of_the_name_is_left_alone(
    tmp_path: Path, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    database = f"taken_{uuid.uuid4().hex[:8]}"
    theirs = a_table(tmp_path / "theirs", "id INT", database=database)
    theirs.commit(("+I", {"id": 7}))
    a_table(tmp_path, "id INT", database=database).commit(("+I", {"id": 1}))
    assert "the Iceberg catalog has another table of this name" in caplog.text
    assert rows_of(catalog, theirs).to_pylist() == [{"id": 7}]


def test_a_late_writer_does_not_take_the_pointer_back(tmp_path: Path, catalog: Catalog) -> None:
    table = a_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 1}))
    files = IcebergFiles.of(table.table.file_io, table.path, table.table.options)
    older = files.read_version(1)
    assert older is not None
    late = open_catalog_table(table.table, files)
    table.commit(("+I", {"id": 2}))
    late.bring_up_to(older)
    assert_same(catalog, table)
    assert not late.store.move(f"{files.folder}/v1.metadata.json", late.version(older))


def test_a_glue_that_was_away_catches_up(
    tmp_path: Path, catalog: Catalog, s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 1}))
    s3.error = (400, "AccessDeniedException")
    table.commit(("+I", {"id": 2}))
    assert "Glue refused or did not answer" in caplog.text
    s3.error = None
    assert rows_of(catalog, table).to_pylist() == [{"id": 1}]
    table.commit(("+I", {"id": 3}))
    assert_same(catalog, table)


def test_without_a_region_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    table = a_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 1}))
    assert "give the driver a region (AWS_REGION)" in caplog.text


def test_a_glue_that_never_answers_holds_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", f"http://127.0.0.1:{silent.getsockname()[1]}")
        table = a_table(tmp_path, "id INT")
        committing = threading.Thread(target=table.commit, args=(("+I", {"id": 1}),), daemon=True)
        committing.start()
        committing.join(90)
        assert not committing.is_alive()
    assert "Read timeout" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]
