"""The pages in a real Chromium: live updates, keyboard, phone, dark, assistive technology."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from stream_app.app.web.serving import serving
from stream_app.app.web.site import WarehouseSite
from stream_app.fileio.file_io_registry import file_io_of
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.small_table import SmallTable, StandingClock, small_table

_CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_PICTURE = Path(__file__).parents[2] / "docs" / "web.png"

pytestmark = pytest.mark.skipif(_CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def orders(tmp_path: Path) -> SmallTable:
    made = small_table(
        tmp_path / "shop.db" / "orders", "id BIGINT, customer STRING, amount DECIMAL(10, 2)",
        ("id",), bucket=2, changelog_producer="input", num_sorted_run__compaction_trigger=4,
    )  # fmt: skip
    for epoch in range(14):
        made.commit(*(order(key) for key in range(epoch * 40, epoch * 40 + 20 * (epoch % 5 + 1))))
        if epoch % 6 == 5:
            made.compact()
    return made


@pytest.fixture
def page(chromium: Browser, tmp_path: Path, orders: SmallTable) -> Iterator[Page]:
    """A page at the server of a warehouse; what its console complains of fails the test."""
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, orders.table.clock)
    with serving(site, "127.0.0.1", 0) as address:
        shown = chromium.new_page(base_url=address, viewport={"width": 1280, "height": 900})
        complaints: list[str] = []
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on(
            "console", lambda said: complaints.append(said.text) if said.type == "error" else None
        )
        shown.on("dialog", lambda dialog: complaints.append(dialog.message))
        yield shown
        shown.close()
        assert [one for one in complaints if "404 (Not Found)" not in one] == []


def order(key: int, customer: str = "Alma") -> tuple[str, dict[str, object]]:
    return "+I", {"id": key, "customer": customer, "amount": Decimal(key)}


def test_a_new_snapshot_shows_without_loading_the_page_again(
    page: Page, orders: SmallTable
) -> None:
    page.goto("/tables/shop.orders")
    expect(page.locator("#live")).to_have_text("live")
    bars = page.locator("section[aria-labelledby=newest] svg rect")
    before = bars.count()
    page.locator("summary", has_text="Options").click()
    page.evaluate("window.same = true")
    orders.commit(order(9000))
    expect(bars).to_have_count(before + 1)
    latest = orders.table.snapshots.latest_id()
    expect(page.locator(".facts")).to_contain_text(f"snapshot {latest}")
    expect(page.get_by_role("region", name="Options")).to_be_visible()
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_the_list_tells_of_a_new_table(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    expect(page.get_by_text("1 table", exact=True)).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    small_table(tmp_path / "shop.db" / "visits", "k INT, v STRING", ("k",))
    expect(page.get_by_text("2 tables", exact=True)).to_be_visible()


def test_a_server_that_is_gone_shows(chromium: Browser, tmp_path: Path) -> None:
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, StandingClock())
    with serving(site, "127.0.0.1", 0) as address:
        page = chromium.new_page(base_url=address)
        page.goto("/")
        expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#live")).to_have_text("not connected")
    page.close()


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_assistive_technology_finds_what_it_needs(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for path in ("/", "/tables/shop.orders", "/tables/shop.orders/rows", "/tables/nosuch"):
        answer = page.goto(path)
        assert answer is not None
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_the_picture_of_the_docs(page: Page, orders: SmallTable, tmp_path: Path) -> None:
    """With REWRITE=1 the picture in docs/ is taken anew; without, that it can be taken."""
    create_tag(orders.table, new_tag(orders.table, "before", 9))
    for epoch in range(23):
        orders.commit(*(order(key) for key in range(0, 3000, 7 + 5 * (epoch % 11))))
        if epoch % 5 == 4:
            orders.compact()
    page.goto("/tables/shop.orders")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("document.querySelector('.where').textContent = './warehouse'")
    taken = _PICTURE if os.environ.get("REWRITE") else tmp_path / "web.png"
    page.screenshot(path=taken, clip={"x": 0, "y": 0, "width": 1280, "height": 800})
    assert taken.stat().st_size > 20_000
