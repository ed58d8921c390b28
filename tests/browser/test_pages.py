"""A real Chromium shows the pages: live updates, keyboard, phone, dark, assistive technology."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from stream_app.app.config.shown_job import shown_job
from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.serving import serving_pages
from stream_app.app.web.site import WarehouseSite
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY
from stream_app.table.analyze.recorded_proof import record_proof
from stream_app.table.opening import require_writable
from stream_app.table.upkeep.tags import create_tag, new_tag
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.busy_job import Busy
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import GARBAGE, bad, creates
from tests.support.pages.browser import HANG_MS, TOKEN, order
from tests.support.pages.job_page import block_table
from tests.support.tables.small_table import SmallTable, StandingClock, small_table

_PICTURES = Path(__file__).parents[2] / "docs" / "operate"


def test_a_new_snapshot_shows_and_takes_nothing_away(page: Page, orders: SmallTable) -> None:
    page.set_viewport_size({"width": 375, "height": 700})
    page.goto("/tables/shop.orders")
    expect(page.locator("#live")).to_have_text("live")
    bars = page.locator("section[aria-labelledby=latest-snapshots] svg rect")
    before = bars.count()
    page.locator("summary", has_text="Largest files").click()
    files = page.get_by_role("region", name="Largest files")
    files.evaluate("one => { one.scrollLeft = 200; }")
    page.evaluate("document.activeElement.blur(); window.same = true")
    orders.commit(order(9000))
    expect(bars).to_have_count(before + 1)
    latest = orders.table.snapshots.latest_id()
    expect(page.locator(".facts")).to_contain_text(f"snapshot {latest}")
    assert page.evaluate("window.same"), "the page was not loaded again"
    assert files.evaluate("one => one.scrollLeft") == 200
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.facts'))")
    orders.commit(order(9001))
    expect(page.locator("#live")).to_have_text("waits for the end of your selection")
    expect(bars).to_have_count(before + 1)
    page.evaluate("getSelection().empty()")
    expect(bars).to_have_count(before + 2)


def test_the_list_announces_a_new_table(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    expect(page.get_by_text("1 table", exact=True)).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_label("name", exact=True).fill("half a na")
    small_table(tmp_path / "shop.db" / "visits", "k INT, v STRING", ("k",))
    expect(page.get_by_text("2 tables", exact=True)).to_be_visible()
    expect(page.get_by_label("name", exact=True)).to_have_value("half a na")


class BadGateway(BaseHTTPRequestHandler):
    """A proxy whose server is away."""

    def do_GET(self) -> None:
        self.send_error(502)
        if self.path.startswith("/events"):
            self.server.is_asked.set()  # type: ignore[attr-defined]


def test_a_page_outlives_its_server(chromium: Browser, tmp_path: Path, orders: SmallTable) -> None:
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, StandingClock())
    with serving_pages(site, "127.0.0.1", 0) as address:
        page = chromium.new_page(base_url=address)
        page.set_default_timeout(HANG_MS)
        page.goto("/tables/shop.orders")
        expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#live")).to_have_text("not connected")
    orders.commit(order(9000))
    port = urlsplit(address).port or 0
    with ThreadingHTTPServer(("127.0.0.1", port), BadGateway) as proxy:
        proxy.is_asked = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        assert proxy.is_asked.wait(HANG_MS / 1000)  # type: ignore[attr-defined]
        proxy.shutdown()
    with serving_pages(site, "127.0.0.1", port):
        latest = orders.table.snapshots.latest_id()
        expect(page.locator(".facts")).to_contain_text(f"snapshot {latest}")
        expect(page.locator("#live")).to_have_text("live")
    page.close()


def test_hidden_tabs_leave_their_connections_to_others(
    chromium: Browser, page: Page, orders: SmallTable
) -> None:
    """Chromium has six to a server."""
    page.goto("/tables/shop.orders")
    context = chromium.new_context()
    context.set_default_timeout(HANG_MS)
    context.add_init_script("Object.defineProperty(document, 'hidden', {get: () => window.away})")
    turn = "away => { window.away = away; document.dispatchEvent(new Event('visibilitychange')); }"
    tabs = [context.new_page() for _ in range(7)]
    for tab in tabs:
        tab.goto(page.url)
        expect(tab.locator("#live")).to_have_text("live")
        tab.evaluate(turn, True)
    orders.commit(order(9000))
    tabs[0].evaluate(turn, False)
    latest = orders.table.snapshots.latest_id()
    expect(tabs[0].locator(".facts")).to_contain_text(f"snapshot {latest}")
    context.close()


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.get_by_role("link", name="shop.orders").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("shop.orders")
    page.get_by_role("link", name="Rows").focus()
    page.keyboard.press("Enter")
    page.get_by_label("condition").fill("id < 2")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_values_are_text(page: Page, orders: SmallTable) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    orders.commit(order(9001, evil))
    for path in ("rows?where=id+%3D+9001", "changes"):
        page.goto(f"/tables/shop.orders/{path}")
        expect(page.get_by_text(evil)).to_be_visible()
        assert page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("path", ["/", "/tables/shop.orders", "/tables/shop.orders/rows"])
def test_a_phone_scrolls_in_one_direction_only(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    report = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
    assert report.violations_count == 0, f"{path}: {report.generate_report()}"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.variant)])
def test_assistive_technology_finds_what_it_needs(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    table = "/tables/shop.orders"
    further = f"{table}/rows", f"{table}/changes", f"{table}/actions/tag", "/tables/nosuch"
    for path in ("/", table, *further):
        answer = page.goto(path)
        assert answer is not None
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        report = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
        assert report.violations_count == 0, f"{path}: {report.generate_report()}"


def test_the_panels_are_those_of_the_table(page: Page, orders: SmallTable) -> None:
    table = orders.table
    latest = table.snapshots.latest()
    assert latest is not None
    create_tag(table, new_tag(table, "before", latest.snapshot_id))
    page.goto("/tables/shop.orders")
    snapshots_backwards = list(table.snapshots.backwards())
    expect(page.locator("section[aria-labelledby=latest-snapshots] svg rect")).to_have_count(
        len(snapshots_backwards)
    )
    expect(page.locator(".marks")).to_have_text(f"snapshot {latest.snapshot_id}: tag before")
    entries = FileStoreScan(table).live(latest)
    runs = {(entry.bucket, entry.file.level or entry.file.file_name) for entry in entries}
    expect(page.locator("section[aria-labelledby=trees] svg rect")).to_have_count(len(runs))
    size = page.locator(".tile", has=page.get_by_text("size", exact=True))
    expect(size).to_contain_text(f"{len(entries)} files")
    rows = sum(entry.file.row_count for entry in entries)
    expect(size).to_contain_text(f"{rows:,} rows")
    page.locator("summary", has_text="Largest files").click()
    listed_rows = page.get_by_role("region", name="Largest files").locator("tbody tr")
    expect(listed_rows).to_have_count(len(entries))


def test_ages_grow_by_themselves(page: Page) -> None:
    page.goto("/tables/shop.orders")
    age = page.locator(".tile", has_text="changed").locator("[data-since]")
    before = age.inner_text()
    expect(age).not_to_have_text(before)


def test_an_open_page_shows_that_its_table_is_gone_and_back(page: Page, tmp_path: Path) -> None:
    page.goto("/tables/shop.orders")
    expect(page.locator("#live")).to_have_text("live")
    folder = tmp_path / "shop.db" / "orders"
    folder.rename(tmp_path / "away")
    expect(page.get_by_role("alert")).to_contain_text("there is no table shop.orders")
    (tmp_path / "away").rename(folder)
    expect(page.get_by_role("heading", name="LSM trees")).to_be_visible()


@pytest.mark.variant
def test_a_thousand_tables_are_searched_sorted_and_live(page: Page, tmp_path: Path) -> None:
    many_tables(tmp_path, 1000)
    page.goto("/")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1001)
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_label("name", exact=True).fill("T99")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(11)
    page.get_by_role("link", name="empty").click()
    expect(rows).to_have_count(11)
    page.get_by_label("name", exact=True).fill("")
    page.get_by_label("order").select_option("stalest first")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1000)
    small_table(tmp_path / "shop.db" / "new", "k INT, v STRING", ("k",))
    expect(rows).to_have_count(1001)


def many_tables(warehouse: Path, count: int) -> None:
    """Empty tables ``shop.t0`` and so on."""
    schema = (warehouse / "shop.db" / "orders" / "schema" / "schema-0").read_bytes()
    for number in range(count):
        folder = warehouse / "shop.db" / f"t{number}" / "schema"
        folder.mkdir(parents=True)
        (folder / "schema-0").write_bytes(schema)


_OUTSIDE = """() => {
    const list = document.querySelector('.list');
    const right = list.getBoundingClientRect().right;
    return [list.scrollWidth - list.clientWidth, ...[...list.querySelectorAll('th, td')]
        .filter(cell => cell.getBoundingClientRect().right > right).map(cell => cell.innerText)];
}"""
"""By how much the list scrolls, and its cells that are not to be seen."""


def test_the_list_of_a_job_in_trouble_fits_a_phone(chromium: Browser, tmp_path: Path) -> None:
    """REWRITE=1 also takes the picture in docs/operate again."""
    job, history = DatabaseJob(tmp_path), EpochHistory()
    block_table(job, "invoices")
    job.time_ms = job.clock.now_ms() - 7000
    long = "a_table_with_a_name_as_long_as_some_team_gives_it_for_a_good_reason"
    names = "orders", "items", "customers", "invoices", long
    job.run(*(message for name in names for message in creates(f"shop.{name}", [1])), GARBAGE)
    job.run(*creates("shop.orders", range(2, 5)), bad("shop.items", 2), *creates("shop.a/b", [1]))
    opened_table = require_writable(job.table("orders"))
    record_proof(opened_table, "jdbc:postgresql://db/shop shop.orders, at LSN 0/1A2B", "4 rows")
    history.watch("orders", Busy())
    counts = DecodeCounts(message_count=4200)
    report = EpochReport(epoch=1, counts=counts, durations=EpochSeconds(write_s=2))
    history.add("orders", report, job.clock.now_ms())
    site = JobSite(
        shown_job(job.config), job.checkpoint, job.clock, history,
        ask_ends=lambda _: {"all": {"0": len(job.sent) + 9}},
    )  # fmt: skip
    with serving_pages(site, "127.0.0.1", 0, TOKEN) as address:
        shown = chromium.new_page(base_url=address)
        shown.set_default_timeout(HANG_MS)
        for width, scheme in ((375, "dark"), (1280, "light")):
            shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            shown.set_viewport_size({"width": width, "height": 880})
            shown.goto("/")
            expect(shown.locator("#live")).to_have_text("live")
            assert shown.evaluate(_OUTSIDE) == [0]
            shown.get_by_text("Bad messages without a table").click()
            shown.get_by_text("not-json: 1 record").click()
            verdict = Axe().run(shown, options={"runOnly": ["wcag2a", "wcag2aa"]})
            assert verdict.violations_count == 0, verdict.generate_report()
        shown.goto("/")
        picture(shown, "web-tables", tmp_path, ".")
        shown.close()


def picture(page: Page, name: str, folder: Path, shown_as: str) -> None:
    """Check that the picture can be taken; REWRITE=1 writes it into docs/operate."""
    page.evaluate(
        "([folder, as]) => { const walk = document.createTreeWalker(document.body, 4);"
        " while (walk.nextNode()) walk.currentNode.data ="
        " walk.currentNode.data.replaceAll(folder, as); }",
        [str(folder), shown_as],
    )
    taken = (_PICTURES if os.environ.get("REWRITE") else folder) / f"{name}.png"
    page.screenshot(path=taken)
    assert taken.stat().st_size > 20_000


def test_the_picture_of_a_table(page: Page, orders: SmallTable, tmp_path: Path) -> None:
    create_tag(orders.table, new_tag(orders.table, "before", 9))
    for epoch in range(23):
        time = str(orders.table.clock.now_ms() - 700)
        changes = [order(key) for key in range(0, 3000, 7 + 5 * (epoch % 11))]
        orders.commit(*changes, properties={SOURCE_TIME_PROPERTY: time})
        if epoch % 5 == 4:
            orders.compact()
    page.set_viewport_size({"width": 1280, "height": 1040})
    page.goto("/tables/shop.orders")
    expect(page.locator("#live")).to_have_text("live")
    picture(page, "web", tmp_path, "./warehouse")
