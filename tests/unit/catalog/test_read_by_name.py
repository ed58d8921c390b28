"""`stream-app read` opens a table by its name in a catalog, as all other commands do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.model.database_snapshot import DatabaseSnapshot, SourcePosition, TableSnapshot
from stream_app.table.api.database_snapshots import database_snapshots
from stream_app.table.opening import create_or_open_in_catalog
from tests.support.tables.small_table import SmallTable, small_table

NAME = "shop.orders"


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of a catalog, whose table has the values 10 and 20 in two snapshots.

    The current folder has another table of this name, in the default warehouse.
    """
    monkeypatch.chdir(tmp_path)
    other = small_table("warehouse/shop.db/orders", "id INT NOT NULL, v INT", ("id",))
    other.commit(("+I", {"id": 1, "v": -1}))
    catalog_options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "warehouse": f"{tmp_path}/lake",
    }
    catalog = open_catalog(catalog_options, SystemClock())
    table = SmallTable(
        create_or_open_in_catalog(catalog, Identifier("shop", "orders"), other.table.schema)
    )
    for value in (10, 20):
        table.commit(("+I", {"id": 1, "v": value}))
    return catalog_options


def value_read(capsys: pytest.CaptureFixture[str], *words: str) -> int:
    """Return the value of the one row that the command prints."""
    assert main(["read", *words, "--format", "jsonl"]) == 0
    return int(json.loads(capsys.readouterr().out)["v"])


def test_a_name_in_the_catalog_of_the_environment(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert value_read(capsys, NAME) == -1
    for key, value in options.items():
        monkeypatch.setenv(f"STREAM_APP_CATALOG__{key.upper()}", value)
    assert value_read(capsys, NAME) == 20
    assert value_read(capsys, NAME, "--snapshot", "1") == 10
    assert value_read(capsys, "warehouse/shop.db/orders") == -1, "a folder is no name"


def test_a_transaction_of_a_table_in_the_file_of_catalogs(
    options: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in options.items()]
    (tmp_path / "catalogs.toml").write_text("".join(["[lake]\n", *lines]))
    words = (f"lake.{NAME}", "--as-of-database", "newest")
    assert main(["read", *words]) == 2
    assert "the database has no snapshot of all tables" in capsys.readouterr().err
    catalog = open_catalog(options, SystemClock())
    catalog_table = catalog.table(Identifier("shop", "orders"))
    assert catalog_table is not None
    folder = Path(catalog_table.location).parent
    first_snapshot = json.loads((Path(catalog_table.location) / "snapshot/snapshot-1").read_text())
    database_snapshots(str(folder), {}).add(
        DatabaseSnapshot(
            epoch=1,
            job="job",
            time_ms=1,
            sources={"shop": SourcePosition("701:99", 1)},
            tables={"orders": TableSnapshot(1, first_snapshot["timeMillis"])},
        )
    )
    assert value_read(capsys, *words) == 10
