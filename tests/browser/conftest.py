"""Fixtures start a Chromium and open a page at the server of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from stream_app.app.web.serving import serving_pages
from stream_app.app.web.site import WarehouseSite
from stream_app.fileio.store_registry import file_io_of
from tests.support.pages.browser import CHROMIUM, HANG_MS, TOKEN, order
from tests.support.tables.small_table import SmallTable, small_table

expect.set_options(timeout=HANG_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def orders(tmp_path: Path) -> SmallTable:
    table = small_table(
        tmp_path / "shop.db" / "orders", "id BIGINT, customer STRING, amount DECIMAL(10, 2)",
        ("id",), bucket=2, changelog_producer="input", num_sorted_run__compaction_trigger=4,
    )  # fmt: skip
    for epoch in range(14):
        table.commit(*(order(key) for key in range(epoch * 40, epoch * 40 + 20 * (epoch % 5 + 1))))
        if epoch % 6 == 5:
            table.compact()
    return table


@pytest.fixture
def page(chromium: Browser, tmp_path: Path, orders: SmallTable) -> Iterator[Page]:
    """A page at the server of a warehouse; what its console complains of fails the test."""
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, orders.table.clock)
    with serving_pages(site, "127.0.0.1", 0, TOKEN) as address:
        shown = chromium.new_page(base_url=address, viewport={"width": 1280, "height": 900})
        shown.set_default_timeout(HANG_MS)
        complaints: list[str] = []
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else None,
        )
        shown.on("dialog", lambda dialog: complaints.append(dialog.message))
        yield shown
        shown.close()
        refused_texts = "404 (Not Found)", "403 (Forbidden)"
        assert [
            complaint for complaint in complaints if not complaint.endswith(refused_texts)
        ] == []
