"""A table of a database may have its own rule for columns that differ."""

from __future__ import annotations

from pathlib import Path

from stream_app.app.config.sync_config import TableSetting
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import Message, a_row, change, creates


def renamed_row(origin: str, key: int) -> Message:
    """A row whose column ``v`` has the name ``note`` by now."""
    row = a_row(key)
    return change(origin, {"id": key, "note": row["v"], "n": row["n"]})


def test_tables_have_their_own_rules_for_unknown_and_missing_columns(tmp_path: Path) -> None:
    tables = {
        "a.column-aliases": TableSetting("note=v"),
        "b.unknown-columns": TableSetting("stop"),
        "c.missing-columns": TableSetting("quarantine"),
    }
    names = "abcd"
    job = DatabaseJob(tmp_path)
    job.run(*(message for name in names for message in creates(f"shop.{name}", [1])))
    job.start(tables=tables)
    job.run(*(renamed_row(f"shop.{name}", 2) for name in names))
    assert job.rows("a") == {1: "new 1", 2: "new 2"}
    assert "column 'note' is not in the table" in job.held()["b"]
    assert ["'v' is missing" in reason for reason in job.quarantine("c")] == [True]
    assert job.rows("d") == {1: "new 1", 2: None}
    assert [job.table(name).schema.schema_id for name in "ab"] == [0, 0]


def test_an_alias_that_does_not_fit_keeps_its_table_alone_from_being_made(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables={"a.column-aliases": TableSetting("note=gone")})
    job.run(*creates("shop.a", [1]), *creates("shop.b", [1]))
    assert job.rows("b") == {1: "new 1"}
    assert "the table has no column 'gone'" in job.quarantine()[0]
