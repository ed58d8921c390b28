"""PyIceberg finds tables whose latest version AWS Glue names. Glue is moto's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from stream_app.model.schema.data_type import STRING
from stream_app.planning.schema.schema_changes import AddColumn, DropColumn
from stream_app.table.iceberg.glue_pointer import open_catalog_table
from stream_app.table.iceberg.metadata_pointer import name_in_catalog
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.jobs.killed_commit import kill_after
from tests.support.jobs.table_writer import read_rows
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.catalog_table import (
    assert_a_late_writer_fails,
    assert_same,
    catalog_table,
    commits_within,
    rows_in,
    silent_port,
)
from tests.support.tables.small_table import CompactHere, SmallTable

pytestmark = pytest.mark.usefixtures("unsynced")
REGION = "eu-central-1"
CLIENT = {
    "metadata.iceberg.hive-client-class": "com.amazonaws.glue.catalog.metastore."
    "AWSCatalogMetastoreClient"
}
"""The name of a class has capitals, which `catalog_table` does not keep."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, s3: S3Server) -> None:
    """Set the variables of the driver."""
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


def a_glue_table(
    folder: Path, columns: str, options: Mapping[str, str] | None = None
) -> SmallTable:
    chosen = {"metadata.iceberg.storage": "hive-catalog", **(options or {})}
    return SmallTable(catalog_table(folder, columns, (), chosen).table.with_options(CLIENT))


def test_commits_columns_and_rollbacks_are_seen_by_name(tmp_path: Path, catalog: Catalog) -> None:
    table = a_glue_table(tmp_path, "a INT, id INT, at TIMESTAMP_LTZ(6)")
    for number in range(3):
        table.commit(("+I", {"a": 0, "id": number, "at": None}))
        assert_same(catalog, table)
    latest_snapshot = table.table.snapshots.latest()
    assert latest_snapshot is not None
    alter_table(
        table.table,
        [AddColumn(name="note", data_type=STRING, comment="of the clerk"), DropColumn("a")],
    )
    altered_table = SmallTable(open_file_store_table(table.path).with_options(CLIENT), epoch=3)
    altered_table.commit(("+I", {"id": 4, "at": None, "note": "x"}))
    assert_same(catalog, altered_table)
    database, name = name_in_catalog(altered_table.table)
    entry = catalog.glue.get_table(DatabaseName=database, Name=name)["Table"]
    columns = entry["StorageDescriptor"]["Columns"]
    assert [(column["Name"], column["Type"], column.get("Comment")) for column in columns] == [
        ("id", "int", None), ("at", "timestamp", None), ("note", "string", "of the clerk")
    ]  # fmt: skip
    assert entry["TableType"] == "EXTERNAL_TABLE"
    assert entry["Parameters"]["previous_metadata_location"].endswith("/v3.metadata.json")
    roll_back(
        altered_table.table,
        plan_rollback(altered_table.table, latest_snapshot),
        resets_consumers=False,
    )
    assert sorted(rows_in(catalog, altered_table).column("id").to_pylist()) == [0, 1, 2]


def test_another_table_of_the_name_is_left_alone(
    tmp_path: Path, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    other_table = a_glue_table(tmp_path / "theirs", "id INT")
    other_table.commit(("+I", {"id": 7}))
    names = {"metadata.iceberg.database": name_in_catalog(other_table.table)[0]}
    a_glue_table(tmp_path, "id INT", names).commit(("+I", {"id": 1}))
    assert "the Iceberg catalog has another table of this name" in caplog.text
    assert rows_in(catalog, other_table).to_pylist() == [{"id": 7}]


def test_a_late_writer_does_not_take_the_pointer_back(tmp_path: Path, catalog: Catalog) -> None:
    table = a_glue_table(tmp_path, "id INT")
    assert_a_late_writer_fails(table, open_catalog_table)
    assert_same(catalog, table)


def test_a_glue_that_was_away_catches_up(
    tmp_path: Path, catalog: Catalog, s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_glue_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 1}))
    s3.error = (400, "AccessDeniedException")
    table.commit(("+I", {"id": 2}))
    assert "Glue refused or did not answer" in caplog.text
    s3.error = None
    assert rows_in(catalog, table).to_pylist() == [{"id": 1}]
    table.commit(("+I", {"id": 3}))
    assert_same(catalog, table)


def test_killed_between_our_version_and_glue_s_pointer(
    tmp_path: Path, catalog: Catalog, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = a_glue_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 0}))
    name = ".".join(name_in_catalog(table.table))
    version = Path(catalog.load_table(name).metadata_location)
    following = version.with_name("v2.metadata.json")
    with silent_port() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", f"http://127.0.0.1:{port}")
        kill_after(following, table.path, CLIENT, 1)
    assert rows_in(catalog, table).to_pylist() == [{"id": 0}]
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", s3.endpoint)
    TableJob(open_file_store_table(table.path).with_options(CLIENT), CompactHere).open(
        "tester"
    )  # a start
    assert catalog.load_table(name).metadata_location == str(following)
    assert_same(catalog, table)


def test_without_a_region_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    table = a_glue_table(tmp_path, "id INT")
    table.commit(("+I", {"id": 1}))
    assert "give the driver a region (AWS_REGION)" in caplog.text


@pytest.mark.variant
def test_a_glue_that_never_answers_holds_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_port() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", f"http://127.0.0.1:{port}")
        table = a_glue_table(tmp_path, "id INT")
        assert commits_within(table, seconds=90)
    assert "Read timeout" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]
