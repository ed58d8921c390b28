"""The pages run actions and show lists in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from stream_app.app.config.shown_job import shown_job
from stream_app.app.web.job_site import JobSite
from stream_app.app.web.serving import serving_pages
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import creates
from tests.support.pages.browser import HANG_MS, TOKEN
from tests.support.pages.job_page import block_table
from tests.support.tables.small_table import SmallTable, small_table


def test_the_keyboard_acts_with_the_token(page: Page, orders: SmallTable) -> None:
    for token in ("wrong" * 4, TOKEN):
        page.goto("/tables/shop.orders")
        page.get_by_role("link", name="Tag the latest snapshot").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("keeps the latest snapshot under a name")).to_be_visible()
        expect(page.get_by_label("name of the tag")).to_be_focused()
        page.keyboard.type("by-hand")
        page.keyboard.press("Tab")
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        if token != TOKEN:
            expect(page.get_by_role("alert")).to_contain_text("the token is wrong")
            assert orders.table.tags.names() == []
    expect(page.locator(".run.done")).to_contain_text("created tag 'by-hand'")
    assert orders.table.tags.names() == ["by-hand"]


def test_a_held_table_is_resumed(chromium: Browser, tmp_path: Path) -> None:
    """A user opens the list, enters the token on the page for it, and resumes the table."""
    job = DatabaseJob(tmp_path)
    in_the_way = block_table(job, "invoices")
    job.run(*creates("shop.orders", [1]), *creates("shop.invoices", [1, 2]))
    site = JobSite(shown_job(job.config), job.checkpoint, job.clock, ask_ends=lambda _: None)
    with serving_pages(site, "127.0.0.1", 0, TOKEN) as address:
        page = chromium.new_page(base_url=address, viewport={"width": 390, "height": 800})
        page.set_default_timeout(HANG_MS)
        page.goto("/")
        page.get_by_role("link", name="ods.invoices").click()
        expect(page.get_by_role("alert")).to_contain_text("the file system refused")
        expect(page.locator("#live")).to_have_text("live")
        page.get_by_role("link", name="Tables", exact=True).click()
        page.get_by_role("link", name="Resume").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Resume: ods.invoices")
        report = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
        assert report.violations_count == 0, report.generate_report()
        page.get_by_role("link", name="Cancel").click()
        assert not (tmp_path / "checkpoint" / "resume").exists(), "nobody has confirmed"
        in_the_way.unlink()
        job.clock.sleep(1)  # the job itself tries it again only after five
        page.get_by_role("link", name="Resume").click()
        page.get_by_label("token").fill(TOKEN)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".run.done")).to_contain_text("invoices: the job tries it again")
        job.wait(0)
        expect(page.get_by_role("heading", name="LSM trees")).to_be_visible()
        expect(page.locator(".title .state")).to_have_text("ready")
        page.close()
    assert job.rows("invoices") == {1: "new 1", 2: "new 2"}


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_lists_show_what_they_hold(page: Page, tmp_path: Path, width: int) -> None:
    """Long values break, what is wider than the page scrolls in its own frame, titles are once."""
    columns = ", ".join(f"a_column_with_a_long_name_{number} STRING" for number in range(40))
    wide = small_table(tmp_path / "shop.db" / "wide", f"id BIGINT, {columns}", ("id",))
    text = {f"a_column_with_a_long_name_{number}": "a text " * 20 for number in range(40)}
    wide.commit(("+I", {"id": 1, **text}))
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("", "/rows", "/changes"):
        page.goto(f"/tables/shop.wide{path}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        widest = page.evaluate(
            "Math.max(...[...document.querySelectorAll('td')].map(cell => cell.offsetWidth))"
        )
        assert widest <= max(width, 700), "a value is as wide as a page at most"
    page.goto("/tables/shop.wide")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for title in ("Columns", "Snapshots", "Schemas", "Options"):
        assert count_shown(page, title) == 1, title


def count_shown(page: Page, text: str) -> int:
    """Return how often the page shows a text."""
    return int(
        page.evaluate(
            "text => document.querySelector('main').innerText.split('\\n')"
            ".filter(line => line.trim().startsWith(text)).length",
            text,
        )
    )
