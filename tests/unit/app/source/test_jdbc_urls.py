"""``stream-app init --from-jdbc`` parses URLs of databases, and refuses the others."""

from __future__ import annotations

import shlex
import sys

import pytest

from stream_app.app.cli.main import main
from stream_app.errors import UsageError
from stream_app.network.jdbc import parse_jdbc_url

COMMON = ["init", "--bootstrap-servers", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("jdbc:postgresql://db/shop", ("db", 5432, "shop", "", "")),
        ("jdbc:postgresql://db:1/shop?user=a&password=b&ssl=true", ("db", 1, "shop", "a", "b")),
        ("jdbc:mysql://a:p%40ss@db/shop", ("db", 3306, "shop", "a", "p@ss")),
        ("jdbc:mariadb://[::1]:7/shop", ("::1", 7, "shop", "", "")),
        ("jdbc:sqlite:/tmp/catalog.db", ("", 0, "/tmp/catalog.db", "", "")),
        ("jdbc:sqlite:file:catalog.db?cache=shared", ("", 0, "catalog.db", "", "")),
    ],
)
def test_parts_of_a_url(text: str, parts: tuple[object, ...]) -> None:
    url = parse_jdbc_url(text, "uri")
    assert (url.host, url.port, url.database, url.user, url.password) == parts
    assert "pass" not in str(url)


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:oracle:thin:@db:1521/x",
        "postgresql://db/shop",
        "jdbc:mysql://u:pw1@db",
        "jdbc:mysql:",
        "jdbc:sqlite:",
        "jdbc:sqlite::memory:",
    ],
)
def test_other_urls_are_refused_without_their_password(text: str) -> None:
    with pytest.raises(UsageError, match="not a URL of a database that can be read") as error:
        parse_jdbc_url(text, "uri")
    assert "pw1" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--from-jdbc", "jdbc:mysql://db/shop"], "--from-jdbc needs --topic"),
        (["--from-topic", "t", "--table", "x"], "--table and --topic are for --from-jdbc"),
    ],
)
def test_arguments_that_do_not_fit(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMON, *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_driver_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)  # as where it is not installed
    assert main([*COMMON, "--from-jdbc", "jdbc:mysql://127.0.0.1:1/shop", "--topic", "t"]) == 2
    error = capsys.readouterr().err
    assert "mysql needs pymysql, which is not installed" in error
    assert f"{shlex.quote(sys.executable)} -m pip install 'stream_app[jdbc]'" in error


def test_a_database_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMON, "--from-jdbc", "jdbc:mysql://127.0.0.1:1/shop", "--topic", "t"]) != 0
    assert "the database cannot be read" in capsys.readouterr().err
