"""PyIceberg finds each version of tables by name in Iceberg's own REST catalog."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from stream_app.clock import SystemClock
from stream_app.model.schema.data_type import STRING
from stream_app.planning.schema.schema_changes import AddColumn, RenameColumn, SetTableComment
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.orphan_files import plan_orphans
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.histories.iceberg_history import KINDS, IcebergHistory
from tests.support.jobs.table_writer import read_rows
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.catalog_table import (
    VECTORS,
    assert_same,
    assert_same_after_each_epoch,
    catalog_table,
    commits_within,
    rows_in,
    silent_port,
)
from tests.support.tables.small_table import SmallTable, small_table
from tests.testbed.servers.iceberg_rest import IcebergRest

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.fixture(scope="module")
def server() -> Iterator[IcebergRest]:
    rest_server = IcebergRest()
    yield rest_server
    rest_server.close()


@pytest.fixture
def catalog(server: IcebergRest) -> Catalog:
    return load_catalog("reader", type="rest", uri=server.uri)


def a_rest_table(
    folder: Path, uri: str, columns: str, keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> SmallTable:  # fmt: skip
    chosen = {
        "metadata.iceberg.storage": "rest-catalog",
        "metadata.iceberg.rest.uri": uri,
        **(options or {}),
    }
    return catalog_table(folder, columns, keys, chosen)


def test_each_commit_of_a_table_without_a_key_is_seen(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    table = a_rest_table(tmp_path, server.uri, "id INT, name STRING")
    for number in range(3):
        table.commit(("+I", {"id": number, "name": None}), ("+I", {"id": number, "name": "b"}))
        assert_same(catalog, table)


def test_random_epochs_are_seen_in_the_catalog(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, seed: int
) -> None:
    options = {**VECTORS, "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    compared_table = a_rest_table(
        tmp_path, server.uri, "id BIGINT, v STRING, w DOUBLE", ["id"], options
    )
    assert_same_after_each_epoch(catalog, compared_table, seed)
    loaded_table = catalog.load_table(compared_table.table.label)
    assert loaded_table.properties["gc.enabled"] == "false"
    assert len(loaded_table.metadata.snapshots) <= 6  # those that Paimon keeps
    files = [name for name in Path(loaded_table.metadata_location).parent.iterdir()]
    assert sum(name.name.endswith(".metadata.json") for name in files) <= 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_history_is_seen_in_the_catalog(
    tmp_path: Path, server: IcebergRest, iceberg: IcebergReader, seed: int, kind: str
) -> None:
    """tests/soak has 500 steps."""
    history = IcebergHistory(tmp_path, iceberg, kind, random.Random(seed), server.uri)
    for _ in range(30):
        history.step()
        assert history.differences() == []


def test_columns_tags_and_rollbacks_reach_the_catalog(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    table = a_rest_table(tmp_path, server.uri, "id INT, v INT", ["id"], VECTORS)
    table.commit(("+I", {"id": 1, "v": 10}))
    table.compact()
    latest_snapshot = table.table.snapshots.latest()
    assert latest_snapshot is not None
    assert create_tag(table.table, new_tag(table.table, "monday", latest_snapshot.snapshot_id))
    alter_table(
        table.table,
        [
            AddColumn(name="note", data_type=STRING, comment="of the clerk"),
            RenameColumn("v", "value"),
            SetTableComment("what was sold"),
        ],
    )
    altered_table = SmallTable(open_file_store_table(table.path), epoch=1)
    altered_table.commit(("+I", {"id": 2, "value": 20, "note": "x"}))
    altered_table.compact()
    assert_same(catalog, altered_table)
    loaded_table = catalog.load_table(table.table.label)
    assert [(field.name, field.doc) for field in loaded_table.schema().fields] == [
        ("id", None), ("value", None), ("note", "of the clerk"),
    ]  # fmt: skip
    assert loaded_table.properties["comment"] == "what was sold"
    assert loaded_table.refs()["monday"].snapshot_id == latest_snapshot.snapshot_id
    assert loaded_table.scan(snapshot_id=latest_snapshot.snapshot_id).to_arrow().to_pylist() == [
        {"id": 1, "v": 10}
    ]

    plan = plan_rollback(altered_table.table, latest_snapshot)
    roll_back(altered_table.table, plan, resets_consumers=False)
    assert rows_in(catalog, altered_table).to_pylist() == [{"id": 1, "v": 10}]  # by its own schema
    again = SmallTable(open_file_store_table(table.path), epoch=2)
    again.commit(("+I", {"id": 3, "value": 30, "note": None}))
    again.compact()
    assert_same(catalog, again)


@pytest.mark.parametrize("version", ["2", "3"])
def test_after_a_commit_of_paimon_s_java_the_catalog_follows(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, paimon_java: PaimonJava, version: str
) -> None:
    """Java's library writes files alone, and no numbers of rows; those of version 3 never fall."""
    options = {"metadata.iceberg.format-version": version}
    table = a_rest_table(tmp_path, server.uri, "id INT", options=options)
    table.commit(("+I", {"id": 1}), ("+I", {"id": 2}))
    table.commit(("+I", {"id": 3}))
    paimon_java.write(table.path, [("+I", {"id": 4})], identifier=1)
    again = SmallTable(open_file_store_table(table.path), epoch=2)
    again.commit(("+I", {"id": 5}))
    assert_same(catalog, again)


def test_metadata_that_was_lost_comes_back_into_the_catalog(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    table = a_rest_table(tmp_path, server.uri, "id INT", options=VECTORS)
    table.commit(("+I", {"id": 1}), ("+I", {"id": 2}))
    table.commit(("+I", {"id": 3}))
    shutil.rmtree(tmp_path / "wh" / "iceberg")
    again = SmallTable(open_file_store_table(table.path), epoch=2)
    again.commit(("+I", {"id": 5}))
    assert_same(catalog, again)


def test_a_catalog_that_was_away_catches_up(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_rest_table(tmp_path, "http://127.0.0.1:9", "id INT")
    table.commit(("+I", {"id": 1}))
    assert "Iceberg's readers do not see snapshot 1" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]
    moved_table = table.table.with_options({"metadata.iceberg.rest.uri": server.uri})
    back = SmallTable(moved_table, epoch=1)
    back.commit(("+I", {"id": 2}))
    assert_same(catalog, back)


def test_a_tag_whose_snapshot_the_catalog_lacks_is_left_out_until_it_can_come(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_rest_table(tmp_path, server.uri, "id INT")
    for number in (1, 2):
        table.commit(("+I", {"id": number}))
    loaded_table = catalog.load_table(table.table.label)
    with loaded_table.maintenance.expire_snapshots() as expiry:
        expiry.by_id(1)  # another engine's upkeep
    assert create_tag(table.table, new_tag(table.table, "monday", 1))
    assert create_tag(table.table, new_tag(table.table, "tuesday", 2))
    for number in (3, 4):
        table.commit(("+I", {"id": number}))
        assert_same(catalog, table)
    assert catalog.load_table(table.table.label).refs().keys() == {"main", "tuesday"}
    assert caplog.text.count("has no tag 'monday': it has lost snapshot 1") == 1
    assert "do not see" not in caplog.text
    catalog.drop_table(table.table.label)
    table.commit(("+I", {"id": 5}))
    assert catalog.load_table(table.table.label).refs().keys() == {"main", "monday", "tuesday"}


def test_orphans_go_and_what_the_catalog_names_stays(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_rest_table(tmp_path, server.uri, "id INT")
    table.commit(("+I", {"id": 1}))
    folder = tmp_path / "wh" / "iceberg" / table.table.label.replace(".", "/") / "metadata"
    [registered_file] = folder.glob("00000-*.metadata.json")
    orphan_file = folder / f"00000-{uuid.uuid4()}.metadata.json"
    orphan_file.write_bytes(registered_file.read_bytes())
    later = SystemClock().now_ms() + 3_600_000
    assert [file.path for file in plan_orphans(table.table, later).files] == [str(orphan_file)]
    away = table.table.with_options({"metadata.iceberg.rest.uri": "http://127.0.0.1:9"})
    assert plan_orphans(away, later).files == ()
    assert "metadata files of Iceberg stay, because a catalog may name them" in caplog.text


def test_another_table_of_the_name_is_left_alone(
    tmp_path: Path, server: IcebergRest, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_rest_table(
        tmp_path, server.uri, "id INT", options={"metadata.iceberg.database": "taken"}
    )
    catalog.create_namespace_if_not_exists("taken")
    other_table = catalog.create_table("taken.orders", pa.schema([("x", pa.string())]))
    table.commit(("+I", {"id": 1}))
    assert "the Iceberg catalog has another table of this name" in caplog.text
    assert catalog.load_table("taken.orders").metadata == other_table.metadata


def test_names_in_the_catalog_are_options(
    tmp_path: Path, server: IcebergRest, catalog: Catalog
) -> None:
    options = {"metadata.iceberg.database": "lake", "metadata.iceberg.table": "orders_v1"}
    table = a_rest_table(tmp_path, server.uri, "id INT", options=options)
    table.commit(("+I", {"id": 1}))
    assert catalog.load_table("lake.orders_v1").scan().to_arrow().to_pylist() == [{"id": 1}]
    with pytest.raises(NoSuchTableError):
        catalog.load_table(table.table.label)


def test_a_catalog_without_an_address_is_an_error_with_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"metadata.iceberg.storage": "rest-catalog"}
    table = small_table(tmp_path / "wh" / "shop.db" / "orders", "id INT", [], [], **options)
    table.commit(("+I", {"id": 1}))
    assert "set metadata.iceberg.rest.uri" in caplog.text


def test_without_pyiceberg_the_log_says_how_to_install_it(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["pyiceberg"] = None
from pathlib import Path
from tests.support.tables.small_table import small_table
options = {{"metadata.iceberg.storage": "rest-catalog"}}
table = small_table(Path({str(tmp_path)!r}) / "wh" / "shop.db" / "orders", "id INT", **options)
table.commit(("+I", {{"id": 1}}))
assert table.table.snapshots.latest().snapshot_id == 1
"""
    ended_process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended_process.returncode == 0, ended_process.stderr
    assert "pip install 'stream_app[iceberg]'" in ended_process.stderr


def test_a_catalog_that_never_answers_holds_no_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_port() as port:
        uri = f"http://127.0.0.1:{port}"
        timeout = {"metadata.iceberg.rest.rest.client.socket-timeout-ms": "300"}
        table = a_rest_table(tmp_path, uri, "id INT", options=timeout)
        assert commits_within(table, seconds=60)
    assert "timed out" in caplog.text
    assert read_rows(table.table) == [{"id": 1}]
