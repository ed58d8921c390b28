"""PyIceberg and DuckDB read the tables as Iceberg tables."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.inspect.overview import overview
from stream_app.app.web.table_page import table_page
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import STRING
from stream_app.planning.schema.schema_changes import AddColumn, RenameColumn, SetTableComment
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.catalog_table import VECTORS
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_hadoop_table(
    folder: Path, columns: str, keys: Sequence[str] = (), partitions: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> SmallTable:  # fmt: skip
    chosen: dict[str, Any] = {"metadata.iceberg.storage": "table-location", **(options or {})}
    return small_table(folder / "wh" / "shop.db" / "orders", columns, keys, partitions, **chosen)


def metadata_of(table: SmallTable) -> Path:
    return Path(table.path) / "metadata"


def vectors_of(table: SmallTable) -> int:
    """Rows that the index files of the latest snapshot delete."""
    snapshot = table.table.snapshots.latest()
    assert snapshot is not None
    index = table.table.manifests.read_index_manifest(snapshot.index_manifest)
    metas = [meta for entry in index for meta in entry.index_file.deletion_vectors or ()]
    return sum(meta.cardinality or 0 for meta in metas)


def assert_same(rows: pa.Table, table: SmallTable) -> None:
    assert by_content(normal_rows(rows)) == by_content(read_rows(table.table))


def test_an_append_table_is_an_iceberg_table_after_each_commit(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(tmp_path, "id INT NOT NULL, name STRING")
    table.commit(("+I", {"id": 1, "name": "a"}), ("+I", {"id": 2, "name": None}))
    assert_same(iceberg.read(metadata_of(table)), table)
    table.commit(("+I", {"id": 3, "name": "c"}))
    assert_same(iceberg.read(metadata_of(table)), table)
    assert_same(iceberg.read_by_duckdb(metadata_of(table)), table)


def test_a_hadoop_catalog_has_the_metadata_of_all_tables_below_the_warehouse(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(
        tmp_path, "id INT", options={"metadata.iceberg.storage": "hadoop-catalog"}
    )
    table.commit(("+I", {"id": 1}))
    folder = tmp_path / "wh" / "iceberg" / "shop" / "orders" / "metadata"
    assert_same(iceberg.read(folder), table)
    assert not metadata_of(table).exists()


def test_with_deletion_vectors_a_keyed_table_is_seen_at_each_commit(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(tmp_path, "id INT, v INT", ["id"], options=VECTORS)
    table.commit(*(("+I", {"id": key, "v": key * key}) for key in range(5000)))
    table.compact()
    table.commit(("+U", {"id": 3, "v": 30}), ("-D", {"id": 4, "v": 4}))
    table.compact()
    assert vectors_of(table) == 2
    assert_same(iceberg.read_by_duckdb(metadata_of(table)), table)
    assert_same(iceberg.read(metadata_of(table)), table)


def test_without_vectors_the_overview_shows_the_rows_that_readers_lack(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(tmp_path, "id INT, v INT", ["id"], options={"num-levels": "3"})

    def lack() -> str | None:
        return overview(table.table, table.table.snapshots.latest()).iceberg

    table.commit(("+I", {"id": 1, "v": 1}), ("+I", {"id": 2, "v": 2}))
    lacking = "readers lack 2 rows in 1 bucket until a compaction to level 2; they see"
    assert lack() == f"{lacking} no file yet in some"
    table.committer.compact_fully()
    assert lack() is None
    assert_same(iceberg.read(metadata_of(table)), table)
    table.commit(("+U", {"id": 1, "v": 10}))
    assert iceberg.read(metadata_of(table)).sort_by("id").to_pydict() == {"id": [1, 2], "v": [1, 2]}
    assert (lack() or "").startswith("readers lack 1 row in 1 bucket")
    page = table_page("orders", table.table, lambda: None)
    assert page.overview is not None
    assert page.overview.iceberg == lack()


def test_partitions_schema_changes_and_tags_are_iceberg_s(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    columns = "id INT NOT NULL, dt DATE NOT NULL, total DECIMAL(10, 2), at TIMESTAMP(3)"
    table = a_hadoop_table(tmp_path, columns, ["id", "dt"], ["dt"], VECTORS)
    day, time = dt.date(2024, 1, 2), dt.datetime.fromisoformat("2024-01-02T03:04:05.678")
    row = {"id": 1, "dt": day, "total": Decimal("1.25"), "at": time}
    table.commit(("+I", row), ("+I", {**row, "id": 2, "dt": dt.date(2024, 1, 3)}))
    table.compact()
    latest_snapshot = table.table.snapshots.latest()
    assert latest_snapshot is not None
    assert create_tag(table.table, new_tag(table.table, "monday", latest_snapshot.snapshot_id))
    note = AddColumn(name="note", data_type=STRING, comment="of the clerk")
    alter_table(table.table, [note, SetTableComment("what was sold")])
    altered_table = SmallTable(open_file_store_table(table.path), epoch=1)
    altered_table.commit(("+U", {**row, "note": "late"}))
    altered_table.compact()
    assert_same(iceberg.read(metadata_of(altered_table)), altered_table)
    assert_same(iceberg.read_by_duckdb(metadata_of(altered_table)), altered_table)
    rows = iceberg.read(metadata_of(altered_table), where="dt = '2024-01-03'")
    assert [row["id"] for row in normal_rows(rows)] == [2]
    description = iceberg.describe(metadata_of(altered_table))
    assert description["identifiers"] == ["dt", "id"]
    assert description["partitions"] == ["dt"]
    assert description["docs"]["note"] == "of the clerk"
    assert description["references"]["monday"] == latest_snapshot.snapshot_id
    assert description["properties"]["gc.enabled"] == "false"
    assert description["properties"]["comment"] == "what was sold"


def test_the_next_commit_publishes_the_snapshots_that_iceberg_missed(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(tmp_path, "id INT NOT NULL, name STRING")
    for number in range(3):
        table.commit(("+I", {"id": number, "name": "a"}))
        if number == 1:  # a crash between the table's commit and Iceberg's
            (metadata_of(table) / "v2.metadata.json").unlink()
            (metadata_of(table) / "version-hint.text").write_text("1")
    assert_same(iceberg.read(metadata_of(table)), table)


def test_publishing_continues_from_a_version_without_hint(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    """The writer died before the hint, or a rollback raised the numbers and the hint was lost."""
    table = a_hadoop_table(tmp_path, "id INT NOT NULL")
    table.commit(("+I", {"id": 1}))
    table.commit(("+I", {"id": 2}))
    hint = metadata_of(table) / "version-hint.text"
    shutil.copy(metadata_of(table) / "v2.metadata.json", metadata_of(table) / "v3.metadata.json")
    table.commit(("+I", {"id": 3}))
    assert hint.read_text() == "4"
    assert_same(iceberg.read(metadata_of(table)), table)
    hint.unlink()
    again = SmallTable(open_file_store_table(table.path), epoch=3)
    again.commit(("+I", {"id": 4}))
    assert hint.read_text() == "5"
    assert_same(iceberg.read(metadata_of(again)), again)


def test_an_error_of_iceberg_s_side_fails_no_commit(tmp_path: Path, iceberg: IcebergReader) -> None:
    table = a_hadoop_table(tmp_path, "id INT NOT NULL")
    metadata_of(table).write_text("a file where the folder should be")
    table.commit(("+I", {"id": 1}))
    metadata_of(table).unlink()
    table.commit(("+I", {"id": 2}))
    assert_same(iceberg.read(metadata_of(table)), table)


def test_columns_that_iceberg_cannot_hold_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="column 'at' is TIME"):
        a_hadoop_table(tmp_path, "id INT, at TIME(3)")
    with pytest.raises(UsageError, match=r"column 'at' is TIMESTAMP.*format-version = 3"):
        a_hadoop_table(tmp_path, "id INT, at TIMESTAMP(9)")
    a_hadoop_table(tmp_path, "id INT, at TIMESTAMP(9)", options=VECTORS)


def test_after_a_rollback_iceberg_s_readers_see_the_rows_that_followed_it(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_hadoop_table(tmp_path, "id INT NOT NULL")
    for number in range(3):
        table.commit(("+I", {"id": number}))
    plan = plan_rollback(table.table, table.table.snapshots.snapshot(1))
    roll_back(table.table, plan, resets_consumers=False)
    assert_same(iceberg.read(metadata_of(table)), table)
    again = SmallTable(open_file_store_table(table.path))
    again.commit(("+I", {"id": 10}))
    assert_same(iceberg.read(metadata_of(again)), again)
    assert iceberg.describe(metadata_of(again))["snapshots"] == [1, 2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [VECTORS, {}], ids=["vectors", "highest-level"])
def test_random_epochs_are_seen_as_paimon_s(
    tmp_path: Path, iceberg: IcebergReader, seed: int, options: Mapping[str, str]
) -> None:
    """Iceberg shows rows after each compaction with deletion vectors, and else after a full one."""
    rng = random.Random(seed)
    chosen = {
        "num-sorted-run.compaction-trigger": "3",
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "4",
        **options,
    }
    small = a_hadoop_table(tmp_path, "id BIGINT, v STRING, w DOUBLE", ["id"], options=chosen)
    writer = TableWriter(small.table)
    changes = RandomChanges(small.table.schema, rng, key_count=200)
    upkeep = TableMaintenance(small.table)
    for _ in range(8):
        writer.write(changes.epoch(rng.randrange(1, 120)))
        writer.commit.compact_due() if options else writer.commit.compact_fully()
        upkeep.after_commit()
        assert_same(iceberg.read(metadata_of(small)), small)
    assert_same(iceberg.read_by_duckdb(metadata_of(small)), small)
    assert by_content(read_rows(small.table)) == by_content(writer.model.rows())


def test_nested_columns_have_the_ids_of_their_parts(tmp_path: Path, iceberg: IcebergReader) -> None:
    """Readers find elements, keys, values and fields in Parquet by their ids."""
    columns = (
        "id INT, tags ARRAY<STRING>, prices MAP<STRING, DECIMAL(9, 2)>, "
        "home ROW<street STRING, lines ARRAY<ROW<n INT, s STRING>>>, "
        "deep ARRAY<MAP<INT, ARRAY<INT>>>"
    )
    table = a_hadoop_table(tmp_path, columns, ["id"], options=VECTORS)
    home = {"street": "Main", "lines": [{"n": 1, "s": "a"}, {"n": 2, "s": None}]}
    row = {
        "id": 1, "tags": ["a", None], "prices": [("x", Decimal("1.25"))], "home": home,
        "deep": [[(1, [1, 2]), (2, [])]],
    }  # fmt: skip
    table.commit(("+I", row), ("+I", {"id": 2}))
    table.compact()
    alter_table(table.table, [RenameColumn("home", "address")])
    altered_table = SmallTable(open_file_store_table(table.path), epoch=1)
    altered_table.commit(
        ("+I", {**{k: v for k, v in row.items() if k != "home"}, "id": 3, "address": home})
    )
    altered_table.compact()
    assert_same(iceberg.read(metadata_of(altered_table)), altered_table)
    assert_same(iceberg.read_by_duckdb(metadata_of(altered_table)), altered_table)


def test_columns_of_each_type_are_read(tmp_path: Path, iceberg: IcebergReader, seed: int) -> None:
    columns = (
        "id INT, a BOOLEAN, b TINYINT, c SMALLINT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(4, 1), "
        "h DECIMAL(18, 3), i DECIMAL(38, 10), j CHAR(3), k VARCHAR(5), l BINARY(3), m BYTES, "
        "n DATE, o TIMESTAMP(3), p TIMESTAMP(6), q TIMESTAMP(6) WITH LOCAL TIME ZONE"
    )
    table = a_hadoop_table(tmp_path, columns, ["id"], options=VECTORS)
    changes = RandomChanges(table.table.schema, random.Random(seed), key_count=100)
    table.commit(*changes.epoch(200))
    table.compact()
    table.committer.compact_fully()
    assert_same(iceberg.read(metadata_of(table)), table)
    assert_same(iceberg.read_by_duckdb(metadata_of(table)), table)
