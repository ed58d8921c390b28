"""``catalogs.toml`` declares catalogs, and CATALOG.DATABASE.TABLE names their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.catalog.catalog_options import METASTORE, OPTIONS_OF_KIND
from stream_app.catalog.catalog_registry import _KINDS
from stream_app.catalog.catalogs_file import catalog_of_name, split_table_name
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.errors import StorageError, StreamAppError, TableNotFoundError, UsageError
from tests.support.tables.small_table import small_table

LAKE = """
[lake]
warehouse = "warehouse"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("lake.shop.orders", ("lake", Identifier("shop", "orders"))),
        ("shop.orders", None),
        ("lake.shop.orders.x", None),
        ("./lake.shop.orders", None),
        ("s3://lake.shop.orders", None),
        ("lake..orders", None),
    ],
)
def test_names_of_three_parts(text: str, parts: object) -> None:
    assert split_table_name(text) == parts


def test_a_table_is_read_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "catalogs.toml").write_text(LAKE)
    small_table(folder / "warehouse/shop.db/orders", "k INT").commit(("+I", {"k": 7}))
    assert stream_app.open_table("lake.shop.orders").read().read_all().to_pylist() == [{"k": 7}]
    options = {"warehouse": str(folder / "warehouse")}
    assert stream_app.open_table("shop.orders", catalog=options).location.endswith("shop.db/orders")
    assert main(["read", "lake.shop.orders", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ['"k"', "7"]
    assert main(["read", "lake.shop.order"]) == 2
    assert "no Paimon table: there is no folder" in capsys.readouterr().err


def test_a_folder_of_that_name_comes_first(folder: Path) -> None:
    small_table(folder / "lake.shop.orders", "k INT").commit(("+I", {"k": 1}))
    assert stream_app.open_table("lake.shop.orders").read().read_all().num_rows == 1


def test_the_variable_names_another_file_and_values_refer_to_others(folder: Path) -> None:
    (folder / "other.toml").write_text('[lake]\nwarehouse = "${env:ROOT}/w"\ns3.path.style = true')
    environ = {"STREAM_APP_CATALOGS": "other.toml", "ROOT": str(folder)}
    assert catalog_of_name("lake", SystemClock(), environ).label == f"{folder}/w"


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        (None, "lake", "the file of catalogs cannot be read"),
        ("[lake", "lake", "is not TOML"),
        (LAKE, "lak", "did you mean 'lake'"),
        ("[lake]\nwarehose = 'w'", "lake", "did you mean 'warehouse'"),
        ("[lake]\nmetastore = 'glue'", "lake", "metastore.*'glue' is not supported"),
        ("[lake]\nmetastore = 'jdbc'", "lake", "has no warehouse"),
        ("[lake]\ntable-default.bukket = 1", "lake", "table-default.bukket: .*'bucket'"),
        ("[lake]\ntable-default.bucket = 'x'", "lake", "table-default.bucket: "),
        ("[lake]\nuri = 'x'", "lake", "uri: has no effect with metastore = filesystem"),
        ("[lake]\nmetastore = 'jdbc'\ntoken = 'x'", "lake", "token: has no effect"),
        ("[lake]\nmetastore = 'rest'\nlock.enabled = true", "lake", "lock.enabled: has no effect"),
        ("[lake]\nwarehouse = '${env:NOT_THERE}'", "lake", "there is no such variable"),
        (
            "[lake]\nwarehouse = 'w'\nmetastore = 'jdbc'\nuri = 'jdbc:oracle:x'",
            "lake",
            "not a URL of a database",
        ),
    ],
)
def test_the_error_names_the_fault_of_the_catalogs_file(
    folder: Path, text: str | None, name: str, problem: str
) -> None:
    if text is not None:
        (folder / "catalogs.toml").write_text(text)
    with pytest.raises(UsageError, match=problem):
        stream_app.open_table(f"{name}.shop.orders")


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("jdbc:postgresql://127.0.0.1:1/x?user=u&password=hush-hush", StorageError),
        ("jdbc:mysql://u:hush-hush@127.0.0.1:1/x", StorageError),
        ("jdbc:sqlite:no/such/folder/c.db", StorageError),
    ],
)
def test_a_database_that_does_not_answer(
    folder: Path, uri: str, kind: type[StreamAppError]
) -> None:
    catalog = {"metastore": "jdbc", "uri": uri, "warehouse": str(folder)}
    with pytest.raises(kind, match="the catalog's database refused") as error:
        stream_app.open_table("shop.orders", catalog=catalog)
    assert "hush" not in str(error.value)
    assert "jdbc.password" in error.value.fix


def test_names_that_are_not_tables(folder: Path) -> None:
    with pytest.raises(UsageError, match="write DATABASE"):
        stream_app.open_table("orders", catalog={"warehouse": str(folder)})
    with pytest.raises(TableNotFoundError):
        stream_app.open_table("shop.orders", catalog={"warehouse": str(folder)})


def test_every_kind_of_catalog_has_its_options() -> None:
    assert METASTORE.only == tuple(OPTIONS_OF_KIND) == tuple(_KINDS)
