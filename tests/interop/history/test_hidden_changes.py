"""Paimon's engines carry the index files of hidden changes, and do not read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.config.sync_config import TableSetting
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.messages.database_topic import change

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

HISTORY = {
    "orders.options.history": TableSetting("true"),
    "orders.options.bucket": TableSetting("1"),
}


def test_a_late_change_gets_its_place_after_java_has_compacted_and_expired(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path
) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    row = {"id": 1, "v": "a", "n": 1}
    job.run(change("shop.orders", row, at_ms=1000))
    job.run(
        change("shop.orders", row, row, at_ms=3000),
        change("shop.orders", {"id": 2, "v": "b", "n": 2}, op="d", at_ms=3000),
    )
    job.wait()
    location = job.table("orders").location
    assert [version["v"] for version in paimon_java.read(location)] == ["a"]
    assert by_content(normal_rows(pypaimon.read(location))) == by_content(
        paimon_java.read(location)
    )
    paimon_java.compact(location)
    paimon_java.expire(location, retain_max=1)
    job.start()
    job.run(
        change("shop.orders", {**row, "v": "late"}, row, at_ms=2000),
        change("shop.orders", {"id": 2, "v": "late", "n": 2}, at_ms=2000),
    )
    job.wait()
    assert not job.held()
    rows = paimon_java.read(location)
    assert sorted((row["id"], row["v"], row["is_current"]) for row in rows) == [
        (1, "a", False),
        (1, "a", True),
        (1, "late", False),
        (2, "late", False),
    ]
    assert by_content(normal_rows(pypaimon.read(location))) == by_content(rows)
