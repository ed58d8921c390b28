"""The page of a job says why a table is in trouble, and how to fix it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from stream_app.app.observe.events.epoch_history import EpochHistory
from stream_app.app.table_setup.refused_tables import TABLES_MAX
from tests.support.jobs.busy_job import Busy
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import GARBAGE, creates
from tests.support.pages.job_page import TOKEN, block_table, page_of
from tests.support.pages.web_server import versions


@pytest.mark.slow
def test_a_source_table_that_is_refused_has_a_row_with_reason_and_remedy(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    odd = creates("shop.a/b", [1, 2])
    job.run(*creates("shop.items", [1]), *odd, GARBAGE)
    with page_of(job) as page, page.response("/events") as answer:
        first = next(stream := versions(answer))
        words = page.words("/")
        assert "2 tables, 1 in trouble" in words
        assert "quarantine 3 bad records that wait Bad messages without a table: 3" in words
        assert re.search(
            r"shop\.a/b refused (– )+2 shop\.a/b would become the table 'a/b': it holds '/' "
            r"to fix: name it by sync\.table-mapping; then start the job again, and replay",
            words,
        )
        assert "shop.a/b" in page.words("/?state=refused")
        assert "/tables/shop.a" not in page.get("/"), "it has no page"
        job.start(table_mapping={"a/b": "a_b"})
        job.run(*creates("shop.a/b", [3]))
        assert next(stream) != first
        words = page.words("/")
        assert "2 tables 1" not in words
        assert "refused" not in words
        assert re.search(r"ods\.a_b ready", words)


def test_many_refused_tables_do_not_make_a_page_endless(tmp_path: Path) -> None:
    job, names = DatabaseJob(tmp_path), TABLES_MAX + 10
    job.run(*(message for number in range(names) for message in creates(f"shop.a/{number}", [1])))
    with page_of(job) as page:
        words = page.words("/")
    assert f"{TABLES_MAX:,} tables, {TABLES_MAX:,} in trouble" in words


@pytest.mark.slow
def test_a_table_that_is_gone_says_how_it_comes_again(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.orders", [1]))
    shutil.rmtree(job.sync.path("orders"))
    with page_of(job) as page:
        for words in (page.words("/"), page.words("/tables/ods.orders", status=404)):
            assert re.search(r"missing .*to fix: start the job again: it creates the table", words)
        with page.response("/events/ods.orders") as answer:
            first = next(stream := versions(answer))
            job.start()
            job.run(*creates("shop.orders", [2]))
            assert next(stream) != first


def test_sorted_runs_are_known_before_the_job_writes(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    for key in range(3):
        job.run(*creates("shop.orders", [key]))
    history = EpochHistory()
    with page_of(job, history) as page:
        text = page.get("/")
        assert re.search(r'data-name="sorted runs">3</td>', text)
        history.watch("orders", Busy())
        text = page.get("/")
        assert re.search(r'data-name="sorted runs">6</td>', text), "as the job counts them"


def test_a_held_table_is_resumed_by_a_script(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    in_the_way = block_table(job, "orders")
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    form = {"action": "resume"}
    with page_of(job) as page:
        assert page.post("/tables/ods.orders/actions", form)[0] == 403
        form["token"] = TOKEN
        assert page.post("/tables/ods.items/actions", form)[0] == 303
        complaint = "resume failed the table 'items' is not held back"
        assert complaint in page.words("/tables/ods.items")
        assert page.post("/tables/ods.nosuch/actions", form)[0] == 404
        in_the_way.unlink()
        job.clock.sleep(1)
        assert page.post("/tables/ods.orders/actions", form)[0] == 303
        words = page.words("/tables/ods.orders", status=404)
        assert "resume done orders: the job tries it again" in words
        job.wait(0)
        assert "ods.orders ready" in page.words("/")
    assert job.rows("orders") == {1: "new 1"}
