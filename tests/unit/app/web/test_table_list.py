"""The list of tables is complete and sorted, and cheap while nothing changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.inspect.table_facts import FactsCache, freshness_s
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.web.table_list import ListChoice, state_counts
from stream_app.errors import CorruptFileError, TableNotFoundError
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.pages.web_server import Warehouse, rows, served_warehouse
from tests.support.tables.small_table import TIME_MS, SmallTable, StandingClock, small_table

TABLES = [
    TableStatus(table="shop.b", state=JobTableState.READY, fresh_s=5, lag=0, sorted_runs=9),
    TableStatus(table="shop.a", state=JobTableState.READY, changed_s=60, lag=7),
    TableStatus(
        table="crm.c",
        state=JobTableState.HELD,
        fresh_s=30,
        lag=3,
        sorted_runs=2,
        reason="no column",
    ),
    TableStatus(table="crm.d", state=JobTableState.READY),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["crm.c", "crm.d", "shop.a", "shop.b"]),
        ({"sort": "nonsense"}, ["crm.c", "crm.d", "shop.a", "shop.b"]),
        ({"sort": "stale"}, ["shop.a", "crm.c", "shop.b", "crm.d"]),
        ({"sort": "lag"}, ["shop.a", "crm.c", "shop.b", "crm.d"]),
        ({"sort": "runs"}, ["shop.b", "crm.c", "crm.d", "shop.a"]),
        ({"state": "held"}, ["crm.c"]),
        ({"q": "SHOP"}, ["shop.a", "shop.b"]),
        ({"q": "shop", "state": "held"}, []),
    ],
)
def test_tables_are_found_and_sorted(query: dict[str, str], names: list[str]) -> None:
    assert [status.table for status in ListChoice.from_query(query).select(TABLES)] == names


def test_states_are_counted_and_a_choice_is_a_link() -> None:
    assert state_counts(TABLES) == [(JobTableState.READY, 3), (JobTableState.HELD, 1)]
    assert (
        ListChoice.from_query({"q": "a&b", "sort": "lag"}).query("held")
        == "q=a%26b&state=held&sort=lag"
    )
    assert ListChoice().query("") == ""


@pytest.mark.parametrize(
    ("source_time_ms", "lag", "seconds"),
    [(None, None, None), (None, 0, 0), (4000, 0, 0), (4000, 1, 6), (4999, None, 5), (20_000, 1, 0)],
)
def test_freshness_is_what_is_unread(
    source_time_ms: int | None, lag: int | None, seconds: int | None
) -> None:
    assert freshness_s(10_000, source_time_ms, lag) == seconds


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path) as site:
        yield site


def test_the_page_filters_and_says_so(warehouse: Warehouse) -> None:
    for name in ("shop.orders", "shop.items"):
        warehouse.table(name).commit(*rows(1))
    warehouse.table("shop.empty")
    listed_names = re.findall(r'<th scope="row"><a [^>]+>([^<]+)', warehouse.get("/?q=ITEM"))
    assert listed_names == ["shop.items"]
    listed_names = re.findall(r'<th scope="row"><a [^>]+>([^<]+)', warehouse.get("/?state=empty"))
    assert listed_names == ["shop.empty"]
    words = warehouse.words("/?q=nosuch")
    assert "No table fits." in words
    assert "3 tables" in words
    assert "all 3 ready 2 empty 1" in words


HINT = ["read", "size", "size"]
"""LATEST, and whether its snapshot and the one behind are there."""


class WatchedTable:
    """A table whose reads are counted."""

    def __init__(self, orders: SmallTable) -> None:
        self.files, self.clock, self.open_count = CountingFileIO(), StandingClock(), 0
        self.path = orders.path
        self.facts = FactsCache(self.open, self.clock)

    def open(self, path: str) -> FileStoreTable:
        self.open_count += 1
        return replace(open_file_store_table(path), file_io=self.files)

    def look(self) -> tuple[int | None, list[str]]:
        """The snapshot, and what was asked of the file system."""
        self.files.operations.clear()
        facts = self.facts.facts(self.path)
        return facts.snapshot_id, [operation for operation, _ in self.files.operations]


@pytest.fixture
def orders(tmp_path: Path) -> SmallTable:
    return small_table(tmp_path / "orders", "k INT, v STRING", ("k",))


def test_a_table_without_news_is_asked_for_its_hint(orders: SmallTable) -> None:
    orders.commit(*rows(1), properties={SOURCE_TIME_PROPERTY: str(TIME_MS)})
    watched_table = WatchedTable(orders)
    assert watched_table.look()[0] == 1
    assert watched_table.look() == (1, HINT)
    assert watched_table.open_count == 1
    orders.commit(*rows(2))
    snapshot, operations = watched_table.look()
    assert (snapshot, "read" in operations) == (2, True)
    assert watched_table.look() == (2, HINT)
    assert watched_table.facts.facts(orders.path).source_time_ms == TIME_MS


def test_a_rollback_is_news(orders: SmallTable) -> None:
    for key in range(3):
        orders.commit(*rows(key))
    watched_table = WatchedTable(orders)
    assert watched_table.look()[0] == 3
    table = open_file_store_table(orders.path)
    plan = plan_rollback(table, table.snapshots.snapshot(1))
    roll_back(table, plan, resets_consumers=False)
    assert watched_table.look()[0] == 1


def test_a_table_that_is_gone_or_damaged_is_not_remembered(orders: SmallTable) -> None:
    orders.commit(*rows(1))
    watched_table = WatchedTable(orders)
    watched_table.look()
    snapshot = Path(orders.path) / "snapshot" / "snapshot-1"
    whole = snapshot.read_bytes()
    snapshot.write_text("{")
    assert watched_table.look()[0] == 1, "for a minute"
    watched_table.clock.sleep(61)
    with pytest.raises(CorruptFileError):
        watched_table.look()
    snapshot.write_bytes(whole)
    assert watched_table.look()[0] == 1, "at once"
    (Path(orders.path) / "schema" / "schema-0").unlink()
    watched_table.clock.sleep(61)
    with pytest.raises(TableNotFoundError):
        watched_table.look()
