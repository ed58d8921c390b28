"""A database snapshot has the tables of one database at one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import CorruptFileError, UsageError
from stream_app.model.database_snapshot import (
    DatabaseSnapshot,
    SourcePosition,
    TableSnapshot,
)
from stream_app.table.api.database_snapshots import SNAPSHOTS_FOLDER, database_snapshots
from tests.support.tables.small_table import SmallTable, small_table


class Shop:
    """Two tables, and snapshots of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "warehouse" / "shop.db"
        self.tables: dict[str, SmallTable] = {
            name: small_table(self.folder / name, "id INT NOT NULL, v INT", ("id",))
            for name in ("a", "b")
        }
        self.epoch = 0

    def step(self, v: int) -> DatabaseSnapshot:
        """Commit a row to both tables, and record that both belong together."""
        self.epoch += 1
        tables = {}
        for name, table in self.tables.items():
            table.commit(("+I", {"id": 1, "v": v}))
            latest = table.table.snapshots.latest()
            assert latest is not None
            tables[name] = TableSnapshot(latest.snapshot_id, latest.time_ms)
        return self.record(tables)

    def record(self, tables: dict[str, TableSnapshot], **left_out: str) -> DatabaseSnapshot:
        snapshot = DatabaseSnapshot(
            epoch=self.epoch,
            job="job",
            time_ms=self.epoch,
            sources={"shop": SourcePosition(f"70{self.epoch}:99", self.epoch)},
            tables=tables,
            left_out=left_out,
        )
        database_snapshots(str(self.folder), {}).add(snapshot)
        return snapshot


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def values(view: Any, table: str) -> list[int]:
    return view.read(table).read_all()["v"].to_pylist()


def test_tables_are_read_at_a_transaction_by_its_id_or_number(shop: Shop) -> None:
    database = stream_app.open_database(shop.folder)
    steps = [shop.step(v) for v in (10, 20, 30)]
    assert database.snapshots() == steps
    for name in ("702:99", "702"):
        view = database.as_of(transaction=name)
        assert view.tables == ["a", "b"]
        assert (values(view, "a"), values(view, "b")) == ([20], [20])
    assert values(database.as_of(), "a") == [30]
    assert values(stream_app.open_database("shop", warehouse=str(shop.folder.parent)).as_of(), "b")


def test_a_repeated_epoch_replaces_its_snapshot(shop: Shop) -> None:
    shop.step(10)
    shop.epoch = 0
    again = shop.step(20)
    assert stream_app.open_database(shop.folder).snapshots() == [again]


def test_a_transaction_without_a_snapshot_names_the_newest(shop: Shop) -> None:
    database = stream_app.open_database(shop.folder)
    with pytest.raises(UsageError, match="no snapshot of all tables"):
        database.as_of()
    shop.step(10)
    with pytest.raises(UsageError, match=r"at the transaction 9.*701:99"):
        database.as_of(transaction="9")


def test_a_table_that_was_held_says_so(shop: Shop) -> None:
    tables = shop.step(10).tables
    shop.epoch += 1
    shop.record({"a": tables["a"]}, b="it was held back: a TRUNCATE")
    view = stream_app.open_database(shop.folder).as_of()
    assert view.tables == ["a"]
    with pytest.raises(UsageError, match=r"table b does not belong .* it was held back: a TRUNC"):
        view.read("b")
    with pytest.raises(UsageError, match="table c does not belong"):
        view.read("c")


@pytest.mark.parametrize("lost", ["expired", "rolled back", "gone"])
def test_a_snapshot_goes_with_the_first_of_its_tables(shop: Shop, lost: str) -> None:
    database = stream_app.open_database(shop.folder)
    first, last = shop.step(10), shop.step(20)
    early = database.as_of(transaction="701")
    snapshots = shop.tables["a"].table.snapshots
    if lost == "expired":
        snapshots.delete(first.tables["a"].snapshot)
        snapshots.write_earliest_hint(last.tables["a"].snapshot)
        assert database.snapshots() == [last]
    elif lost == "rolled back":
        shop.record({**first.tables, "a": TableSnapshot(first.tables["a"].snapshot, 7)})
        early = database.as_of()
    else:
        snapshots.delete(first.tables["a"].snapshot)
    with pytest.raises(UsageError, match="of the table a has expired, or was rolled back"):
        early.read("a")
    assert values(early, "b")


def test_a_dropped_table_takes_its_snapshots_with_it(shop: Shop) -> None:
    shop.step(10)
    (shop.folder / "a").rename(shop.folder.parent / "elsewhere")
    assert stream_app.open_database(shop.folder).snapshots() == []


def _cut(text: str) -> str:
    return text[:40]


def _of_later_version(text: str) -> str:
    return json.dumps({**json.loads(text), "version": 2})


def _without_tables(text: str) -> str:
    return json.dumps({**json.loads(text), "tables": [1]})


@pytest.mark.parametrize("damage", [_cut, _of_later_version, _without_tables])
def test_a_damaged_snapshot_names_its_file(shop: Shop, damage: Callable[[str], str]) -> None:
    shop.step(10)
    [file] = (shop.folder / SNAPSHOTS_FOLDER).iterdir()
    file.write_text(damage(file.read_text()))
    with pytest.raises(CorruptFileError, match="the database snapshot is damaged"):
        stream_app.open_database(shop.folder).snapshots()


def test_other_files_of_the_folder_are_left_alone(shop: Shop) -> None:
    step = shop.step(10)
    for name in ("README", "5-job.json.tmp", ".5-job.json"):
        (shop.folder / SNAPSHOTS_FOLDER / name).write_text("{")
    assert stream_app.open_database(shop.folder).snapshots() == [step]


def test_read_takes_a_transaction(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.step(10)
    shop.step(20)
    read = ["read", str(shop.folder / "a"), "--format", "jsonl", "--as-of-database"]
    assert main([*read, "701"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 1, "v": 10}
    assert main([*read, "newest"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 1, "v": 20}
    assert main([*read, "700"]) == 2
    assert "no database snapshot is at the transaction 700" in capsys.readouterr().err


def test_read_refuses_a_branch_at_a_transaction(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """A branch numbers its own snapshots, and a database snapshot has those of the table."""
    shop.step(10)
    table = str(shop.folder / "a")
    assert main(["branch", "create", table, "b"]) == 0
    assert main(["read", f"{table}$branch_b", "--as-of-database", "701"]) == 2
    assert "the table is its branch 'b'" in capsys.readouterr().err
