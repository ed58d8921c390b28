"""A job of a database creates tables that keep every version of a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.sync_config import TableSetting
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.errors import UsageError
from stream_app.model.files.index_file_meta import IndexFileMeta
from stream_app.planning.schema.schema_changes import DropColumn, SetOption
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import alter_table
from stream_app.table.versions.index_manifests import index_manifest
from tests.support.histories.auto_cdc import Event, Version, versions_of
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.table_writer import read_rows
from tests.support.messages.database_topic import Message, change
from tests.support.tables.snapshot_chain import check_chain

HISTORY = {
    "orders.options.history": TableSetting("true"),
    "orders.options.bucket": TableSetting("2"),
    "orders.options.history.untracked-columns": TableSetting("n"),
}
UNSENT = "__debezium_unavailable_value"


def millis(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def versions(job: DatabaseJob, name: str) -> list[tuple[Any, ...]]:
    """Key, start and end in ms, whether it holds, and the values."""
    rows = read_rows(job.table(name))
    shown = [
        (row["id"], millis(row["valid_from"]), millis(row["valid_to"]), row["is_current"])
        for row in rows
    ]
    values = [(row["v"], row["n"]) for row in rows]
    return sorted((*version, *pair) for version, pair in zip(shown, values, strict=True))


def test_one_table_of_a_database_keeps_versions(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, restores=True, tables=HISTORY)
    row = {"id": 1, "v": "a", "n": 1}
    job.run(
        change("shop.orders", row, at_ms=1000),
        change("shop.customers", row, at_ms=1000),
        change("shop.orders", {**row, "n": 2}, row, at_ms=2000),
    )
    table = job.table("orders")
    assert table.schema.primary_keys == ("id", "valid_from")
    assert table.schema.bucket_keys == ("id",)
    assert versions(job, "orders") == [(1, 1000, None, True, "a", 2)]
    job.run(
        change("shop.orders", {**row, "v": "b"}, row, at_ms=3000),
        change("shop.orders", {**row, "v": UNSENT, "n": 5}, op="u", at_ms=4000),
        change("shop.customers", {**row, "v": "b"}, row, at_ms=3000),
    )
    assert versions(job, "orders") == [
        (1, 1000, 3000, False, "a", 2),
        (1, 3000, None, True, "b", 5),
    ]
    job.start()
    job.run(change("shop.orders", row, op="d", at_ms=5000))
    assert versions(job, "orders") == [
        (1, 1000, 3000, False, "a", 2),
        (1, 3000, 5000, False, "b", 5),
    ]
    assert job.rows("customers") == {1: "b"}
    assert not job.held()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true", "history.untracked-columns": "n"},
        {"changelog-producer": "lookup", "file.format": "orc"},
        {
            "changelog-producer": "input",
            "write-buffer-size": "800 b",
            "write-buffer-spillable": "false",
        },
        {
            "changelog-producer": "full-compaction",
            "write-buffer-size": "800 b",
            "history.untracked-columns": "n",
        },
    ],
    ids=["vectors", "lookup", "flushes", "spills"],
)
def test_versions_are_those_of_auto_cdc_whatever_files_hold_them(
    tmp_path: Path, options: dict[str, str], seed: int
) -> None:
    random = Random(seed)
    settings = {**{key.removeprefix("orders.options."): value for key, value in HISTORY.items()}}
    del settings["history.untracked-columns"]
    settings |= {key: TableSetting(text) for key, text in options.items()}
    job = DatabaseJob(
        tmp_path, tables={f"orders.options.{key}": setting for key, setting in settings.items()}
    )
    events: list[Event] = []
    moment = 1000
    is_untracked = "history.untracked-columns" in options
    for epoch in range(6):
        messages = []
        for number in range(40):
            moment += random.choice([0, 1, 5])
            time_ms = moment - random.choice([0, 0, 0, 2, 9, 50])
            value = random.choice([None, "x", "y", "z"])
            n = 40 * epoch + number if is_untracked and value else 0
            events.append(Event(random.randrange(9), time_ms, value, n))
            row = {"id": events[-1].key, "v": value, "n": n}
            op = "u" if value else "d"
            messages.append(change("shop.orders", row, op=op, at_ms=time_ms))
        job.run(*messages)
        if epoch == 3:
            job.start()
    job.wait()
    assert [
        Version(key, start, end, value, n)
        for key, start, end, _, value, n in versions(job, "orders")
    ] == versions_of(events)
    check_chain(job.table("orders"))


def test_a_late_change_ends_where_a_hidden_one_begins(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    image = {"id": 1, "v": "a", "n": 1}
    job.run(change("shop.orders", image, at_ms=1000))
    job.run(
        change("shop.orders", {**image, "n": 2}, image, at_ms=3000),
        change("shop.orders", {"id": 2, "v": "b", "n": 2}, op="d", at_ms=3000),
    )
    assert versions(job, "orders") == [(1, 1000, None, True, "a", 2)]
    job.start()
    job.run(
        change("shop.orders", {**image, "v": "late", "n": 7}, image, at_ms=2000),
        change("shop.orders", {"id": 2, "v": "late", "n": 7}, at_ms=2000),
    )
    assert versions(job, "orders") == [
        (1, 1000, 2000, False, "a", 1),
        (1, 2000, 3000, False, "late", 7),
        (1, 3000, None, True, "a", 2),
        (2, 2000, 3000, False, "late", 7),
    ]


def hidden_files(table: FileStoreTable) -> list[IndexFileMeta]:
    """The files of hidden changes in the latest snapshot."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    entries = index_manifest(table, snapshot.index_manifest).entries
    return [entry.index_file for entry in entries if entry.holds_hidden_changes]


@pytest.mark.slow
def test_hidden_changes_are_few_files_and_go_when_they_are_old(tmp_path: Path) -> None:
    late = {"orders.options.history.late-changes": TableSetting("10 s")}
    job = DatabaseJob(tmp_path, tables=HISTORY | late)
    image = {"id": 1, "v": "a", "n": 1}
    for second in range(1, 33):
        job.run(change("shop.orders", image, at_ms=1000 * second))
    table = job.table("orders")
    hidden = hidden_files(table)
    assert 1 <= len(hidden) <= 4
    assert 10 <= sum(file.row_count for file in hidden) <= 22
    on_disk = [path.name for path in Path(table.location).rglob("hidden-*")]
    assert {file.file_name for file in hidden} <= set(on_disk)
    check_chain(table)


def orders(keys: Sequence[int], value: str, at_ms: int, op: str = "u") -> list[Message]:
    rows = [{"id": key, "v": value, "n": 1} for key in keys]
    return [change("shop.orders", row, op=op, at_ms=at_ms) for row in rows]


@pytest.mark.parametrize("op", ["u", "d"])
def test_a_hidden_change_that_was_replaced_has_no_effect(tmp_path: Path, op: str) -> None:
    """The replacing change is dropped with a small file; the replaced one stays in a large file."""
    late = {"orders.options.history.late-changes": TableSetting("10 s")}
    job = DatabaseJob(
        tmp_path, tables=HISTORY | late | {"orders.options.bucket": TableSetting("1")}
    )
    many, others = range(1, 60), range(5, 60)
    job.run(*orders(many, "bern", 1000, op), *orders(many, "bern", 2000, op))
    job.run(*orders(others, "bern", 9500, op))
    job.run(*orders([1], "basel", 2000))
    job.run(*orders([99], "x", 12_500), *orders([99], "x", 12_600))
    job.run(*orders([1], "oslo", 9000))
    rows = [row[1:3] + row[4:5] for row in versions(job, "orders") if row[0] == 1]
    bern = [(1000, 2000, "bern")] if op == "u" else []
    assert rows == [*bern, (2000, 9000, "basel"), (9000, None, "oslo")]


def test_the_job_warns_once_of_changes_that_come_too_late(tmp_path: Path) -> None:
    late = {"orders.options.history.late-changes": TableSetting("10 s")}
    job = DatabaseJob(tmp_path, tables=HISTORY | late)
    job.run(*orders([1], "bern", 1000), *orders([1], "bern", 30_000))
    job.run(*orders([1], "oslo", 25_000))
    assert not state_or_empty(job.checkpoint).warnings
    job.run(*orders([1], "basel", 5000), *orders([1], "basel", 6000))
    job.run(*orders([1], "kiel", 4000))
    [warning] = state_or_empty(job.checkpoint).warnings
    assert warning.table.endswith(".orders")
    assert warning.problem == (
        "changes came later than history.late-changes, so a version may last too long"
    )


def test_hidden_changes_from_before_a_pause_have_no_wrong_effect(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    job.run(*orders([1], "bern", 1000), *orders([1], "bern", 2000), *orders([2], "x", 2000, "d"))
    for late, values in (("0 s", [("basel", 2000)]), ("2000000000 d", [("oslo", 1500)])):
        alter_table(job.table("orders"), [SetOption(key="history.late-changes", value=late)])
        job.start()
        job.run(*(m for value, at_ms in values for m in orders([1, 2], value, at_ms)))
    assert [row[:3] + row[4:5] for row in versions(job, "orders")] == [
        (1, 1000, 1500, "bern"),
        (1, 1500, 2000, "oslo"),
        (1, 2000, None, "basel"),
        (2, 1500, 2000, "oslo"),
        (2, 2000, None, "basel"),
    ]


def test_hidden_changes_follow_the_columns(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    image = {"id": 1, "v": "a", "n": 1}
    job.run(change("shop.orders", image, at_ms=1000), change("shop.orders", image, at_ms=5000))
    more = {**image, "note": "new"}
    job.run(change("shop.orders", more, image, at_ms=6000))
    job.run(change("shop.orders", {**more, "v": "b"}, image, at_ms=4000))
    rows = sorted(read_rows(job.table("orders")), key=lambda row: row["valid_from"])
    assert [(row["v"], row["note"], millis(row["valid_from"])) for row in rows] == [
        ("a", None, 1000),
        ("b", "new", 4000),
        ("a", None, 5000),
        ("a", "new", 6000),
    ]


def test_a_history_follows_new_columns(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    image = {"id": 1, "v": "a", "n": 1}
    job.run(change("shop.orders", image, at_ms=1000))
    job.run(change("shop.orders", {**image, "note": "new"}, image, at_ms=2000))
    rows = sorted(read_rows(job.table("orders")), key=lambda row: row["valid_from"])
    assert [(row["note"], row["is_current"]) for row in rows] == [(None, False), ("new", True)]


def test_a_table_that_keeps_the_newest_rows_stays_as_it_is(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    row = {"id": 1, "v": "a", "n": 1}
    job.run(change("shop.orders", row, at_ms=1000))
    job.start(options={"history": "true"})
    job.run(change("shop.orders", {**row, "v": "b"}, row, at_ms=2000))
    assert job.table("orders").schema.fields.names == ("id", "v", "n")
    assert job.rows("orders") == {1: "b"}


def test_a_column_of_the_history_cannot_be_dropped(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    job.run(change("shop.orders", {"id": 1, "v": "a", "n": 1}, at_ms=1000))
    with pytest.raises(
        UsageError, match=r"history\.valid-to names 'valid_to', which is not a column"
    ):
        alter_table(job.table("orders"), [DropColumn(name="valid_to")])


def test_a_rescale_says_that_it_drops_hidden_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = DatabaseJob(tmp_path, tables=HISTORY)
    job.run(*orders([1, 2, 3], "a", 1000), *orders([1, 2, 3], "a", 2000))
    location = job.table("orders").location
    assert main(["rescale", location, "--buckets", "3", "--dry-run"]) == 0
    assert "their hidden changes are dropped" in capsys.readouterr().out
    assert main(["rescale", location, "--buckets", "3"]) == 0
    assert list(hidden_files(job.table("orders"))) == []
