"""A running server answers requests for the pages of tables."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.secrets import HIDDEN, Secrets
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.text.listing import age_text
from stream_app.app.web.drawings.bar_charts import SHOWN_SNAPSHOTS_MAX, epoch_chart
from stream_app.app.web.serving import answers_to, serving_pages
from stream_app.app.web.site import WarehouseSite
from stream_app.app.web.table_page import QUERY_ROWS_MAX, changes_of, table_page
from stream_app.clock import SystemClock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.errors import OPERATOR_NEEDED
from stream_app.fileio.store_registry import file_io_of
from stream_app.quarantine.quarantine_folder import open_quarantine
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.pages.web_server import Warehouse, rows, served_warehouse, versions
from tests.support.tables.small_table import small_table

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    (tmp_path / "shop.db").mkdir()
    with served_warehouse(tmp_path) as site:
        yield site


def test_the_list_has_every_table_with_its_latest_snapshot(warehouse: Warehouse) -> None:
    warehouse.table("shop.orders").commit(*rows(1, 2))
    warehouse.table("shop.new")
    (warehouse.path / "shop.db" / "no-table").mkdir()
    words = warehouse.words("/")
    assert "2 tables" in words
    assert re.search(r"shop\.new empty – –", words)
    assert re.search(r"shop\.orders ready .* ago 1 ", words)
    assert "no-table" not in words


def test_a_table_that_cannot_be_read_comes_first_with_the_reason(warehouse: Warehouse) -> None:
    warehouse.table("shop.a").commit(*rows(1))
    warehouse.table("shop.b").commit(*rows(1))
    (warehouse.path / "shop.db" / "b" / "snapshot" / "snapshot-1").write_text("{")
    words = warehouse.words("/")
    assert "1 in trouble" in words
    assert words.index("shop.b") < words.index("shop.a")
    assert "snapshot-1" in words


def test_the_page_of_a_table_draws_the_trees_as_they_are(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", num_sorted_run__compaction_trigger=3)
    for key in range(3):
        orders.commit(*rows(key, key + 1))
    orders.compact()
    orders.commit(*rows(7))
    text = warehouse.get("/tables/shop.orders")
    runs = re.findall(r'class="level(\d)( next)?" x="([\d.]+)%" y="2" width="([\d.]+)%"', text)
    assert [level for level, *_ in runs] == ["0", "3"]
    (_, next_0, _, width_0), (_, _, _, width_3) = runs
    assert not next_0
    assert re.findall(r'class="level">(L\d)<', text) == ["L0", "L3"]
    assert float(width_0) < float(width_3)
    words = warehouse.words("/tables/shop.orders")
    assert "bucket 0 2 sorted runs" in words
    assert "nothing is due: 2 sorted runs, the trigger is 3" in words
    assert re.search(r"write amplification \d\.\d over the latest 5 snapshots", words)


def test_the_compaction_that_is_due_is_marked_in_the_tree(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", num_sorted_run__compaction_trigger=3, write_only="true")
    for key in range(4):
        orders.commit(*rows(key))
    text = warehouse.get("/tables/shop.orders")
    assert text.count('class="level0 next"') == 4
    assert "by another job: the table is write-only" in text


def test_the_history_shows_kinds_tags_and_the_latest_snapshots_only(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", write_only="true")
    for key in range(SHOWN_SNAPSHOTS_MAX + 3):
        orders.commit(*rows(key))
    create_tag(orders.table, new_tag(orders.table, "before", orders.table.snapshots.latest_id()))
    text = warehouse.get("/tables/shop.orders")
    bars = re.findall(r'<rect class="append"', text)
    assert len(bars) == SHOWN_SNAPSHOTS_MAX
    assert "snapshot 4, APPEND" in text
    assert "snapshot 3, APPEND" not in text
    assert "; tag before" in text
    assert text.count('class="mark"') == 1


def test_rows_are_found_by_a_condition_and_limited(warehouse: Warehouse) -> None:
    warehouse.table("shop.orders").commit(*rows(*range(300)))
    query = "/tables/shop.orders/rows?" + urlencode({"where": "k >= 298"})
    assert re.findall(r"<td>(v?\d+)</td>", warehouse.get(query)) == ["298", "v298", "299", "v299"]
    all_rows = warehouse.get("/tables/shop.orders/rows?limit=1000")
    assert len(re.findall(r"<tr><td>", all_rows)) == QUERY_ROWS_MAX


def test_any_number_of_rows_may_be_asked_for(warehouse: Warehouse) -> None:
    warehouse.table("shop.orders").commit(*rows(1))
    assert ">v1<" in warehouse.get("/tables/shop.orders/rows?limit=" + "9" * 5000)


def test_a_database_may_have_a_dot_in_its_name(warehouse: Warehouse) -> None:
    small_table(warehouse.path / "shop.eu.db" / "a.b", "k INT, v STRING", ("k",)).commit(*rows(1))
    assert "shop.eu.a.b ready" in warehouse.words("/")
    assert ">v1<" in warehouse.get("/tables/shop.eu.a.b/rows")


def test_folders_whose_names_are_not_text_hide_no_table(warehouse: Warehouse) -> None:
    warehouse.table("shop.orders").commit(*rows(1))
    database = warehouse.path / "shop.db"
    shutil.copytree(database / "orders", os.fsdecode(os.fsencode(database) + b"/orders\xff"))
    assert "1 table " in warehouse.words("/")


def test_a_quarantine_that_cannot_be_read_hides_no_table(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders")
    orders.commit(*rows(1))
    (warehouse.path / "epoch-1.jsonl").write_text('{"torn')
    quarantine = open_quarantine(str(warehouse.path), {})
    shown = table_page("shop.orders", orders.table, lambda: quarantine)
    assert shown.trees
    [problem] = shown.problems
    assert problem.parts == ("quarantine",)
    assert "a line is not a record of a quarantine" in str(problem.error)
    assert "epoch-1.jsonl" in str(problem.error)


def test_a_wrong_condition_is_answered_with_what_is_wrong(warehouse: Warehouse) -> None:
    warehouse.table("shop.orders").commit(*rows(1))
    words = warehouse.words("/tables/shop.orders/rows?" + urlencode({"where": "nosuch = 1"}))
    assert "nosuch" in words
    assert "To fix" in words


def test_changes_have_their_kinds(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", changelog_producer="input")
    orders.commit(*rows(1))
    orders.commit(("-D", {"k": 1, "v": "v1"}))
    orders.commit(
        ("+I", {"k": 2, "v": "v2"}), ("-U", {"k": 2, "v": "v2"}), ("+U", {"k": 2, "v": "w"})
    )
    text = warehouse.get("/tables/shop.orders/changes")
    kinds = re.findall(r'<tr class="(\w+)"><td><span class="kind">(..)<', text)
    assert kinds == [
        ("insert", "+I"), ("before", "-U"), ("after", "+U"), ("delete", "-D"), ("insert", "+I"),
    ], "the latest snapshot first"  # fmt: skip
    assert re.findall(r"<td>(\w+)</td><td>(\w+)</td>", text) == [
        ("2", "v2"), ("2", "v2"), ("2", "w"), ("1", "v1"), ("1", "v1"),
    ]  # fmt: skip
    assert "snapshot 3 3 changes +I 2 v2" in warehouse.words("/tables/shop.orders/changes")


def test_the_newest_changes_are_shown(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders", changelog_producer="input", consumer_id="own")
    for first in (0, 150):
        orders.commit(*rows(*range(first, first + 150)))
    names, shown = changes_of(orders.table, 5)
    assert names == ["snapshot", "rowkind", "k", "v"]
    assert [row[2] for row in shown] == [str(key) for key in range(100, 300)]
    assert {row[0] for row in shown} == {"1", "2"}
    assert {row[0] for row in changes_of(orders.table, 5, lambda: False)[1]} == {"2"}, "late"
    orders.commit(*rows(*range(201)))
    assert [row[2] for row in changes_of(orders.table, 5)[1]] == [str(k) for k in range(1, 201)]
    assert orders.table.consumers.consumers() == [], "a page is not a consumer"


def test_names_and_values_are_text_whatever_they_are(warehouse: Warehouse) -> None:
    name = "<b>odd&"
    odd = warehouse.table(f"shop.{name}", "k INT, `<i>v` STRING")
    odd.commit(("+I", {"k": 1, "<i>v": EVIL}))
    path = f"/tables/{quote('shop.' + name)}"
    for page in ("/", path, f"{path}/rows", f"{path}/changes"):
        text = warehouse.get(page)
        for part in (EVIL, "<b>odd", "<i>v"):
            assert part not in text, page
    assert "&lt;script&gt;" in warehouse.get(f"{path}/rows")
    assert "&lt;script&gt;" in warehouse.get(f"{path}/rows?{urlencode({'where': EVIL})}")


@pytest.mark.parametrize("name", ["shop.nosuch", "nosuch", "shop.", "..shop.orders"])
def test_an_unknown_table_is_not_found(warehouse: Warehouse, name: str) -> None:
    warehouse.table("shop.orders")
    for path in (f"/tables/{name}", f"/events/{name}"):
        assert "there is no table" in warehouse.get(path, status=404)


def test_a_foreign_name_of_the_server_is_refused(warehouse: Warehouse) -> None:
    assert "Tables" not in warehouse.get("/", status=400, host="evil.example")
    assert "Tables" in warehouse.get("/", host="localhost")


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        ("localhost", True),
        ("LOCALHOST.:8088", True),
        ("10.1.2.3:8088", True),
        ("[::1]:8088", True),
        ("page.example:443", True),
        ("www.page.example", False),
        ("127.0.0.1.evil.example", False),
        ("[evil", False),
        ("", False),
    ],
)
def test_the_server_answers_to_addresses_and_known_names(host: str, is_answered: bool) -> None:
    assert answers_to(host, {"localhost", "page.example"}) == is_answered


def test_secrets_are_on_no_page(tmp_path: Path) -> None:
    odd = "pass<w>ord & 'more'"
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, SystemClock(), Secrets([odd]))
    with serving_pages(site, "127.0.0.1", 0) as address:
        warehouse = Warehouse(tmp_path, address)
        warehouse.table(f"shop.{odd}").commit(("+I", {"k": 1, "v": odd}))
        path = f"/tables/{quote('shop.' + odd)}"
        for text in (warehouse.get("/"), *(warehouse.get(path + part) for part in ("", "/rows"))):
            assert HIDDEN in text
            assert odd not in unescape(text)


def test_pages_may_load_nothing_from_elsewhere(warehouse: Warehouse) -> None:
    with warehouse.response("/") as answer:
        policy = answer.headers["Content-Security-Policy"]
        text = answer.read().decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for source in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert source.startswith(("/", "#")), source


@pytest.mark.slow
def test_listeners_hear_of_a_new_snapshot(warehouse: Warehouse) -> None:
    orders = warehouse.table("shop.orders")
    orders.commit(*rows(1))
    for path in ("/events/shop.orders", "/events"):
        with warehouse.response(path) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            stream = versions(answer)
            first = next(stream)
            orders.commit(*rows(2))
            assert next(stream) != first


@pytest.mark.slow
def test_a_thousand_tables_are_listed(warehouse: Warehouse) -> None:
    first = warehouse.table("shop.t0")
    first.commit(*rows(1))
    schema = (warehouse.path / "shop.db/t0/schema/schema-0").read_bytes()
    for number in range(1, 1000):
        folder = warehouse.path / "shop.db" / f"t{number}" / "schema"
        folder.mkdir(parents=True)
        (folder / "schema-0").write_bytes(schema)
    assert "1,000 tables" in warehouse.words("/")
    assert len(re.findall(r'<th scope="row">', warehouse.get("/"))) == 1000


def test_epochs_are_stacked_bars_up_to_the_longest() -> None:
    history = EpochHistory()
    for epoch, seconds in enumerate((1.0, 4.0)):
        report = EpochReport(
            epoch=epoch,
            counts=DecodeCounts(message_count=100),
            durations=EpochSeconds(
                wait_s=seconds / 4,
                read_s=seconds / 16,
                decode_s=seconds / 16,
                route_s=seconds / 8,
                write_s=seconds / 4,
                commit_s=seconds / 4,
            ),
        )
        history.add("", report, epoch)
    chart = epoch_chart(history.epochs(""))
    assert chart is not None
    assert chart.messages_per_s == 40.0
    assert [tick.text for tick in chart.ticks] == ["2 s", "4 s"]
    short, long = chart.bars
    top, ground = chart.ticks[-1].y, 96
    heights = {kind: height for kind, _, height in long.rectangles}
    assert list(heights) == ["wait", "read", "decode", "route", "write", "commit"]
    assert sum(heights.values()) == pytest.approx(ground - top, abs=0.3)
    assert heights["wait"] == pytest.approx((ground - top) / 4, abs=0.1)
    assert heights["read"] == pytest.approx((ground - top) / 16, abs=0.1)
    assert sum(height for *_, height in short.rectangles) == pytest.approx(
        (ground - top) / 4, abs=0.3
    )
    assert short.x + short.width < long.x
    assert epoch_chart(history.epochs("other")) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (90061, "1 d 1 h"),
    ],
)
def test_ages_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert age_text(seconds) == text


def test_a_taken_port_is_reported(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    port = str(urlsplit(warehouse.server).port)
    code = main(["web", "--warehouse", str(warehouse.path), "--port", port])
    assert code == OPERATOR_NEEDED
    assert "choose another port" in capsys.readouterr().err


def test_a_warehouse_that_is_not_there_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["web", "--warehouse", str(tmp_path / "nowhere")]) == OPERATOR_NEEDED
    assert "there is no such warehouse" in capsys.readouterr().err
