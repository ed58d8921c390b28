"""The pages show a damaged table's errors and its readable parts, and all other tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.pages.web_server import Warehouse, rows, served_warehouse, versions

PAGE = "/tables/shop.orders"


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path) as site:
        orders = site.table("shop.orders", num_sorted_run__compaction_trigger=3)
        for key in range(4):
            orders.commit(*rows(key))
        orders.compact()
        site.table("shop.sound").commit(*rows(7))
        yield site


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def snapshot_gone(orders: Path) -> None:
    (orders / "snapshot" / "snapshot-2").unlink()


def snapshot_torn(orders: Path) -> None:
    newest(orders / "snapshot", "snapshot-*").write_text('{"version"')


def manifests_gone(orders: Path) -> None:
    for file in (orders / "manifest").glob("manifest-*"):
        file.unlink()


def manifests_torn(orders: Path) -> None:
    for file in (orders / "manifest").glob("manifest-*"):
        file.write_bytes(file.read_bytes()[:40])


def schema_gone(orders: Path) -> None:
    shutil.rmtree(orders / "schema")


def schema_torn(orders: Path) -> None:
    (orders / "schema" / "schema-0").write_text("{")


def tag_torn(orders: Path) -> None:
    (orders / "tag").mkdir()
    (orders / "tag" / "tag-x").write_text("{")


@pytest.mark.parametrize(
    ("damage", "status", "expected", "still"),
    [
        (snapshot_gone, 200, "Snapshots", "sorted runs"),
        (snapshot_torn, 200, "Not shown: snapshots", "Schemas"),
        (manifests_gone, 200, "Not shown:", "Rows over time"),
        (manifests_torn, 200, "Not shown:", "Rows over time"),
        (schema_gone, 404, "the folder has no schema", "Where:"),
        (schema_torn, 500, "schema-0", "To fix:"),
        (tag_torn, 200, "Not shown: tags cannot read a tag file", "snapshot 5, COMPACT"),
    ],
)
def test_a_damaged_part_is_reported_and_the_rest_is_shown(
    warehouse: Warehouse, damage: Callable[[Path], None], status: int, expected: str, still: str
) -> None:
    damage(warehouse.path / "shop.db" / "orders")
    words = warehouse.words(PAGE, status=status)
    assert expected in words
    assert still in words
    assert "Traceback" not in words
    assert "shop.sound ready" in warehouse.words("/")
    assert ">v7<" in warehouse.get("/tables/shop.sound/rows")


def test_a_table_that_is_dropped_and_made_again(warehouse: Warehouse) -> None:
    assert "2 tables" in warehouse.words("/")
    shutil.rmtree(warehouse.path / "shop.db" / "orders")
    assert "there is no table shop.orders" in warehouse.words(PAGE, status=404)
    assert 'data-events="/events/shop.orders"' in warehouse.get(PAGE, status=404)
    assert "1 table" in warehouse.words("/")
    warehouse.table("shop.orders").commit(*rows(1))
    assert "snapshot 1" in warehouse.words(PAGE)
    assert "shop.orders ready" in warehouse.words("/")


def test_a_table_that_is_rolled_back(warehouse: Warehouse) -> None:
    table = open_file_store_table(str(warehouse.path / "shop.db" / "orders"))
    before = table.snapshots.latest_id()
    assert f"latest: snapshot {before}," in warehouse.words(PAGE)
    plan = plan_rollback(table, table.snapshots.snapshot(2))
    roll_back(table, plan, resets_consumers=False)
    assert "latest: snapshot 2," in warehouse.words(PAGE)
    list_words = warehouse.words("/")
    assert "shop.orders ready" in list_words
    assert f"ago {before} " not in list_words
    assert "ago 2 shop.sound" in list_words


@pytest.mark.slow
def test_listeners_hear_that_a_table_is_gone_and_back(warehouse: Warehouse) -> None:
    orders = warehouse.path / "shop.db" / "orders"
    away = orders.with_name("away")
    with warehouse.response("/events/shop.orders") as answer:
        stream = versions(answer)
        first = next(stream)
        orders.rename(away)
        assert next(stream) != first
        away.rename(orders)
        assert next(stream) == first
