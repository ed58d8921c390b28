"""Tables as Iceberg's readers see them: PyIceberg and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.iceberg_reader import IcebergReader
from tests.support.normal_rows import normal_rows
from tests.support.small_table import SmallTable, small_table
from tests.support.table_writer import by_content, read_rows

pytestmark = pytest.mark.usefixtures("unsynced")
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}


def a_table(
    folder: Path, columns: str, keys: Sequence[str] = (), partitions: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> SmallTable:  # fmt: skip
    chosen: dict[str, Any] = {"metadata.iceberg.storage": "table-location", **(options or {})}
    return small_table(folder / "wh" / "shop.db" / "orders", columns, keys, partitions, **chosen)


def metadata_of(table: SmallTable) -> Path:
    return Path(table.path) / "metadata"


def vectors_of(table: SmallTable) -> int:
    """Rows that the index files of the newest snapshot delete."""
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
    table = a_table(tmp_path, "id INT NOT NULL, name STRING")
    table.commit(("+I", {"id": 1, "name": "a"}), ("+I", {"id": 2, "name": None}))
    assert_same(iceberg.read(metadata_of(table)), table)
    table.commit(("+I", {"id": 3, "name": "c"}))
    assert_same(iceberg.read(metadata_of(table)), table)
    assert_same(iceberg.read_by_duckdb(metadata_of(table)), table)


def test_a_hadoop_catalog_has_the_metadata_of_all_tables_below_the_warehouse(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_table(tmp_path, "id INT", options={"metadata.iceberg.storage": "hadoop-catalog"})
    table.commit(("+I", {"id": 1}))
    folder = tmp_path / "wh" / "iceberg" / "shop" / "orders" / "metadata"
    assert_same(iceberg.read(folder), table)
    assert not metadata_of(table).exists()


def test_with_deletion_vectors_a_keyed_table_is_seen_at_each_commit(
    tmp_path: Path, iceberg: IcebergReader
) -> None:
    table = a_table(tmp_path, "id INT, v INT", ["id"], options=VECTORS)
    table.commit(*(("+I", {"id": key, "v": key * key}) for key in range(5000)))
    table.compact()
    table.commit(("+U", {"id": 3, "v": 30}), ("-D", {"id": 4, "v": 4}))
    table.compact()
    assert vectors_of(table) == 2
    assert_same(iceberg.read_by_duckdb(metadata_of(table)), table)
    assert_same(iceberg.read(metadata_of(table)), table)
