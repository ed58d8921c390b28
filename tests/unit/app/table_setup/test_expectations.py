"""A job takes each action for rows that break an expectation, and reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.checkpoint.job_state import state_or_empty
from stream_app.errors import ExpectationError
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import Message, a_row, change, creates

POSITIVE = "n-is-small"


def a_job(folder: Path, action: str | None, **more: str) -> DatabaseJob:
    settings = {"condition": "n < 10", **more} | ({} if action is None else {"action": action})
    return DatabaseJob(
        folder, expectations={f"{POSITIVE}.{key}": text for key, text in settings.items()}
    )


def an_update(key: int, n: int | None, text: str = "later") -> Message:
    row = {**a_row(key, text), "n": n}
    return change("shop.orders", row, a_row(key), lsn=100)


def a_delete(key: int) -> Message:
    return change("shop.orders", a_row(key), op="d", lsn=101)


def test_drop_keeps_the_row_that_the_table_has(tmp_path: Path) -> None:
    job = a_job(tmp_path, "drop")
    job.run(*creates("shop.orders", [1, 2, 3, 11]))
    job.run(an_update(1, 10), an_update(2, 9), an_update(3, None), a_delete(2))
    assert job.rows("orders") == {1: "new 1", 3: "new 3"}, "null is not true"
    assert job.quarantine("orders") == []
    [warning] = state_or_empty(job.checkpoint).warnings
    assert str(warning) == (
        "the table ods.orders: records break the expectation 'n-is-small', and the job drops their "
        "changes\n  to fix: correct the rows at their source, or change expectations.n-is-small"
    )


def test_a_record_goes_to_the_quarantine_by_default(tmp_path: Path) -> None:
    job = a_job(tmp_path, None)
    job.run(*creates("shop.orders", [1, 11]), an_update(1, 12))
    assert job.rows("orders") == {1: "new 1"}
    assert job.quarantine("orders") == ["breaks the expectation 'n-is-small': n < 10"] * 2


def test_an_expectation_of_another_table(tmp_path: Path) -> None:
    job = a_job(tmp_path, None, tables="items")
    job.run(*creates("shop.orders", [11]))
    assert job.rows("orders") == {11: "new 11"}


def test_a_delete_whose_image_breaks_it(tmp_path: Path) -> None:
    job = a_job(tmp_path, "fail")
    job.run(*creates("shop.orders", [1]))
    job.run(change("shop.orders", {**a_row(1), "n": 11}, op="d"))
    assert job.rows("orders") == {}


def test_hold_holds_the_table_and_no_other(tmp_path: Path) -> None:
    job = a_job(tmp_path, "hold", tables="or.*")
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [11]))
    job.run(*creates("shop.orders", [2, 12]), *creates("shop.items", [12]))
    assert job.rows("orders") == {1: "new 1"}, "nothing of the epoch"
    assert job.rows("items") == {11: "new 11", 12: "new 12"}
    [(name, reason)] = job.held().items()
    assert name == "orders"
    assert "records that break the expectation 'n-is-small': 1" in reason
    assert "topic all, partition 0, offset 3" in reason
    assert "change expectations.n-is-small" in reason


def test_fail_ends_the_job(tmp_path: Path) -> None:
    job = a_job(tmp_path, "fail")
    job.run(*creates("shop.orders", [1]))
    with pytest.raises(ExpectationError, match="that break the expectation 'n-is-small': 1"):
        job.run(*creates("shop.orders", [12]), *creates("shop.items", [2]))
    assert job.rows("orders") == {1: "new 1"}


def test_an_expectation_that_names_a_table_without_its_column(tmp_path: Path) -> None:
    """No row is published unjudged, and the reason says what to correct."""
    job = DatabaseJob(
        tmp_path,
        expectations={"p.condition": "price > 0", "p.tables": "orders", "q.condition": "cost > 0"},
    )
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    assert job.rows("items") == {1: "new 1"}
    [reason] = job.quarantine()
    assert "expectations.p.condition, for the table orders" in reason
    assert "unknown column 'price'" in reason
