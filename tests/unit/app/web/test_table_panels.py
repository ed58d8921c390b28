"""Each panel of a table's page agrees with the table itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.app.observe.events.epoch_history import TableActivity
from stream_app.app.web.drawings.bar_charts import SPAN_COUNT, rows_chart
from stream_app.app.web.pages import page
from stream_app.app.web.site import WarehouseSite
from stream_app.app.web.table_page import MatchingRows, read_matching_rows, table_page
from stream_app.app.web.table_parts import READ_RECORDS_MAX, quarantined_kinds
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.schema.data_type import parse_data_type
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY, CommitKind
from stream_app.planning.schema.schema_changes import AddColumn, SetOption
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.quarantine.quarantine_folder import open_quarantine
from stream_app.table.compact.compaction_metrics import CompactionMetrics, UnfinishedCompaction
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.pages.web_server import Warehouse, rows, served_warehouse
from tests.support.tables.small_table import TIME_MS, SmallTable, StandingClock, small_table

CLOCK = StandingClock(TIME_MS + 3_600_000)
PAGE = "/tables/shop.orders"


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path, clock=CLOCK) as site:
        yield site


def test_freshness_is_by_the_time_of_messages(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", num_sorted_run__compaction_trigger=2)
    orders.commit(*rows(1))
    assert "behind the source unknown" in warehouse.words(PAGE)
    source_time_ms = CLOCK.now_ms() - 95_000
    orders.commit(*rows(2), properties={SOURCE_TIME_PROPERTY: str(source_time_ms)})
    orders.compact()
    assert "behind the source 1 min 35 s" in warehouse.words(PAGE)
    assert "shop.orders ready 1 min 35 s" in warehouse.words("/"), "a compaction tells no time"


def test_what_expires_next_is_what_the_expiry_would_delete(warehouse: Warehouse) -> None:
    orders = warehouse.table(
        "shop.orders", snapshot__num_retained__min=2, snapshot__num_retained__max=3,
        write_only="true",
    )  # fmt: skip
    for key in range(6):
        orders.commit(*rows(key))
    table = open_file_store_table(orders.path, CLOCK)
    plan = ExpireSnapshots(table).plan(expire_config(table.options))
    assert plan.snapshot_ids == (1, 2, 3)
    words = warehouse.words(PAGE)
    assert f"The next expiry deletes snapshots 1 to 3, with {plan.files.count} files" in words
    assert warehouse.get(PAGE).count('<g class="going">') == 3
    ExpireSnapshots(table).execute(plan)
    after = ExpireSnapshots(table).plan(expire_config(table.options))
    words = warehouse.words(PAGE)
    assert f"Nothing expires now. What keeps the snapshots: {after.kept_by}." in words


def test_one_snapshot_is_a_sentence_and_no_drawing(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders")
    orders.commit(*rows(*range(500)))
    assert 'class="chart ' not in warehouse.get(PAGE)
    words = warehouse.words(PAGE)
    assert "Latest snapshots snapshot 1, APPEND at 2026-01-01 00:00:03; +500 records" in words
    orders.commit(*rows(1))
    assert warehouse.get(PAGE).count('class="chart ') == 2


def test_few_snapshots_are_no_wall(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", write_only="true")
    for key in range(3):
        orders.commit(*rows(key))
    widths = re.findall(
        r'<rect class="(?:append|rows)"[^>]* width="([\d.]+)%"', warehouse.get(PAGE)
    )
    assert len(widths) == 6
    assert all(float(width) < 3 for width in widths)


def test_tags_are_named_below_the_snapshots(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders")
    orders.commit(*rows(1))
    create_tag(orders.table, new_tag(orders.table, "before", 1))
    assert "snapshot 1: tag before" in warehouse.words(PAGE)


def test_each_schema_says_what_it_changed(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders")
    orders.commit(*rows(1))
    assert "Schema versions" not in warehouse.words(PAGE)
    alter_table(orders.table, [AddColumn(name="n", data_type=parse_data_type("INT"))])
    alter_table(open_file_store_table(orders.path), [SetOption("num-levels", "4")])
    words = warehouse.words(PAGE)
    assert re.search(
        r"schema 2 [\d: -]+ option 'num-levels' was none and is '4' "
        r"schema 1 [\d: -]+ column 'n' INT is added "
        r"schema 0 [\d: -]+ the first one",
        words,
    )


def test_amplifications_are_those_of_the_files(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", num_sorted_run__compaction_trigger=3)
    for key in range(3):
        orders.commit(*rows(key))
    orders.compact()
    orders.commit(*rows(9))
    folder = Path(orders.path) / "bucket-0"
    sizes = sorted(file.stat().st_size for file in folder.glob("data-*"))
    flush_sizes, [merged_size] = sizes[:-1], sizes[-1:]
    last = sizes[0]
    words = warehouse.words(PAGE)
    assert (
        f"write amplification {(sum(flush_sizes) + merged_size) / sum(flush_sizes):.1f} " in words
    )
    assert f"space amplification {(merged_size + last) / merged_size:.1f} " in words


def test_the_largest_files_are_listed(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", write_only="true")
    orders.commit(*rows(1))
    orders.commit(*rows(*range(500)))
    files = re.findall(r'<td class="long">(data-[^<]+)</td>', warehouse.get(PAGE))
    sizes = [(Path(orders.path) / "bucket-0" / name).stat().st_size for name in files]
    assert len(sizes) == 2
    assert sizes == sorted(sizes, reverse=True)


def unfinished_compaction(bucket: int, *, is_running: bool = True) -> UnfinishedCompaction:
    return UnfinishedCompaction(
        partition="", bucket=bucket, is_running=is_running, reason="size ratio", levels=(0, 0),
        output_level=4, file_count=2, byte_count=2048,
    )  # fmt: skip


def three_runs(folder: Path) -> SmallTable:
    orders = small_table(folder, "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=9)
    for key in range(3):
        orders.commit(*rows(key))
    return orders


def test_the_compaction_that_runs_in_a_bucket_is_drawn(tmp_path: Path) -> None:
    orders = three_runs(tmp_path / "orders")
    activity = TableActivity(
        metrics=CompactionMetrics(running_count=1),
        unfinished_compactions=(unfinished_compaction(0),),
    )
    [tree] = table_page("orders", orders.table, lambda: None, activity).trees
    assert tree.compaction == "compacting: size ratio, levels 0 0 → 4, 2 files, 2.0 KiB"
    [line] = tree.lines
    assert [box.is_compacting for box in line.boxes] == [False, True, True], "the newest came later"
    waiting = TableActivity(
        metrics=CompactionMetrics(queued_count=1),
        unfinished_compactions=(unfinished_compaction(0, is_running=False),),
    )
    [tree] = table_page("orders", orders.table, lambda: None, waiting).trees
    assert tree.compaction.startswith("waits for a thread: size ratio")
    [tree] = table_page("orders", orders.table, lambda: None).trees
    assert not tree.compaction


def test_a_large_quarantine_is_not_read_whole(tmp_path: Path) -> None:
    record = {"topic": "t", "partition": 0, "reason": "value: is bad", "key": None, "value": "a"}
    lines = [json.dumps({**record, "offset": offset}) for offset in range(READ_RECORDS_MAX)]
    (tmp_path / "epoch-2.jsonl").write_text("\n".join([*lines[1:], lines[-1]]))
    quarantine = open_quarantine(str(tmp_path), {})
    [kind] = quarantined_kinds((), lambda: quarantine)
    assert (kind.record_count, kind.is_all) == (READ_RECORDS_MAX - 1, True), "a copy counts once"
    assert [example.offset for example in kind.examples] == [9999, 9998, 9997], "the newest"
    (tmp_path / "epoch-1.jsonl").write_text(f"no record is read any more\n{lines[0]}")
    [kind] = quarantined_kinds((), lambda: quarantine)
    assert (kind.record_count, kind.is_all) == (READ_RECORDS_MAX, False)


def test_rows_over_time_leave_compactions_out(tmp_path: Path) -> None:
    orders = small_table(
        tmp_path / "orders", "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=3
    )
    for key in range(9):
        orders.commit(*rows(*range(key + 1)))
    orders.compact()
    snapshots_backwards = list(orders.table.snapshots.backwards())
    chart = rows_chart(snapshots_backwards)
    assert chart is not None
    assert CommitKind.COMPACT in {snapshot.commit_kind for snapshot in snapshots_backwards}
    assert chart.row_count == sum(range(1, 10))
    assert all(0 <= bar.x < bar.x + bar.width <= 100 for bar in chart.bars)
    assert max(bar.width for bar in chart.bars) < 100 / SPAN_COUNT
    assert len(chart.bars) <= SPAN_COUNT
    assert rows_chart(snapshots_backwards[-1:]) is None, "one snapshot is no history"


def test_a_read_of_rows_can_be_stopped_and_says_so(warehouse: Warehouse) -> None:
    small = warehouse.table("shop.orders", bucket=2)
    small.commit(*rows(*range(20)))
    orders = small.table
    turns = iter([True, True])  # the first file, and its rows
    matches = read_matching_rows(orders, None, 200, lambda: next(turns, False))
    assert 0 < len(matches.rows) < 20
    assert matches.stopped_after == len(matches.rows)
    matches = read_matching_rows(orders, "v = 'none'", 200)
    assert (matches.columns, matches.rows, matches.stopped_after) == (["k", "v"], [], None)
    site = WarehouseSite(*file_io_of(str(warehouse.path)), {}, CLOCK)
    text = page(
        "rows", site=site, live_updates=None, can_act=False, name="shop.orders", where="", limit=1,
        shown=MatchingRows(stopped_after=70_000), filter_error=None, read_s=10.0,
    )  # fmt: skip
    assert "Stopped after 10 s and 70,000 rows" in text
    assert "No row." not in text
